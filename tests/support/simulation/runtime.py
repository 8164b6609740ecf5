"""The runtime of clients on a simulated machine: no threads, no sockets, and waits that run the simulation."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from kclient.config import ClientConfig
from kclient.net.engine import Engine
from kclient.net.runtime import Steps
from refbroker.testing.simulation.host import SimulatedProcess
from refbroker.testing.simulation.loop import SimulatedLoop
from refbroker.testing.simulation.network import Network
from refbroker.testing.simulation.scheduler import NEVER, Simulation
from tests.support.simulation.transport import SimulatedTransport

_TICK = 1e-6
"""Seconds; adding less than that to the clock may round to nothing."""
_CHECKPOINT = 0.0002
"""Seconds that pass at most where a caller would let other threads run, or a task other tasks."""


class SimulatedRuntime:
    """A `kclient.net.runtime.Runtime` in a simulation.

    Parameters:
        simulation: its scheduler.
        network: what its clients connect through.
    """

    def __init__(self, simulation: Simulation, network: Network) -> None:
        self.monotonic = simulation.monotonic
        self.time_ms = simulation.time_ms
        self._simulation = simulation
        self._network = network

    def random(self) -> random.Random:
        """See Runtime."""
        return random.Random(self._simulation.random.random())

    def transport(self, config: ClientConfig) -> SimulatedTransport:
        """See Runtime."""
        return SimulatedTransport(self._network)

    def signal(self) -> SimulatedSignal:
        """See Runtime."""
        return SimulatedSignal(self._simulation)

    def start(self, steps: Steps, name: str) -> NetworkActor:
        """See Runtime."""
        assert isinstance(steps, Engine)
        return NetworkActor(self._simulation, steps, name)

    def worker(self, name: str) -> WorkerActor:
        """See Runtime."""
        return WorkerActor(self._simulation, name)

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in an event loop of its own until it has ended, and raise what it has raised."""
        loop = SimulatedLoop(self._simulation, self._network, "test", longest_turn=_CHECKPOINT)
        SimulatedProcess(self._simulation, loop, main).run()

    def checkpoint(self) -> None:
        """Run the simulation for a moment, so that time passes for a caller that never waits."""
        self._simulation.sleep(self._simulation.random.uniform(0.0, _CHECKPOINT))


class SimulatedSignal:
    """A `kclient.net.waiting.Signal` whose wait runs the simulation until the notification."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._notified = False

    def notify(self) -> None:
        """See Notifier."""
        self._notified = True

    def wait(self, timeout: float | None) -> bool:
        """See Signal."""
        found = self._simulation.run_until(lambda: self._notified, timeout)
        self._notified = False
        return found


class NetworkActor:
    """The network thread of one client; a `kclient.net.runtime.Thread`.

    Parameters:
        simulation: whose actor it is, until the engine has ended.
        engine: the client's.
        name: for the message of a deadlock.
    """

    def __init__(self, simulation: Simulation, engine: Engine, name: str) -> None:
        assert isinstance(engine.transport, SimulatedTransport)
        self.name = name
        self._simulation = simulation
        self._engine = engine
        self._transport = engine.transport
        self._next_turn = simulation.now
        self._has_ended = False
        engine.transport.on_events = engine.wakeup
        simulation.add(self)

    @property
    def is_current(self) -> bool:
        """See Thread."""
        return self._simulation.is_running(self)

    def is_alive(self) -> bool:
        """See Thread."""
        return not self._has_ended

    def join(self, timeout: float) -> None:
        """See Thread."""
        self._simulation.run_until(lambda: self._has_ended, timeout)

    def due(self) -> float:
        """See Actor."""
        return self._simulation.now if self._engine.wants_turn else self._next_turn

    def step(self) -> None:
        """See Actor."""
        seconds = self._engine.step(0.0)
        if seconds is None:
            self._has_ended = True
            self._simulation.remove(self)
        else:
            self._next_turn = self._simulation.now + (0.0 if self._transport.is_ready else max(seconds, _TICK))

    def describe(self) -> str:
        """See Actor."""
        wanted = "never" if self._next_turn == NEVER else f"in {self._next_turn - self._simulation.now:.3f} s"
        return f"next turn {wanted}; connections: {self._transport.describe()}"


class WorkerActor:
    """A thread for functions of the application; a `kclient.net.runtime.Worker`."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.name = name
        self.is_started = False
        self._simulation = simulation
        self._functions: deque[Callable[[], None]] = deque()
        self._is_closed = False

    @property
    def is_current(self) -> bool:
        """See Worker."""
        return self._simulation.is_running(self)

    def submit(self, function: Callable[[], None]) -> None:
        """See Worker."""
        if self._is_closed:
            return
        self._functions.append(function)
        if not self.is_started:
            self.is_started = True
            self._simulation.add(self)

    def close(self, timeout: float) -> None:
        """See Worker."""
        self._is_closed = True
        if self.is_started and not self.is_current:
            self._simulation.run_until(lambda: not self._functions, timeout)

    def due(self) -> float:
        """See Actor."""
        return self._simulation.now if self._functions else NEVER

    def step(self) -> None:
        """See Actor."""
        # It stays in the queue while it runs, so that `close` waits for its end.
        self._functions[0]()
        self._functions.popleft()

    def describe(self) -> str:
        """See Actor."""
        return f"{len(self._functions)} functions wait"
