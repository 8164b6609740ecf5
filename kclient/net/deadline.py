"""Until when an admin call may take, and the error that says so when it took longer."""

from __future__ import annotations

from collections.abc import Callable

from kclient.errors import KafkaError, KafkaTimeoutError


class Deadline:
    """Until when a call may take; `name` is the call as its user knows it.

    Parameters:
        timeout: seconds from now.
        last_error: tells what went wrong with connections lately, for the error when time is up.
        clock: seconds; that of the client.

    Attributes:
        at: when it is, on the client's clock.
    """

    def __init__(
        self,
        name: str,
        timeout: float,
        last_error: Callable[[], KafkaError | None],
        clock: Callable[[], float],
    ) -> None:
        self.name = name
        self.timeout = timeout
        self.at = clock() + timeout
        self._clock = clock
        self._last_error = last_error

    def remaining(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.at - self._clock())

    @property
    def passed(self) -> bool:
        return self.remaining() == 0.0

    def error(self, last: KafkaError | None = None) -> KafkaTimeoutError:
        """What to raise when it has passed; `last` is what went wrong before."""
        last = last or self._last_error()
        why = f"; the last error was: {last}" if last else ""
        return KafkaTimeoutError(f"{self.name} did not finish within {self.timeout:g} s{why}")
