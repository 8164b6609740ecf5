"""A simulated machine for one test: everything that is made within it runs there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from kclient.net import runtime
from refbroker.testing import hosts
from refbroker.testing.simulation.host import SimulatedHost
from refbroker.testing.simulation.network import Conduct, Network
from refbroker.testing.simulation.scheduler import Simulation
from tests.support.simulation.clocks import simulated_clocks
from tests.support.simulation.runtime import SimulatedRuntime
from tests.support.simulation.sockets import connector
from tests.support.simulation.threads import simulated_threads


@contextmanager
def simulated_machine(seed: int, conduct: Conduct = Conduct()) -> Iterator[Simulation]:  # noqa: B008 - it is immutable
    """Run the clients and brokers that are made within a `with` block in a simulation.

    Parameters:
        seed: decides every choice of the simulation.
        conduct: how its network behaves.
    """
    simulation = Simulation(seed)
    network = Network(simulation, conduct)
    with (
        runtime.use(SimulatedRuntime(simulation, network)),
        hosts.use(SimulatedHost(simulation, network)),
        simulated_threads(simulation),
        simulated_clocks(simulation),
        mock.patch("socket.create_connection", connector(network)),
    ):
        yield simulation
