"""An event loop on a simulated machine: what asyncio promises of worker threads holds for functions that run inline."""

from __future__ import annotations

import asyncio

import pytest

from refbroker.testing.simulation.loop import SimulatedLoop
from refbroker.testing.simulation.network import Network
from refbroker.testing.simulation.scheduler import Simulation


@pytest.mark.parametrize("kind", [ValueError, GeneratorExit])
def test_whatever_a_worker_function_raises_reaches_the_task_that_awaits_it(kind: type[BaseException]) -> None:
    simulation = Simulation(seed=1)
    loop = SimulatedLoop(simulation, Network(simulation), "loop")
    simulation.add(loop)

    def fail() -> None:
        raise kind("from the worker")

    task = loop.create_task(asyncio.wait_for(loop.run_in_executor(None, fail), timeout=10))
    simulation.run_until(task.done)
    simulation.remove(loop)
    loop.close()
    assert repr(task.exception()) == repr(kind("from the worker"))
