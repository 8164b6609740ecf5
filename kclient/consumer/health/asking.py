"""When the application asked for records last, and what came of it: written in its calls, read by who watches it.

Elsewhere: what follows from it (`health`, and `group.poll_interval` for a group's deadline).
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from kclient.errors import KafkaError, WakeupError


class Asking:
    """The calls for records of one consumer, each a `with` block. The owner writes, any thread reads.

    A rebalance listener that asks for records does so within the owner's call, and is refused: only the outermost
    block counts.

    Parameters:
        clock: seconds.

    Attributes:
        error: what the last call raised; None if it raised nothing, or was interrupted.
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
                # Its frames hold the face, which the network thread must not keep alive.
                self.error = error.without_frames()
        self._depth -= 1

    @property
    def within(self) -> bool:
        """Whether a call is under way."""
        return self._depth > 0

    def idle(self, now: float) -> float:
        """Seconds since the application asked last; 0 while it does."""
        return 0.0 if self.within else max(0.0, now - self._last)
