"""The departure of a consumer that was not closed: it commits, leaves its group and stops, without its application.

Two events start a departure: the garbage collector takes the consumer, or the interpreter ends. Neither has a call of
the application to run in, so everything happens on the network thread, within `EXIT_SECONDS`. The end of the
interpreter waits for that; the garbage collector does not.

The records of the last `poll`, and the current record of an iteration, may not be processed yet, so they are not
committed. A static member does not leave the group, as with `close`.

Not implemented: calls of the application's code. A rebalance listener is not called, and neither are the callbacks of
commits, since the thread or the event loop that they belong to may be gone.
"""

from __future__ import annotations

import atexit
import os
import warnings
import weakref
from concurrent.futures import Future

from kclient.consumer.committed.group_offsets import GroupOffsets
from kclient.consumer.group.membership import Membership
from kclient.errors import KafkaTimeoutError
from kclient.net.engine import EXIT_SECONDS, Engine
from kclient.net.manager import Manager, Poll
from kclient.net.runtime import current
from kclient.net.waiting import wait_future

_LAST_SECONDS = 0.5
"""How long the end of the interpreter waits for a network thread whose deadline has passed."""


class Departure(Manager):
    """The departure of one member of a group; see the module.

    Parameters:
        engine: the consumer's engine.
        group: the member.
        offsets: its committed offsets.

    Attributes:
        done: completes when the coordinator has responded, need not be asked, or did not respond in time.
    """

    def __init__(self, engine: Engine, group: Membership, offsets: GroupOffsets) -> None:
        self.engine = engine
        self.done: Future[None] = Future()
        self._group = group
        self._offsets = offsets
        self._deadline = engine.clock() + EXIT_SECONDS

    def start(self) -> None:
        """Begin. Any thread; the consumer's further calls raise ClosedError."""
        self.engine.refuse_calls()
        _departures.add(self)
        self.engine.submit(self._start)

    def poll(self, now: float) -> Poll:
        """Stop when the deadline has passed."""
        if now >= self._deadline:
            self._stop()
        return Poll([], self._deadline)

    def _start(self) -> None:
        self.engine.add(self)
        self._offsets.commit_earlier(max(0.0, self._deadline - self.engine.clock()), self._leave)

    def _leave(self) -> None:
        left: Future[None] = Future()
        left.add_done_callback(lambda _: self._stop())
        for request in self._group.leave_at_once(left, "the consumer was not closed"):
            self.engine.send(request)

    def _stop(self) -> None:
        self.engine.close(0.0)
        _departures.discard(self)
        if not self.done.done():
            self.done.set_result(None)


class OpenConsumer:
    """What remains to be done for an open consumer if it is not closed.

    Parameters:
        engine: the consumer's engine.
        group, offsets: None without a group.
    """

    def __init__(self, engine: Engine, group: Membership | None, offsets: GroupOffsets | None) -> None:
        self.engine = engine
        self._group = group
        self._offsets = offsets
        self._process = os.getpid()
        # Membership in `_open` is no substitute: the collector clears weak references before it calls `__del__`.
        self._is_open = True
        _open.add(self)

    def closed(self) -> None:
        """Note that the consumer was closed."""
        self._is_open = False

    def depart(self) -> bool:
        """Start the departure, once, without waiting; return whether it was necessary. Any thread."""
        if not self._is_open or self.engine.closed or self._process != os.getpid():
            return False
        self._is_open = False
        if self._group is None or self._offsets is None:
            self.engine.close(0.0)
        else:
            Departure(self.engine, self._group, self._offsets).start()
        return True


_open: weakref.WeakSet[OpenConsumer] = weakref.WeakSet()
_departures: set[Departure] = set()


def _depart_at_exit() -> None:
    """Let all open consumers depart at once, and wait for them."""
    runtime = current()
    deadline = runtime.monotonic() + EXIT_SECONDS
    for one in list(_open):
        if one.engine.runtime is runtime and one.depart():
            text = f"the {one.engine.label} was not closed before the interpreter ended"
            warnings.warn(text, ResourceWarning, stacklevel=1)
    for departure in [one for one in _departures if one.engine.runtime is runtime]:
        try:
            wait_future(departure.done, max(0.0, deadline - runtime.monotonic()), runtime.signal())
        except KafkaTimeoutError:
            pass
        departure.engine.close(_LAST_SECONDS)


atexit.register(_depart_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_departures.clear)  # they belong to the parent
