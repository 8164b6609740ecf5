"""Apache Kafka and refbroker with the same listeners tell the clients of each the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kclient.protocol.messages.describe_cluster import DescribeClusterRequest
from kclient.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.metadata import MetadataRequest
from refbroker.testing import RefBroker
from tests.support.kafka.cluster import KafkaCluster
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until
from tests.support.wire import Wire

NAMES = ("PLAINTEXT", "OUTSIDE", "HIDDEN")
PROTOCOLS = ",".join(f"{name}:PLAINTEXT" for name in (*NAMES, "CONTROLLER"))


class ListeningKafka(KafkaCluster):
    """Apache Kafka with two further listeners, one of which it does not advertise."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory, listeners=dict.fromkeys(NAMES[1:], "PLAINTEXT"))

    def _settings(self, node: int) -> Iterator[tuple[str, object]]:
        yield from super()._settings(node)
        yield "advertised.listeners", f"PLAINTEXT://{self.address(node)},OUTSIDE://outside.example:443"


class Side:
    """One of the brokers, with the address at which it accepts each listener's connections."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses

    def ask(self, listener: str, request: Any, version: int) -> Any:
        with Wire(self._addresses[listener]) as wire:
            return wire.ask(request, version)

    def where(self, host: str, port: int) -> str:
        """Return the name of the listener that advertises this address."""
        names = {":-1": "none", "outside.example:443": "OUTSIDE", self._addresses["PLAINTEXT"]: "PLAINTEXT"}
        return names[f"{host}:{port}"]


def state_of(partition: Any) -> tuple[object, ...]:
    return (
        partition.error_code,
        partition.leader_id,
        partition.replica_nodes,
        partition.isr_nodes,
        partition.offline_replicas,
    )


@pytest.fixture(scope="module")
def sides(needs_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Side]]:
    listeners = ",".join(f"{name}://127.0.0.1:0" for name in NAMES)
    settings = {
        "listeners": listeners,
        "listener.security.protocol.map": PROTOCOLS,
        "advertised.listeners": "PLAINTEXT://127.0.0.1:0,OUTSIDE://outside.example:443",
        "offsets.topic.num.partitions": "4",
    }
    with ExitStack() as stack:
        kafka = stack.enter_context(ListeningKafka(tmp_path_factory.mktemp("kafka")))
        broker = stack.enter_context(RefBroker(settings=settings))
        of_kafka = {name: kafka.address(listener=name) for name in NAMES}
        ports = broker.call(lambda running: running.ports)
        of_broker = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        yield [Side(of_kafka), Side(of_broker)]


@pytest.mark.parametrize("listener", NAMES)
@pytest.mark.parametrize("version", range(14))
def test_metadata(sides: list[Side], listener: str, version: int) -> None:
    def described(side: Side) -> object:
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
        wait_until(lambda: side.ask("PLAINTEXT", request, 12).topics[0].error_code == 0, CHANGE)
        answer = side.ask(listener, request, version)
        partitions = [state_of(one) for one in answer.topics[0].partitions]
        brokers = [(one.node_id, side.where(one.host, one.port)) for one in answer.brokers]
        return brokers, answer.topics[0].error_code, partitions

    kafka, refbroker = map(described, sides)
    assert refbroker == kafka


@pytest.mark.parametrize("listener", NAMES)
def test_describe_topic_partitions(sides: list[Side], listener: str) -> None:
    def described(side: Side) -> object:
        topics = [MetadataRequest.MetadataRequestTopic(name="t")]
        wait_until(lambda: side.ask("PLAINTEXT", MetadataRequest(topics=topics), 12).topics[0].error_code == 0, CHANGE)
        request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name="t")])
        (topic,) = side.ask(listener, request, 0).topics
        return topic.error_code, [state_of(one) for one in topic.partitions]

    kafka, refbroker = map(described, sides)
    assert refbroker == kafka


@pytest.mark.parametrize("listener", NAMES)
@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(sides: list[Side], listener: str, version: int) -> None:
    def described(side: Side) -> object:
        answer = side.ask(listener, DescribeClusterRequest(), version)
        return answer.error_code, [(one.broker_id, side.where(one.host, one.port)) for one in answer.brokers]

    kafka, refbroker = map(described, sides)
    assert refbroker == kafka


@pytest.mark.parametrize("listener", NAMES)
def test_find_coordinator(sides: list[Side], listener: str) -> None:
    def found(side: Side) -> object:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        wait_until(lambda: side.ask("PLAINTEXT", request, 4).coordinators[0].error_code == 0, CHANGE)
        (answer,) = side.ask(listener, request, 4).coordinators
        return answer.error_code, answer.node_id, side.where(answer.host, answer.port)

    kafka, refbroker = map(found, sides)
    assert refbroker == kafka
