"""The application's last call for records and its result: written by the calls, read by the health check.

Elsewhere: the consequences (`health`, and `group.poll_interval` for a group's deadline).
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from kclient.errors import KafkaError, WakeupError


class PollTracker:
    """The calls for records of one consumer, each a `with` block. The application writes, any thread reads.

    A rebalance listener that asks for records within the application's call is refused: only the outermost block
    counts.

    Parameters:
        clock: seconds.

    Attributes:
        error: the exception of the last call; None if it raised none, or was interrupted.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.error: KafkaError | None = None
        self._depth = 0
        self._clock = clock
        self._last = clock()

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._depth == 1:
            self._last = self._clock()
            self.error = None
            if isinstance(error, KafkaError) and not isinstance(error, WakeupError):
                # Its frames refer to the consumer, which the network thread must not keep alive.
                self.error = error.without_frames()
        self._depth -= 1

    @property
    def within(self) -> bool:
        """Whether a call is in progress."""
        return self._depth > 0

    def idle(self, now: float) -> float:
        """Return the seconds since the application last asked; 0 during a call."""
        return 0.0 if self.within else max(0.0, now - self._last)
