"""refbroker as a broker under the controllers of a real Apache Kafka cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kclient import Consumer, Producer
from kclient.admin import Admin, NewTopic
from kclient.errors import InconsistentClusterIdError, RequestTimedOutError
from kclient.protocol.messages.records.metadata_log import RegisterBrokerRecord
from kclient.types import TopicPartition
from refbroker.lifecycle.states import BrokerState
from refbroker.testing import RefBroker
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.members import (
    JOINABLE,
    format_member,
    image_of,
    member_of,
    member_settings,
    replay_of,
    replayed,
    secured,
    snapshots_in,
)
from tests.support.kafka.tools import TOOLS, JavaTools
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.not_simulated("needs real Apache Kafka"),
    pytest.mark.not_secured("its listeners are plaintext"),
]

MEMBER = 11


@pytest.fixture(scope="module")
def cluster(needs_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three nodes, each a controller and a broker."""
    with KafkaCluster(3, directory=tmp_path_factory.mktemp("controllers"), format_options=JOINABLE) as running:
        yield running


@pytest.fixture
def member(cluster: KafkaCluster, tmp_path: Path) -> Iterator[RefBroker]:
    with member_of(cluster, tmp_path / "member") as broker:
        yield broker


def own_topic(broker: RefBroker, name: str, partitions: int = 1) -> None:
    """Create a topic through the broker, with all partitions on it, and wait until it leads them."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, replica_assignment={number: [MEMBER] for number in range(partitions)})])
    wait_until(lambda: leaders(broker, name) == [MEMBER] * partitions, CHANGE)


def leaders(broker: RefBroker, topic: str) -> list[int]:
    def look(kafka: object) -> list[int]:
        found = kafka.parts.image.topics.get(topic)  # type: ignore[attr-defined]
        return [] if found is None else [state.leader for state in found.partitions.values()]

    return broker.call(look)


def produce(servers: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        futures = [producer.send(topic, value, partition=partition) for value in values]
        for future in futures:
            future.result(timeout=CHANGE)


def consume(servers: str, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
    values: list[bytes | None] = []
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, partition)])
        while len(values) < count:
            values += [record.value for record in consumer.poll(timeout=CHANGE)]
    return values


def state_of(broker: RefBroker) -> BrokerState:
    def look(kafka: object) -> BrokerState:
        state: BrokerState = kafka.parts.membership.lifecycle.state  # type: ignore[attr-defined]
        return state

    return broker.call(look)


def epoch_of(broker: RefBroker) -> int:
    return broker.call(lambda kafka: kafka.parts.broker_epoch)


def active_controller(broker: RefBroker) -> int | None:
    def look(kafka: object) -> int | None:
        found: int | None = kafka.parts.membership.active_controller  # type: ignore[attr-defined]
        return found

    return broker.call(look)


def test_the_broker_is_unfenced_and_serves_partitions_created_through_it(
    cluster: KafkaCluster, member: RefBroker
) -> None:
    assert state_of(member) is BrokerState.RUNNING
    own_topic(member, "served", 2)
    values = [b"%d" % number for number in range(100)]
    # Clients find the leader through any broker.
    produce(cluster.bootstrap_servers, "served", values, 1)
    assert consume(cluster.bootstrap_servers, "served", 100, 1) == values
    assert consume(member.bootstrap_servers, "served", 100, 1) == values
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert MEMBER in admin.describe_cluster().brokers


def test_kafkas_tools_show_the_broker_as_an_observer(cluster: KafkaCluster, member: RefBroker) -> None:
    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    # The request is forwarded when the broker gets it.
    shown = JavaTools(member.bootstrap_servers).run(tool, "describe", "--replication")
    rows = [line.split() for line in shown.splitlines()]
    assert {(row[0], row[-1]) for row in rows if row and row[0].isdecimal()} == {
        *((str(node), "Leader" if node == active_controller(member) else "Follower") for node in cluster.node_ids),
        (str(MEMBER), "Observer"),
    }


def test_the_image_is_a_replay_of_the_controllers_log(cluster: KafkaCluster, member: RefBroker) -> None:
    tools = JavaTools(member.bootstrap_servers)
    own_topic(member, "replayed", 3)
    tools.topic_configs("replayed", "--alter", "--add-config", "retention.ms=5000")
    tools.run(
        f"{TOOLS}.ConfigCommand", "--alter", "--entity-type", "users", "--entity-name", "ann",
        "--add-config", "producer_byte_rate=1000,SCRAM-SHA-256=[password=secret]",
    )  # fmt: skip
    own_topic(member, "removed")
    with Admin(bootstrap_servers=member.bootstrap_servers) as admin:
        admin.delete_topics(["removed"])
    wait_until(lambda: leaders(member, "removed") == [], CHANGE)
    next_offset, image = image_of(member)
    assert any("replayed" in record for record in image)
    assert replay_of(cluster.data_directory(1), next_offset) == image


def test_the_broker_stays_when_the_active_controller_is_killed(cluster: KafkaCluster, member: RefBroker) -> None:
    own_topic(member, "kept")
    epoch, killed = epoch_of(member), active_controller(member)
    assert killed in cluster.node_ids
    cluster.stop(killed, kill=True)
    try:
        wait_until(lambda: active_controller(member) not in (None, killed), CHANGE)
        values = [b"%d" % number for number in range(50)]
        produce(member.bootstrap_servers, "kept", values)
        own_topic(member, "after")
        assert consume(member.bootstrap_servers, "kept", 50) == values
    finally:
        cluster.start(killed)
    assert (state_of(member), epoch_of(member)) == (BrokerState.RUNNING, epoch)
    next_offset, image = image_of(member)
    survivor = next(node for node in cluster.node_ids if node != killed)
    assert replay_of(cluster.data_directory(survivor), next_offset) == image


def test_a_controlled_shutdown_hands_over_and_the_next_start_leads_again(cluster: KafkaCluster, tmp_path: Path) -> None:
    with member_of(cluster, tmp_path / "member") as broker:
        own_topic(broker, "stopped")
        produce(broker.bootstrap_servers, "stopped", [b"before"])
        epoch = epoch_of(broker)
    mark = json.loads((tmp_path / "member" / ".kafka_cleanshutdown").read_text())
    assert mark == {"version": 0, "brokerEpoch": epoch}
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        [partition] = admin.describe_topics(["stopped"])["stopped"].partitions
    assert partition.leader in (None, -1)
    with member_of(cluster, tmp_path / "member") as broker:
        assert epoch_of(broker) > epoch
        wait_until(lambda: leaders(broker, "stopped") == [MEMBER], CHANGE)
        assert consume(broker.bootstrap_servers, "stopped", 1) == [b"before"]


def test_a_killed_broker_returns_with_another_incarnation(cluster: KafkaCluster, tmp_path: Path) -> None:
    data = tmp_path / "member"
    format_member(cluster, data, MEMBER)
    epochs = []

    def start() -> BrokerProcess:
        return BrokerProcess(data, settings=member_settings(cluster, MEMBER))

    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        with start() as process:
            admin.create_topics([NewTopic("crashed", replica_assignment={0: [MEMBER]})])
            produce(process.bootstrap_servers, "crashed", [b"before"])
            epochs.append(registered_epoch(cluster))
            process.stop(kill=True)
        # Until its session has timed out, another incarnation is refused.
        with start() as process:
            epochs.append(registered_epoch(cluster))
            produce(process.bootstrap_servers, "crashed", [b"after"])
            assert consume(process.bootstrap_servers, "crashed", 2) == [b"before", b"after"]
    assert epochs[0] < epochs[1]


def registered_epoch(cluster: KafkaCluster) -> int:
    """Return the broker epoch of the member in the log of a controller."""
    _, records = replayed(cluster.data_directory(1))
    return next(
        record.broker_epoch
        for record in records
        if isinstance(record, RegisterBrokerRecord) and record.broker_id == MEMBER
    )


def test_a_broker_of_another_cluster_is_refused(cluster: KafkaCluster, tmp_path: Path) -> None:
    other = KafkaCluster(1, directory=tmp_path / "other")
    format_member(other, tmp_path / "member", MEMBER)
    broker = RefBroker(data_dir=tmp_path / "member", settings=member_settings(cluster, MEMBER))
    with pytest.raises(InconsistentClusterIdError):
        broker.start()


def test_a_broker_joins_by_a_snapshot(needs_kafka: None, tmp_path: Path) -> None:
    small = {"metadata.log.max.record.bytes.between.snapshots": "3000"}
    with KafkaCluster(1, directory=tmp_path / "kafka", config=small, format_options=JOINABLE) as kafka:
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(f"before-{number}", 10) for number in range(5)])
        # That of offset 0 is written by the format.
        wait_until(lambda: any(name > "00000000000000000001" for name in snapshots_in(kafka.data_directory())), CHANGE)
        with member_of(kafka, tmp_path / "member") as broker:
            assert snapshots_in(tmp_path / "member")
            first = sorted((tmp_path / "member" / "__cluster_metadata-0").glob("*.log"))[0]
            assert first.name != f"{0:020d}.log"
            own_topic(broker, "after")
            next_offset, image = image_of(broker)
            assert replay_of(kafka.data_directory(), next_offset) == image


def test_a_broker_joins_over_sasl_ssl_with_certificates_on_both_sides(needs_kafka: None, tmp_path: Path) -> None:
    security = secured(tmp_path)
    with KafkaCluster(1, directory=tmp_path / "kafka", config=security.kafka, format_options=JOINABLE) as kafka:
        with member_of(kafka, tmp_path / "member", settings=security.member) as broker:
            own_topic(broker, "secured")
            produce(broker.bootstrap_servers, "secured", [b"value"])
            assert consume(kafka.bootstrap_servers, "secured", 1) == [b"value"]
        wrong = member_of(kafka, tmp_path / "member", settings={**security.member, **security.wrong_password})
        with pytest.raises(RequestTimedOutError, match="the user 'broker' could not log in with PLAIN"):
            wrong.start()
