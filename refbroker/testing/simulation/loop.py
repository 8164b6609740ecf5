"""An asyncio event loop on a simulated machine: simulated time and connections, and worker threads that run inline.

The loop is an actor: each step is one iteration, which the scheduler asks for when a callback or a timer is due. A
function for a worker thread runs between two iterations, after a delay that the seed chooses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from refbroker.testing.simulation.network import Network
from refbroker.testing.simulation.scheduler import NEVER, Simulation
from refbroker.testing.simulation.streams import StreamTransport

WORKER_SECONDS = (0.0, 0.004)
"""How long a function of a worker thread takes, at least and at most."""


class _NoSelector:
    """A stand-in for the selector, which never has I/O to report."""

    def select(self, timeout: float | None) -> list[Any]:
        return []

    def close(self) -> None:
        """Do nothing: no file is open."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of one simulated process.

    Parameters:
        simulation: the scheduler; `add` the loop to it.
        network: what `create_connection` connects through.
        name: for the message of a deadlock.
        longest_turn: seconds that an iteration takes at most, so that time passes for tasks that never wait.
    """

    def __init__(self, simulation: Simulation, network: Network, name: str, *, longest_turn: float = 0.0) -> None:
        super().__init__()
        self.name = name
        self._longest_turn = longest_turn
        self._turn_ends = simulation.now
        self.network = network
        self._simulation = simulation
        self._selector = _NoSelector()
        self._clock_resolution = 1e-9

    # The scheduler

    def due(self) -> float:
        """See Actor."""
        if self.is_closed():
            return NEVER
        # The base class has no public way to ask for these; its own `_run_once` computes its timeout from them.
        queues: Any = self
        if queues._ready:
            return self._turn_ends
        return queues._scheduled[0].when() if queues._scheduled else NEVER

    def step(self) -> None:
        """Run one iteration: `run_forever` returns after it, since `stop` was called before."""
        if self._longest_turn:
            self._turn_ends = self._simulation.now + self._simulation.random.uniform(0.0, self._longest_turn)
        self.stop()
        # A callback of another loop may wait for this one.
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            self.run_forever()
        finally:
            asyncio._set_running_loop(outer)

    def describe(self) -> str:
        """See Actor."""
        if self.is_closed():
            return "closed"
        tasks = sorted(task.get_name() + _where(task) for task in asyncio.all_tasks(self))
        return f"{len(tasks)} tasks: {', '.join(tasks)}"

    # asyncio

    def time(self) -> float:
        return self._simulation.now

    def _process_events(self, event_list: Any) -> None:
        """Do nothing: there is no I/O."""

    def _write_to_self(self) -> None:
        """Do nothing: no selector sleeps."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except BaseException as raised:  # noqa: BLE001 - it is the future's, whatever it is, as with an executor
                error = raised
                _settle(future, lambda: future.set_exception(error))
            else:
                _settle(future, lambda: future.set_result(result))

        self.call_later(self._simulation.random.uniform(*WORKER_SECONDS), run)
        return future

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        endpoint = self.network.connect(host, port)
        made = self.create_future()
        endpoint.on_change = lambda: _settle(made, lambda: made.set_result(None))
        await made
        if endpoint.error is not None:
            raise endpoint.error
        protocol = protocol_factory()
        return StreamTransport(self, endpoint, protocol), protocol

    async def sendfile(
        self, transport: Any, file: Any, offset: int = 0, count: Any = None, *, fallback: bool = True
    ) -> int:
        raise asyncio.SendfileNotAvailableError("a simulated connection has no socket")


def _settle(future: asyncio.Future[Any], settle: Callable[[], None]) -> None:
    if not future.done():
        settle()


def _where(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    return f" at {frames[0].f_code.co_qualname}:{frames[0].f_lineno}" if frames else ""
