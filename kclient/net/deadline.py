"""The deadline of an admin call, and its timeout error."""

from __future__ import annotations

from collections.abc import Callable

from kclient.errors import KafkaError, KafkaTimeoutError


class Deadline:
    """The deadline of a call.

    Parameters:
        timeout: seconds from now.
        last_error: returns the last connection error, for the timeout error.
        clock: seconds; that of the client.

    Attributes:
        at: the time, on the client's clock.
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
        """Return the seconds left, never below 0."""
        return max(0.0, self.at - self._clock())

    @property
    def passed(self) -> bool:
        return self.remaining() == 0.0

    def error(self, last: KafkaError | None = None) -> KafkaTimeoutError:
        """Return the timeout error; `last` is the last error before the deadline."""
        last = last or self._last_error()
        why = f"; the last error was: {last}" if last else ""
        return KafkaTimeoutError(f"{self.name} did not finish within {self.timeout:g} s{why}")
