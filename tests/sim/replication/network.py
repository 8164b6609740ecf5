"""Messages between nodes that take time, get lost, and may pass in one direction only."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Hashable

CONTROLLER = 0
"""The address of the controller; nodes have their broker ids."""


class Schedule:
    """What happens at which time.

    Attributes:
        now_ms: the time.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, delay_ms: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_ms + delay_ms, next(self._numbers), what))

    def step(self) -> None:
        """Let the next thing happen."""
        due_ms, _, what = heapq.heappop(self._due)
        self.now_ms = max(due_ms, self.now_ms)
        what()


class Network:
    """The links between nodes.

    Parameters:
        schedule: of the simulation.
        rng: decides delays and losses.
    """

    def __init__(self, schedule: Schedule, rng: random.Random) -> None:
        self.loss = rng.choice((0.0, 0.02, 0.1))
        self.longest_ms = rng.choice((3, 10, 60))
        self.cut: set[tuple[int, int]] = set()
        self._schedule = schedule
        self._rng = rng
        self._last_ms: dict[Hashable, int] = {}

    def send(
        self, source: int, target: int, arrive: Callable[[], None], *, in_order: Hashable = None, slow_ms: int = 0
    ) -> None:
        """Deliver a message, or not.

        Parameters:
            arrive: called on arrival.
            in_order: messages with the same key arrive in the order in which they were sent.
            slow_ms: an additional delay.
        """
        delay = self._rng.randint(0, self.longest_ms) + slow_ms
        if (source, target) in self.cut or self._rng.random() < self.loss:
            return
        if in_order is not None:
            at = max(self._schedule.now_ms + delay, self._last_ms.get(in_order, 0))
            self._last_ms[in_order] = at
            delay = at - self._schedule.now_ms
        self._schedule.after(delay, arrive)

    def heal(self) -> None:
        """Deliver everything from now on, quickly."""
        self.cut.clear()
        self.loss = 0.0
        self.longest_ms = 3
