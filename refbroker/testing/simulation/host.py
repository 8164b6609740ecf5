"""A simulated machine as a host of brokers for tests."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from refbroker.testing.simulation.listening import SimulatedListeners
from refbroker.testing.simulation.loop import SimulatedLoop
from refbroker.testing.simulation.network import Network
from refbroker.testing.simulation.scheduler import Simulation

T = TypeVar("T")


class SimulatedHost:
    """A `refbroker.testing.hosts.Host` in a simulation.

    Parameters:
        simulation: its scheduler.
        network: what its brokers listen on, and clients connect through.
    """

    def __init__(self, simulation: Simulation, network: Network) -> None:
        self.listeners = SimulatedListeners(network)
        self.time_ms = simulation.time_ms
        self._simulation = simulation
        self._network = network
        self._numbers = itertools.count(1)

    def random(self) -> random.Random:
        """See Host."""
        return random.Random(self._simulation.random.random())

    def start(self, main: Callable[[], Coroutine[Any, Any, None]]) -> SimulatedProcess:
        """See Host."""
        loop = SimulatedLoop(self._simulation, self._network, f"broker {next(self._numbers)}")
        return SimulatedProcess(self._simulation, loop, main())


class SimulatedProcess:
    """A `refbroker.testing.hosts.Process`: one loop of the simulation, until its main coroutine has ended."""

    def __init__(self, simulation: Simulation, loop: SimulatedLoop, main: Coroutine[Any, Any, None]) -> None:
        simulation.add(loop)
        self._simulation = simulation
        self._loop = loop
        self._main = loop.create_task(main, name="main")

    def wait(self, future: concurrent.futures.Future[T]) -> T:
        """See Process."""
        self._simulation.run_until(lambda: future.done() or self._main.done())
        # What was submitted after the last iteration is never answered.
        return future.result(timeout=0)

    def join(self) -> None:
        """See Process; tasks that are left are cancelled, as `asyncio.run` does."""
        self._simulation.run_until(self._main.done)
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._simulation.run_until(lambda: all(task.done() for task in left))
        closing = self._loop.create_task(self._loop.shutdown_asyncgens())
        self._simulation.run_until(closing.done)
        self._simulation.remove(self._loop)
        self._loop.close()

    def run(self) -> None:
        """Wait until the main coroutine has ended, and raise what it has raised."""
        self.join()
        self._main.result()
