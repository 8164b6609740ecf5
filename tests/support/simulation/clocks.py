"""The clock of idle connections in a simulation, which the broker's server does not take from its host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from refbroker.testing.simulation.scheduler import Simulation


@contextmanager
def simulated_clocks(simulation: Simulation) -> Iterator[None]:
    """Let connections be idle by the simulation's time within a `with` block."""

    def monotonic_ns() -> int:
        return round(simulation.now * 1_000_000_000)

    with (
        mock.patch("refbroker.server.connection.perf_counter_ns", monotonic_ns),
        mock.patch("refbroker.server.server.perf_counter_ns", monotonic_ns),
    ):
        yield
