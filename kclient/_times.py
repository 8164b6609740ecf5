"""Points in time as Kafka has them. Not implemented: durations and formats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(time: datetime) -> int:
    """Return a time in whole milliseconds since the epoch; a time without a zone is local time."""
    return (time.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
