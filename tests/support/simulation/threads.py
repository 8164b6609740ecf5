"""Threads on a simulated machine: each is a real thread that runs only while the scheduler waits for it.

One thread at a time has the turn. It keeps the turn until it waits (for a condition, a lock, a queue, time) or ends, so
a seed repeats how threads interleave. What a thread waits on has to be made within the simulation; a lock from before
it blocks the whole simulation while another thread holds it. A thread, and the test itself, may also lose the turn
where it takes a lock; an actor may not.

Not implemented: processes, and threads that C code starts.
"""

from __future__ import annotations

import _thread
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any
from unittest import mock

from refbroker.testing.simulation.scheduler import NEVER, Simulation

PREEMPTED = 0.1
"""How likely (0 to 1) a thread loses its turn where it takes a lock."""
LONGEST_PAUSE = 0.002
"""Seconds that a thread that lost its turn goes without at most."""


class SimulationOverError(BaseException):
    """The simulation ends while a thread still waits."""


class ThreadActor:
    """A thread as an actor: each step lets it run until it waits the next time.

    Parameters:
        simulation: whose actor it is until it has ended.
        name: for the message of a deadlock.
    """

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.name = f"thread {name}"
        self.has_ended = False
        self._simulation = simulation
        self._is_over: Callable[[], bool] = _always
        self._deadline = NEVER
        self._simulation_is_over = False
        self._turn, self._turn_is_over = _taken(), _taken()

    def due(self) -> float:
        """See Actor."""
        return self._simulation.now if self._is_over() else self._deadline

    def step(self) -> None:
        """See Actor."""
        with self._simulation.entering(self):
            self._turn.release()
            self._turn_is_over.acquire()

    def describe(self) -> str:
        """See Actor."""
        until = "" if self._deadline == NEVER else f" for {self._deadline - self._simulation.now:.3f} s at most"
        return f"waits{until} for {self._is_over.__qualname__}"

    def wait(self, is_over: Callable[[], bool], timeout: float | None) -> bool:
        """Give up the turn until a condition holds; in the thread. Parameters and result as of `run_until`."""
        if self._simulation_is_over:
            raise SimulationOverError
        self._is_over = is_over
        self._deadline = NEVER if timeout is None else self._simulation.now + timeout
        self._turn_is_over.release()
        self._turn.acquire()
        if self._simulation_is_over:
            raise SimulationOverError
        return is_over()

    def run(self, function: Callable[[], None]) -> None:
        """Run what the thread does; in the thread, which has been started."""
        try:
            self._begin()
            function()
        except SimulationOverError:
            pass
        finally:
            self.has_ended = True
            self._simulation.remove(self)
            self._turn_is_over.release()

    def _begin(self) -> None:
        self._turn.acquire()
        if self._simulation_is_over:
            raise SimulationOverError

    def abandon(self) -> None:
        """Raise in the thread where it waits, and let it end; out of the thread."""
        self._simulation_is_over = True
        while not self.has_ended:
            self.step()


class SimulatedLock:
    """A `threading.Lock` whose `acquire` runs the simulation while another thread holds it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        try:
            return self._acquire(blocking, timeout)
        except SimulationOverError:
            # What unwinds in the thread may need the lock, and nothing else runs meanwhile.
            self._is_held = True
            return True

    def _acquire(self, blocking: bool, timeout: float) -> bool:
        simulation = self._simulation
        if blocking and simulation.is_preemptible and simulation.random.random() < PREEMPTED:
            simulation.sleep(simulation.random.uniform(0.0, LONGEST_PAUSE))
        if self._is_held and (
            not blocking or not simulation.run_until(lambda: not self._is_held, None if timeout < 0 else timeout)
        ):
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False

    def locked(self) -> bool:
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


class _Started:
    """The event that `threading.Thread.start` waits for: a real one, since the thread runs at once until its gate."""

    def __init__(self) -> None:
        self._set = _taken()
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        self._set.release()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        with self._set:
            return True


class _Waiter:
    """What a condition releases to end one wait: the interface of a lock, without one."""

    def __init__(self) -> None:
        self.is_released = False

    def release(self) -> None:
        self.is_released = True


@contextmanager
def simulated_threads(simulation: Simulation) -> Iterator[None]:
    """Run the threads that are started within a `with` block in a simulation, and end those that are left."""
    actors: dict[threading.Thread, ThreadActor] = {}
    simulated = {threading.get_ident()}
    start, join, really_wait = threading.Thread.start, threading.Thread.join, threading.Condition.wait

    def simulated_start(thread: threading.Thread) -> None:
        actor = actors[thread] = ThreadActor(simulation, thread.name)
        run = thread.run
        inside: Any = thread

        def simulated_run() -> None:
            simulated.add(threading.get_ident())
            try:
                actor.run(run)
            finally:
                simulated.discard(threading.get_ident())

        inside.run = simulated_run
        inside._started = _Started()
        start(thread)
        simulation.add(actor)

    def simulated_join(thread: threading.Thread, timeout: float | None = None) -> None:
        actor = actors.get(thread)
        if actor is None or simulation.run_until(lambda: actor.has_ended, timeout):
            join(thread, timeout)

    def is_alive(thread: threading.Thread) -> bool:
        return thread in actors and not actors[thread].has_ended

    def wait(condition: threading.Condition, timeout: float | None = None) -> bool:
        return _wait(simulation, condition, timeout) if is_simulated() else really_wait(condition, timeout)

    def lock() -> Any:
        return SimulatedLock(simulation) if is_simulated() else _thread.allocate_lock()

    def is_simulated() -> bool:
        # pytest-xdist has a thread of its own.
        return threading.get_ident() in simulated

    with (
        mock.patch.object(threading.Thread, "start", simulated_start),
        mock.patch.object(threading.Thread, "join", simulated_join),
        mock.patch.object(threading.Thread, "is_alive", is_alive),
        mock.patch.object(threading, "Lock", lock),
        mock.patch.object(threading, "_allocate_lock", lock),
        mock.patch.object(threading, "RLock", getattr(threading, "_PyRLock")),  # noqa: B009 - it is private
        mock.patch.object(threading.Condition, "wait", wait),
        # What timeouts of conditions and queues go by.
        mock.patch.object(threading, "_time", simulation.monotonic),
        mock.patch.object(queue, "time", simulation.monotonic),
        mock.patch.object(queue, "SimpleQueue", getattr(queue, "_PySimpleQueue")),  # noqa: B009 - it is private
    ):
        try:
            yield
        finally:
            for actor in actors.values():
                actor.abandon()


def _wait(simulation: Simulation, condition: Any, timeout: float | None) -> bool:
    """Run the simulation until a condition is notified; what `threading.Condition.wait` does."""
    if timeout is not None and timeout <= 0:
        return False
    waiter = _Waiter()
    condition._waiters.append(waiter)
    saved = condition._release_save()
    try:
        return simulation.run_until(lambda: waiter.is_released, timeout)
    finally:
        condition._acquire_restore(saved)
        if not waiter.is_released:
            condition._waiters.remove(waiter)


def _taken() -> _thread.LockType:
    """Return a real lock that is held."""
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock


def _always() -> bool:
    return True
