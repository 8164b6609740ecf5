"""The clocks of the `time` module in a simulation, for code that does not take its clock from a runtime or a host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from refbroker.testing.simulation.scheduler import Simulation

NS = 1_000_000_000
MEASURES = ("refbroker.server.connection.perf_counter_ns", "refbroker.server.server.perf_counter_ns")
"""The clock that connections become idle by, under the names that the broker's modules have imported it by."""


@contextmanager
def simulated_clocks(simulation: Simulation) -> Iterator[None]:
    """Let the clocks show the simulation's time within a `with` block."""

    def monotonic_ns() -> int:
        return round(simulation.now * NS)

    with ExitStack() as stack:
        for name, clock in (
            ("time", lambda: simulation.time_ms() / 1000),
            ("time_ns", lambda: simulation.time_ms() * (NS // 1000)),
            ("monotonic", simulation.monotonic),
            ("monotonic_ns", monotonic_ns),
            ("sleep", simulation.sleep),
        ):
            stack.enter_context(mock.patch.object(time, name, clock))
        for path in MEASURES:
            stack.enter_context(mock.patch(path, monotonic_ns))
        yield
