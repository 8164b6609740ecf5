"""Producer and consumer over three brokers of which one stops, crashes or loses records: none is lost or repeated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kclient import Admin, Consumer, NewTopic, Producer, TopicPartition
from kclient.errors import LogTruncationError
from tests.support.kafka.cluster import KafkaCluster
from tests.support.patience import CHANGE
from tests.support.reading import read
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka3, pytest.mark.slow]

COUNT = 500
"""How long three brokers may take to agree on a change."""


@pytest.fixture
def cluster(broker: KafkaCluster) -> Iterator[KafkaCluster]:
    """The three brokers; those that a test stopped run again afterwards."""
    yield broker
    for node in broker.node_ids:
        broker.start(node)


def leader_of(admin: Admin, topic: str) -> int | None:
    return admin.describe_topics([topic])[topic].partitions[0].leader


def in_sync(admin: Admin, topic: str) -> int:
    return len(admin.describe_topics([topic])[topic].partitions[0].in_sync_replicas)


def create(admin: Admin, topic: str, **settings: str) -> None:
    """A topic of one partition on all three brokers."""
    configs = {name.replace("_", "."): value for name, value in settings.items()}
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=3, configs=configs)])
    wait_until(lambda: in_sync(admin, topic) == 3, CHANGE)


def send_numbers(producer: Producer, topic: str, numbers: range) -> None:
    for number in numbers:
        producer.send(topic, b"%d" % number)


def read_numbers(consumer: Consumer, count: int) -> list[int]:
    return [int(record.value or b"") for record in read(consumer, count, seconds=CHANGE)]


@pytest.mark.parametrize("kill", [pytest.param(False, id="stopped"), pytest.param(True, id="crashed")])
def test_producer_and_consumer_follow_the_leader(cluster: KafkaCluster, topic: str, kill: bool) -> None:
    servers = cluster.bootstrap_servers
    with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers, linger_ms=1) as producer,
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
    ):
        create(admin, topic, min_insync_replicas="2")
        consumer.assign([TopicPartition(topic, 0)])
        send_numbers(producer, topic, range(COUNT))
        assert read_numbers(consumer, COUNT) == list(range(COUNT))

        leader = leader_of(admin, topic)
        assert leader is not None
        send_numbers(producer, topic, range(COUNT, 2 * COUNT))
        cluster.stop(leader, kill=kill)
        send_numbers(producer, topic, range(2 * COUNT, 3 * COUNT))
        producer.flush(timeout=CHANGE)
        assert read_numbers(consumer, 2 * COUNT) == list(range(COUNT, 3 * COUNT))
        # The third broker may learn of the new leader after its clients.
        wait_until(lambda: leader_of(admin, topic) != leader, CHANGE)


def test_a_client_starts_while_a_broker_of_its_list_is_down(cluster: KafkaCluster, topic: str) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        create(admin, topic)
    cluster.stop(cluster.node_ids[0])
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        assert producer.send(topic, b"arrives").result(timeout=CHANGE).offset == 0


def test_consumer_is_notified_of_truncated_records(cluster: KafkaCluster, topic: str) -> None:
    servers = cluster.bootstrap_servers
    with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers, acks=1, linger_ms=1) as producer,
        Consumer(bootstrap_servers=servers, auto_offset_reset="none") as consumer,
    ):
        first, second, third = cluster.node_ids
        admin.create_topics(
            [
                NewTopic(
                    topic,
                    replica_assignment={0: [first, second]},
                    configs={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"},
                )
            ]
        )
        wait_until(lambda: in_sync(admin, topic) == 2, CHANGE)
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        send_numbers(producer, topic, range(COUNT))
        assert read_numbers(consumer, COUNT) == list(range(COUNT))

        # What the first alone has is lost when the second leads without it.
        cluster.stop(second, kill=True)
        wait_until(lambda: in_sync(admin, topic) == 1, CHANGE)
        send_numbers(producer, topic, range(COUNT, 2 * COUNT))
        assert read_numbers(consumer, COUNT) == list(range(COUNT, 2 * COUNT))
        cluster.stop(first, kill=True)
        cluster.start(second)
        wait_until(lambda: leader_of(admin, topic) == second, CHANGE)

        with pytest.raises(LogTruncationError) as raised:
            read_numbers(consumer, 1)
        assert raised.value.divergent_offsets[partition].offset == COUNT
        assert third in cluster.running
