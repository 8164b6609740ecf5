"""The view of a cluster that keeps changing, over a network that keeps failing."""

from __future__ import annotations

import random

import pytest

from kclient.config import ClientConfig
from kclient.errors import KafkaError
from kclient.net.cluster import Cluster
from kclient.net.manager import Request
from kclient.protocol import Message
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.engines.network import NO_FAULTS, Faults, Simulation, with_api_versions

STORMY = Faults(
    refuse=0.2,
    lose_request=0.05,
    lose_answer=0.05,
    repeat_answer=0.1,
    cut_before=0.1,
    cut_after=0.1,
    late=0.1,
)


class FakeCluster:
    """Three brokers whose partitions move; each broker may lag behind the truth."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.hosts = {node: f"b{node}" for node in (1, 2, 3)}
        self.epochs = [0] * 4
        self.leaders = [1] * 4
        self.history: list[tuple[list[int], list[int]]] = []
        self.lagging = True
        self.move()
        self.serve()

    def serve(self) -> None:
        answer = with_api_versions(self.answer)
        self.simulation.brokers = dict.fromkeys(["boot", *self.hosts.values()], answer)

    def move(self) -> None:
        partition = self.simulation.random.randrange(4)
        self.epochs[partition] += 1
        self.leaders[partition] = self.simulation.random.choice([1, 2, 3])
        self.history.append((list(self.epochs), list(self.leaders)))

    def answer(self, request: Message, version: int) -> Message | None:
        assert isinstance(request, MetadataRequest)
        choices = self.history[-3:] if self.lagging else self.history[-1:]
        epochs, leaders = self.simulation.random.choice(choices)
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=index, leader_id=leaders[index], leader_epoch=epochs[index]
            )
            for index in range(4)
        ]
        topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=partitions)
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=node, host=host, port=1)
            for node, host in self.hosts.items()
        ]
        return MetadataResponse(cluster_id="c", brokers=brokers, topics=[topic] if request.topics else [])


@pytest.mark.parametrize("number", range(15))
def test_the_view_never_goes_back_and_is_right_once_the_storm_is_over(number: int, rng: random.Random) -> None:
    seed = rng.randrange(2**32)
    simulation = Simulation(seed, STORMY)
    cluster = FakeCluster(simulation)
    engine = simulation.engine(ClientConfig(bootstrap_servers="boot:1", request_timeout_ms=5_000))
    engine.metadata.add_topic("t")
    seen: dict[int, int] = {}

    def look(view: Cluster) -> None:
        for info in view.partitions("t") or ():
            assert (info.leader_epoch or 0) >= seen.get(info.partition, 0)
            seen[info.partition] = info.leader_epoch or 0

    engine.metadata.add_listener(look)
    outcomes: list[object] = []
    sent = 0
    for step in range(60):
        if step % 3 == 0:
            cluster.move()
        if step == 30:
            cluster.hosts = {node: f"moved{node}" for node in (1, 2, 3)}
            cluster.serve()
        for node in (1, 2, 3, -1):
            simulation.later(
                0.0,
                lambda node=node: engine.send(  # type: ignore[misc]
                    Request(
                        node,
                        MetadataRequest,
                        lambda version: MetadataRequest(),
                        lambda response, now: outcomes.append(response),
                        lambda error, now: outcomes.append(error),
                    )
                ),
            )
            sent += 1
        engine.metadata.request_update()
        simulation.run(simulation.random.uniform(0.1, 3.0))
    simulation.faults = NO_FAULTS
    cluster.lagging = False
    engine.metadata.request_update()

    def right() -> bool:
        infos = engine.metadata.cluster.partitions("t") or ()
        return [info.leader for info in infos] == cluster.leaders and {
            node.host for node in engine.metadata.cluster.brokers.values()
        } == set(cluster.hosts.values())

    simulation.run(120.0, until=right)
    assert right()
    simulation.run(60.0)
    assert len(outcomes) == sent
    assert all(isinstance(outcome, MetadataResponse | KafkaError) for outcome in outcomes)
    engine.check_usable()


def test_a_seed_repeats_a_run() -> None:
    def run() -> tuple[int, float, int]:
        simulation = Simulation(42, STORMY)
        FakeCluster(simulation)
        engine = simulation.engine(ClientConfig(bootstrap_servers="boot:1"))
        engine.metadata.add_topic("t")
        simulation.run(600.0)
        return simulation.requests, simulation.now, engine.metadata.cluster.version

    assert run() == run()


def test_an_idle_client_hardly_does_anything() -> None:
    simulation = Simulation(1)
    FakeCluster(simulation)
    engine = simulation.engine(ClientConfig(bootstrap_servers="boot:1"))
    engine.metadata.add_topic("t")
    simulation.run(10.0)
    before = simulation.requests
    simulation.run(3000.0)
    # Metadata every five minutes, and connections that were closed as idle set up again.
    assert simulation.requests - before <= 30
