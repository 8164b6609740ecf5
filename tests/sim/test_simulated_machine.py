"""A whole broker and clients of it on one simulated machine: a seed repeats the run, and a wait without end fails."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest

from kclient.admin import Admin, NewTopic
from kclient.consumer import Consumer
from kclient.errors import KafkaTimeoutError
from kclient.net.events import CONNECTED, FRAME
from kclient.net.transport import Address
from refbroker.testing import RefBroker, hosts
from refbroker.testing.simulation.host import SimulatedHost
from refbroker.testing.simulation.network import Endpoint, Network
from refbroker.testing.simulation.scheduler import DeadlockError, Simulation
from tests.support.patience import PROCESS
from tests.support.simulation.machine import simulated_machine
from tests.support.simulation.transport import SimulatedTransport


def seconds_to_list_topics(seed: int) -> float:
    """Simulated seconds from the start of a broker to its end, with an admin client in between."""
    with simulated_machine(seed) as simulation, RefBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 3)])
            assert list(admin.list_topics()) == ["t"]
        return simulation.now


def test_a_seed_repeats_a_run_of_a_broker_and_a_client_exactly() -> None:
    assert seconds_to_list_topics(5) == seconds_to_list_topics(5) != seconds_to_list_topics(6)


def ends_of_connections(seed: int) -> list[tuple[int, float]]:
    """Return the client port and the time of each end of a stream, when a broker with eight connections stops."""
    simulation = Simulation(seed)
    network = Network(simulation)
    ends: list[tuple[int, float]] = []

    def note_end(endpoint: Endpoint) -> None:
        if endpoint.is_readable:
            ends.append((endpoint.address[1], simulation.now))

    with hosts.use(SimulatedHost(simulation, network)), RefBroker() as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        endpoints = [network.connect(host, int(port)) for _ in range(8)]
        for endpoint in endpoints:
            endpoint.on_change = partial(note_end, endpoint)
        assert simulation.run_until(lambda: all(endpoint.is_connected for endpoint in endpoints), 1.0)
        assert not ends
        broker.stop()
        assert simulation.run_until(lambda: len(ends) == len(endpoints), 1.0), ends
    return ends


def test_a_seed_repeats_the_stop_of_a_broker_in_another_process() -> None:
    # Objects have other addresses there, so that a set of them has another order.
    program = f"from {__name__} import ends_of_connections; print(ends_of_connections(5))"
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    traces = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment | {"PYTHONMALLOC": allocator},
            stdout=subprocess.PIPE,
            text=True,
            timeout=PROCESS,
            check=True,
        ).stdout
        for allocator in ("pymalloc", "malloc")
    ]
    assert traces[0] == traces[1]
    assert traces[0].count("(") == 8


def test_an_hour_of_waiting_takes_no_time() -> None:
    # Real waiting would outlast the guard of a test.
    with simulated_machine(1) as simulation, Consumer("t", bootstrap_servers="nobody:1") as consumer:
        with pytest.raises(KafkaTimeoutError):
            consumer.list_topics(1200.0)
        assert simulation.now > 2000.0


def test_a_wait_that_cannot_end_names_client_and_broker() -> None:
    with (
        simulated_machine(1),
        RefBroker() as broker,
        Consumer("t", bootstrap_servers=broker.bootstrap_servers) as consumer,
        pytest.raises(
            DeadlockError, match=r"(?s)deadlock in simulation.*broker 1: \d+ tasks.*kclient-network: next turn"
        ),
    ):
        next(iter(consumer))


def test_a_frame_that_a_turn_left_unread_makes_the_next_turn_due() -> None:
    simulation = Simulation(1)
    network = Network(simulation)
    accepted: list[Endpoint] = []
    network.listen("broker", 9092, accepted.append)
    transport = SimulatedTransport(network)
    events: list[tuple[int, object]] = []
    transport.connect(Address(2, ("broker", 9092)), SimpleNamespace())
    simulation.run_until(lambda: transport.is_ready, 1.0)
    events += [event[1:] for event in transport.wait(0.0)]
    accepted[0].send(b"\0\0\0\4sent" * 2)
    simulation.run_until(lambda: False, 1.0)
    while transport.is_ready:
        events += [event[1:] for event in transport.wait(0.0)]
    assert events == [(CONNECTED, None), (FRAME, b"sent"), (FRAME, b"sent")]
