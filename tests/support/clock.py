"""The clock of tests: the system's, or the simulation's where tests run in one."""

from __future__ import annotations

from kclient.net.runtime import current, sleep

__all__ = ["monotonic", "sleep", "time_ms"]


def monotonic() -> float:
    """Return seconds of a clock that never goes back."""
    return current().monotonic()


def time_ms() -> int:
    """Return milliseconds since the epoch."""
    return current().time_ms()
