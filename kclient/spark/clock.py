"""The clock of the data source: that of its clients, so that a simulation controls both."""

from __future__ import annotations

from kclient.net.runtime import current, sleep

__all__ = ["monotonic", "sleep", "time_ms"]


def monotonic() -> float:
    """Return the seconds of a monotonic clock."""
    return current().monotonic()


def time_ms() -> int:
    """Return the milliseconds since the epoch."""
    return current().time_ms()
