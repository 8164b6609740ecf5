"""Connections of the simulated network: bytes in order, flow control, and every way to end."""

from __future__ import annotations

import random

import pytest

from refbroker.testing.simulation.network import LEAST_ROOM, WINDOW, Conduct, Endpoint, Network
from refbroker.testing.simulation.scheduler import Simulation
from tests.support.typed import reread

ROUGH = Conduct(split=0.9, short=0.5, slow=0.3)


def connected(seed: int, conduct: Conduct = ROUGH) -> tuple[Simulation, Endpoint, Endpoint]:
    """Both ends of a connection."""
    simulation = Simulation(seed)
    network, accepted = Network(simulation, conduct), list[Endpoint]()
    port = network.bind("h", 0)
    network.listen("h", port, accepted.append)
    near = network.connect("h", port)
    simulation.run_until(lambda: near.is_connected)
    return simulation, near, accepted[0]


def send(simulation: Simulation, end: Endpoint, data: bytes) -> None:
    """Hand over all bytes, waiting for room."""
    while data:
        simulation.run_until(lambda: end.is_writable)
        data = data[end.send(data) :]


def receive(simulation: Simulation, end: Endpoint) -> bytes:
    """Everything up to the end of the stream."""
    found = b""
    while True:
        simulation.run_until(lambda: end.is_readable)
        data = end.receive(1 << 20)
        if not data:
            return found
        found += data


@pytest.mark.parametrize("seed", range(20), ids="seed{}".format)
def test_bytes_arrive_whole_and_in_order_however_they_are_split(seed: int) -> None:
    simulation, near, far = connected(seed)
    sent = random.Random(seed).randbytes(50_000)
    for start in range(0, len(sent), 5_000):
        send(simulation, near, sent[start : start + 5_000])
    near.close()
    assert receive(simulation, far) == sent


def test_a_seed_repeats_the_time_that_bytes_take() -> None:
    def seconds(seed: int) -> float:
        simulation, near, far = connected(seed)
        send(simulation, near, bytes(1000))
        near.close()
        receive(simulation, far)
        return simulation.now

    assert seconds(3) == seconds(3) != seconds(4)


def test_a_sender_waits_until_the_peer_has_read_a_quarter_of_the_window() -> None:
    simulation, near, far = connected(1, Conduct(split=0.0, short=0.0))
    assert near.send(bytes(2 * WINDOW)) == WINDOW
    with pytest.raises(BlockingIOError):
        near.send(b"more")
    assert not near.is_writable
    simulation.run_until(lambda: far.is_readable)
    far.receive(LEAST_ROOM - 1)
    assert not near.is_writable
    far.receive(1)
    assert reread(near.is_writable)
    assert near.send(bytes(WINDOW)) == LEAST_ROOM


def test_a_closed_connection_with_unread_bytes_is_reset() -> None:
    simulation, near, far = connected(1)
    send(simulation, near, b"unread")
    simulation.run_until(lambda: far.is_readable)
    far.close()
    simulation.run_until(lambda: near.error is not None)
    with pytest.raises(ConnectionResetError):
        near.send(b"more")


def test_a_connection_to_nobody_is_refused() -> None:
    simulation = Simulation(1)
    near = Network(simulation).connect("h", 1)
    simulation.run_until(lambda: near.is_readable)
    with pytest.raises(ConnectionRefusedError):
        near.receive(1)


def test_a_port_is_free_again_after_its_release() -> None:
    network = Network(Simulation(1))
    network.bind("h", 9092)
    with pytest.raises(OSError, match="h:9092: Address already in use"):
        network.bind("h", 9092)
    network.release("h", 9092)
    assert network.bind("h", 9092) == 9092
