"""The loop of the network thread: wait, hand out events, poll the managers, send their requests.

It decides nothing: managers return requests and the time of their next poll, the nodes return their next timeout, and
the driver sleeps until the earliest of these, an event or a wake-up. Elsewhere: the thread itself, and errors
(`engine`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from kclient.net.manager import NEVER, Manager, Request
from kclient.net.nodes import ClusterNodes
from kclient.net.transport import Transport

_LAST_ROUNDS = 10
"""The number of rounds at the end, so that a function that submits itself again cannot keep the driver running."""


class Driver:
    """The loop.

    Parameters:
        transport: the network.
        clock: seconds.

    `nodes` must be set before the first turn.
    """

    nodes: ClusterNodes

    def __init__(self, transport: Transport, clock: Callable[[], float]) -> None:
        self._transport = transport
        self._clock = clock
        self._managers: list[Manager] = []
        self._submitted: deque[Callable[[], None]] = deque()
        self._timeout = 0.0
        # Set to request another turn; read after `_asleep` is set, so that no request is missed.
        self._wanted = False
        self._asleep = False
        # Held by the network thread while it is awake, then by the thread that is sending the wake-up byte.
        self._may_wake = threading.Lock()
        self._may_wake.acquire()

    def add(self, manager: Manager) -> None:
        """Poll a manager from the next turn on."""
        self._managers.append(manager)

    def remove(self, manager: Manager) -> None:
        """Stop polling a manager; from the network thread."""
        self._managers = [kept for kept in self._managers if kept is not manager]

    def wakeup(self) -> None:
        """Make another turn soon. Any thread; costs next to nothing unless the driver sleeps and nobody woke it yet."""
        self._wanted = True
        if self._asleep and self._may_wake.acquire(blocking=False):
            self._transport.wake()

    @property
    def wants_turn(self) -> bool:
        """Whether another turn was requested since the last one."""
        return self._wanted

    def submit(self, function: Callable[[], None]) -> None:
        """Run a function on the network thread soon. Any thread."""
        self._submitted.append(function)
        self.wakeup()

    def defer(self, function: Callable[[], None]) -> None:
        """Run a function in the next turn, which follows immediately; from the network thread."""
        self._submitted.append(function)
        self._wanted = True

    def send(self, request: Request) -> None:
        """Send a request outside of `poll`; from the network thread."""
        self.nodes.send(request, self._clock())

    def turn(self, longest: float = NEVER) -> float:
        """Wait for something to do and do it.

        Parameters:
            longest: seconds to wait at most.

        Returns:
            Seconds until the next turn is due, if nothing happens before.
        """
        timeout = min(self._timeout, longest)
        self._asleep = True
        self._may_wake.release()
        if self._wanted:
            timeout = 0.0
        events = self._transport.wait(timeout)
        self._asleep = False
        # If this fails, a wake-up byte is on its way or was just read; a late one costs an empty turn.
        self._may_wake.acquire(blocking=False)
        self._wanted = False
        now = self._clock()
        for handler, event, value in events:
            handler.on_event(event, value, now)
        if self._submitted:
            self.run_submitted()
        nodes = self.nodes
        nodes.check(now)
        deadline = NEVER
        for manager in self._managers:
            requests, wanted_at = manager.poll(now)
            if wanted_at < deadline:
                deadline = wanted_at
            for request in requests:
                nodes.send(request, now)
        deadline = min(deadline, nodes.deadline())
        self._timeout = max(0.0, deadline - self._clock())
        return 0.0 if self._wanted else self._timeout

    def run_submitted(self) -> None:
        """Run the functions submitted so far."""
        for _ in range(len(self._submitted)):
            try:
                function = self._submitted.popleft()
            except IndexError:  # after the end several threads may do this
                return
            function()

    def run_all_submitted(self) -> None:
        """Run the submitted functions, and those that they submit; for the end, when no turn follows."""
        for _ in range(_LAST_ROUNDS):
            self.run_submitted()
