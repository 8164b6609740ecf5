"""The clocks of the `time` module in a simulation, for code that does not take its clock from a runtime or a host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from refbroker.testing.simulation.scheduler import Simulation


@contextmanager
def simulated_clocks(simulation: Simulation) -> Iterator[None]:
    """Let the clocks show the simulation's time within a `with` block."""

    def monotonic_ns() -> int:
        return round(simulation.now * 1_000_000_000)

    with (
        mock.patch.multiple(
            time,
            time=lambda: simulation.time_ms() / 1000,
            time_ns=lambda: simulation.time_ms() * 1_000_000,
            monotonic=simulation.monotonic,
            monotonic_ns=monotonic_ns,
            sleep=simulation.sleep,
        ),
        # The clock of idle connections, which these modules have imported by its name.
        mock.patch("refbroker.server.connection.perf_counter_ns", monotonic_ns),
        mock.patch("refbroker.server.server.perf_counter_ns", monotonic_ns),
    ):
        yield
