"""The scheduler of a simulation: what runs next, and what time it is.

Actors (a client's network thread, a broker's event loop, a worker thread) and timed events share one thread. Among the
actors that can run, the seed chooses. The clock moves only when none of them can, to the next event or deadline. A
caller that waits runs the simulation until its condition holds (`run_until`). An actor may have a real thread for its
steps (`entering`), in which a wait ends the step.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

NEVER = float("inf")

START_SECONDS = 1000.0
START_MS = 1_700_000_000_000
"""The time of day at the start, in milliseconds since the epoch."""

LONGEST_RUN = 1800.0
"""Simulated seconds after which a run counts as stuck: periodic timers keep adding events, so events never run out."""
MOST_STEPS = 200_000
"""Steps without any time passing after which actors count as waking each other endlessly."""


class DeadlockError(AssertionError):
    """The awaited condition can no longer hold; the message has the state of every actor."""


class Actor(Protocol):
    """Something that runs in steps."""

    name: str

    def due(self) -> float:
        """Return when the next step is due, by the simulation's clock; NEVER if only others can bring it about."""

    def step(self) -> None:
        """Do what is due."""

    def describe(self) -> str:
        """Return what the actor waits for, for the message of a deadlock."""


class Waiter(Actor, Protocol):
    """An actor whose steps run in a thread of its own."""

    def wait(self, is_over: Callable[[], bool], timeout: float | None) -> bool:
        """End the step; return in a later one, once a condition holds (True) or this many seconds have passed."""


class Simulation:
    """One simulated machine.

    Parameters:
        seed: decides every choice.
        longest_run: simulated seconds after which the simulation gives up.

    Attributes:
        now: seconds; never goes back.
        random: the source of every choice.
    """

    def __init__(self, seed: int, *, longest_run: float = LONGEST_RUN) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = START_SECONDS
        self._longest_run = longest_run
        self._end = START_SECONDS + longest_run
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._actors: list[Actor] = []
        self._running: list[Actor] = []
        self._thread: Waiter | None = None
        self._depth = 0
        """How many calls of `run_until` there are that have not returned, without those that wait in threads."""

    def monotonic(self) -> float:
        """Return seconds of the simulation's clock."""
        return self.now

    def time_ms(self) -> int:
        """Return the simulated time of day in milliseconds since the epoch."""
        return START_MS + round((self.now - START_SECONDS) * 1000)

    def is_running(self, actor: Actor) -> bool:
        """Return whether the caller was called from a step of this actor, directly or through a nested wait."""
        # What a thread was entered from is not what the thread is called from.
        return actor is self._thread if self._thread is not None else actor in self._running

    @property
    def is_preemptible(self) -> bool:
        """Whether others may run before the caller continues: it is the application or a thread, and not an actor."""
        return self._thread is not None or not self._depth

    @contextmanager
    def entering(self, thread: Waiter) -> Iterator[None]:
        """Let the thread of an actor make its step within a `with` block."""
        self._thread = thread
        try:
            yield
        finally:
            self._thread = None

    def add(self, actor: Actor) -> None:
        """Let an actor take part from now on."""
        self._actors.append(actor)

    def remove(self, actor: Actor) -> None:
        """Give an actor no more steps."""
        self._actors = [kept for kept in self._actors if kept is not actor]

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a time; actions of the same time keep their order."""
        heapq.heappush(self._events, (when, next(self._numbers), action))

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something after this many seconds."""
        self.at(self.now + seconds, action)

    def sleep(self, seconds: float) -> None:
        """Run the simulation for this many seconds."""
        self.run_until(lambda: False, seconds)

    def run_until(self, is_over: Callable[[], bool], timeout: float | None = None) -> bool:
        """Run the simulation until a condition holds.

        Parameters:
            timeout: simulated seconds; None waits as long as the simulation may last.

        Returns:
            False if the time passed first.

        Raises:
            DeadlockError: the condition can never hold, or did not within the time that a simulation may take.
        """
        if self._thread is not None:
            return is_over() or self._thread.wait(is_over, timeout)
        self._depth += 1
        try:
            return self._run_until(is_over, timeout)
        finally:
            self._depth -= 1

    def _run_until(self, is_over: Callable[[], bool], timeout: float | None) -> bool:
        deadline = NEVER if timeout is None else self.now + timeout
        steps = 0
        while not is_over():
            following = self._step()
            if following is None:
                steps += 1
                if steps > MOST_STEPS:
                    raise DeadlockError(self._stuck(f"{MOST_STEPS} steps were made and no time passed"))
                continue
            steps = 0
            if deadline <= following:
                if deadline == NEVER:
                    raise DeadlockError(self._stuck("deadlock in simulation: no actor has anything left to do"))
                self.now = max(self.now, deadline)
                return is_over()
            self.now = max(self.now, following)
            if self.now > self._end:
                # The time is granted again, for what the test closes at its end.
                self._end = self.now + self._longest_run
                raise DeadlockError(self._stuck("deadlock in simulation: the time it may take has passed"))
            if self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
        return True

    def _step(self) -> float | None:
        """Let one of the actors that can run make a step; if none can, return when the next actor or event is due."""
        now, running = self.now, self._running
        following = self._events[0][0] if self._events else NEVER
        ready: list[Actor] = []
        # A pass makes this loop millions of times.
        for actor in self._actors:
            if actor in running:
                continue
            due = actor.due()
            if due <= now:
                ready.append(actor)
            elif due < following:
                following = due
        if not ready:
            return following
        actor = ready[0] if len(ready) == 1 else ready[self.random.randrange(len(ready))]
        running.append(actor)
        try:
            actor.step()
        finally:
            running.remove(actor)
        return None

    def _stuck(self, why: str) -> str:
        lines = [
            f"{why} (seed {self.seed}, {self.now - START_SECONDS:.3f} s after the start, {len(self._events)} events)"
        ]
        lines += [f"  {actor.name}: {actor.describe()}" for actor in self._actors]
        return "\n".join(lines)
