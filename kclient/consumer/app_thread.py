"""The application's side of a call: the errors it raises first, its waits for the network thread, and interruptions.

Elsewhere: what the calls do (`core`), and the guard against concurrent calls, which each class has.
"""

from __future__ import annotations

from collections.abc import Callable

from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.committed.group_offsets import GroupOffsets
from kclient.consumer.group.poll_interval import PollInterval
from kclient.consumer.iteration.current_chunk import Iteration
from kclient.errors import IllegalStateError, WakeupError
from kclient.net.engine import Engine
from kclient.net.manager import NEVER
from kclient.net.operation import Operation, Pause


class AppThread:
    """The thread or task that uses a consumer.

    Parameters:
        engine: the consumer's engine.
        subscription: what is assigned.
        iteration: the application's place within a chunk.
        wake: wakes a waiting call and makes an iteration leave its chunk; any thread.
        group_offsets, poll_interval: None without a group.
    """

    def __init__(
        self,
        engine: Engine,
        subscription: Subscription,
        iteration: Iteration,
        wake: Callable[[], None],
        group_offsets: GroupOffsets | None,
        poll_interval: PollInterval | None,
    ) -> None:
        self._engine = engine
        self._subscription = subscription
        self._iteration = iteration
        self._wake = wake
        self._group_offsets = group_offsets
        self._poll_interval = poll_interval
        self._woken = False
        self._started_version = -1

    def wakeup(self) -> None:
        """Interrupt the waiting call, or the next one (any thread)."""
        self._woken = True
        self._wake()

    def begin_call(self) -> None:
        """Run due callbacks, raise pending errors, and start newly assigned partitions."""
        self._check_interrupted()
        if self._group_offsets is not None:
            self._group_offsets.run_callbacks()
        subscription = self._subscription
        if subscription.errors:
            with subscription.lock:
                raise subscription.errors.pop(0)
        fatal = self._engine.metadata.fatal_error
        if fatal is not None:
            raise fatal
        if subscription.version != self._started_version:
            if subscription.topics is None and not subscription.partitions:
                raise IllegalStateError("there is nothing to read: subscribe() to topics or assign() partitions first")
            version = subscription.version
            subscription.start_uninitialized()
            self._started_version = version

    def leave_iteration(self) -> None:
        """Return the rest of an iteration's chunk, because another call follows; it is read again later."""
        if self._group_offsets is not None:
            self._group_offsets.left_iteration()
        self._iteration.leave()

    def wait(self, seconds: float) -> Operation[None]:
        """Wait for records. The wait does not count against max_poll_interval_ms."""
        interval = self._poll_interval
        if interval is not None:
            interval.waits()
        try:
            yield Pause(None if seconds == NEVER else seconds)
        finally:
            if interval is not None:
                interval.polled(self._engine.clock())

    def wait_for_group(self, seconds: float) -> Operation[None]:
        """Wait for the group; raise what interrupts the call."""
        yield from self.wait(seconds)
        self._check_interrupted()

    def _check_interrupted(self) -> None:
        self._engine.check_usable()
        if self._woken:
            self._woken = False
            raise WakeupError("the call was interrupted by wakeup()")
