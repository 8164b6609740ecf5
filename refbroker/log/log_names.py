"""What the directories of logs are called, and what a name says of the log in it.

    orders-0                                                  the log of a partition
    orders-0.3f2504e04f8941d39a0c0305e82c3301-delete          on its way out
    orders-0.3f2504e04f8941d39a0c0305e82c3301-future          being filled, to take another's place
    orders-0.3f2504e04f8941d39a0c0305e82c3301-stray           of a partition that this broker does not have

The id makes a new name each time. A topic's name is cut where the whole would be too long for a directory, except in
the name of a future log, from which the topic must be known again.
"""

from __future__ import annotations

import enum
import re
import uuid
from typing import NamedTuple

LONGEST_NAME = 255
"""Bytes that a directory's name may have."""

_LOG_NAME = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)(?:\.[a-zA-Z0-9_]+-(?P<kind>delete|future|stray))?"
)


class LogKind(enum.Enum):
    """What becomes of a log, as the end of its directory's name says."""

    CURRENT = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


class LogName(NamedTuple):
    """What a directory's name says."""

    topic: str
    partition: int
    kind: LogKind


def parse_log_name(name: str) -> LogName | None:
    """What the name of a log's directory says, None for any other name."""
    match = _LOG_NAME.fullmatch(name)
    if match is None:
        return None
    kind = LogKind.CURRENT if match["kind"] is None else LogKind("-" + match["kind"])
    return LogName(match["topic"], int(match["partition"]), kind)


def log_name(topic: str, partition: int, kind: LogKind = LogKind.CURRENT) -> str:
    """A name for the directory of a log; one that is not current gets another each time."""
    if kind is LogKind.CURRENT:
        return f"{topic}-{partition}"
    end = f"-{partition}.{uuid.uuid4().hex}{kind.value}"
    return (topic if kind is LogKind.FUTURE else topic[: LONGEST_NAME - len(end)]) + end
