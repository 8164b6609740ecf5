"""The reset policies of auto_offset_reset, and the special timestamps of ListOffsets.

Elsewhere: the requests (`list_offsets`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kclient.errors import ConfigError

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


class ResetPolicy(NamedTuple):
    """One of Kafka's reset policies; `duration_ms` belongs to by_duration."""

    name: str
    duration_ms: int = 0

    def timestamp(self, wall_ms: int) -> int:
        """Return the timestamp for ListOffsets: a special one, or milliseconds since the epoch."""
        if self.name == "earliest":
            return EARLIEST_TIMESTAMP
        if self.name == "latest":
            return LATEST_TIMESTAMP
        return max(0, wall_ms - self.duration_ms)


EARLIEST = ResetPolicy("earliest")
LATEST = ResetPolicy("latest")
NONE = ResetPolicy("none")


def parse_policy(text: str) -> ResetPolicy:
    """Parse the option auto_offset_reset (KIP-1106 for by_duration).

    Raises:
        ConfigError: it is not one of "earliest", "latest", "none", "by_duration:<ISO 8601 duration>".
    """
    if text in ("earliest", "latest", "none"):
        return ResetPolicy(text)
    kind, _, duration = text.partition(":")
    if kind == "by_duration":
        return ResetPolicy("by_duration", parse_duration(duration))
    raise ConfigError(
        f'auto_offset_reset must be "earliest", "latest", "none" or "by_duration:PT1H" (ISO 8601), not {text!r}'
    )


def parse_duration(text: str) -> int:
    """Return the milliseconds of an ISO 8601 duration.

    Raises:
        ConfigError: the text is not such a duration.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ConfigError(f'by_duration needs an ISO 8601 duration such as "PT1H30M" or "P7D", not {text!r}')
    parts = {name: float(value or 0) for name, value in match.groupdict().items()}
    seconds = parts["days"] * 86_400 + parts["hours"] * 3_600 + parts["minutes"] * 60 + parts["seconds"]
    return round(seconds * 1_000)
