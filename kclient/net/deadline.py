"""Until when an admin call may take, and the error that says so when it took longer."""

from __future__ import annotations

import time
from collections.abc import Callable

from kclient.errors import KafkaError, KafkaTimeoutError


class Deadline:
    """Until when a call may take; `name` is the call as its user knows it.

    Parameters:
        timeout: seconds from now.
        last_error: tells what went wrong with connections lately, for the error when time is up.

    Attributes:
        at: when it is, on the clock of `time.monotonic`.
    """

    def __init__(self, name: str, timeout: float, last_error: Callable[[], KafkaError | None]) -> None:
        self.name = name
        self.timeout = timeout
        self.at = time.monotonic() + timeout
        self._last_error = last_error

    def remaining(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        return self.remaining() == 0.0

    def error(self, last: KafkaError | None = None) -> KafkaTimeoutError:
        """What to raise when it has passed; `last` is what went wrong before."""
        last = last or self._last_error()
        why = f"; the last error was: {last}" if last else ""
        return KafkaTimeoutError(f"{self.name} did not finish within {self.timeout:g} s{why}")
