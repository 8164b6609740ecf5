"""The clock of the data source: the one of the clients that it makes, so that a simulation moves both."""

from __future__ import annotations

from kclient.net.runtime import current, sleep

__all__ = ["monotonic", "sleep", "time_ms"]


def monotonic() -> float:
    """Return seconds of a clock that never goes back."""
    return current().monotonic()


def time_ms() -> int:
    """Return milliseconds since the epoch."""
    return current().time_ms()
