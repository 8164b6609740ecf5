"""The client against the mock cluster that librdkafka carries, which many test their applications with.

It speaks a part of the protocol, and some of that in its own way: docs/compatibility.md has the list. Not tested: the
consumer protocol (KIP-848), over which the mock cluster ends the process it lives in.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kclient import Admin, Consumer, NewTopic, Producer, TopicPartition
from kclient.errors import UnsupportedVersionError
from tests.support.reading import read
from tests.support.waiting import wait_until

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.interop
PARTITIONS = 4
"""That many the mock cluster gives a topic that is asked for."""


@pytest.fixture(params=[1, 3])
def mock(request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap servers of a mock cluster, which lives as long as a client of its maker."""
    options = {"bootstrap.servers": "unused:1", "test.mock.num.brokers": request.param, "log_level": 0}
    owner = confluent_kafka.Producer(options)
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(0)


@pytest.fixture
def topic() -> str:
    return f"mocked-{uuid.uuid4().hex[:8]}"


def fill(servers: str, topic: str, codec: str, count: int) -> set[bytes]:
    values = {f"{codec}-{number}".encode() for number in range(count)}
    with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        for number, value in enumerate(sorted(values)):
            producer.send(topic, value, partition=number % PARTITIONS)
    return values


def test_every_codec_arrives(mock: str, topic: str) -> None:
    expected = set()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        expected |= fill(mock, topic, codec, 20)
    with Consumer(bootstrap_servers=mock, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        assert {record.value for record in read(consumer, len(expected))} == expected


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_a_group_of_three_shares_a_topic_and_commits(mock: str, topic: str, strategy: str) -> None:
    expected = fill(mock, topic, "none", 40)
    options: dict[str, Any] = {
        "group_id": f"group-{topic}",
        "partition_assignment_strategy": strategy,
        "auto_offset_reset": "earliest",
        # The mock cluster refuses a member that syncs after the leader, and then waits a session for all to rejoin.
        "session_timeout_ms": 6_000,
    }
    members = [Consumer(topic, bootstrap_servers=mock, **options) for _ in range(3)]
    seen: list[bytes | None] = []

    def shared() -> bool:
        for member in members:
            seen.extend(record.value for record in member.poll(0.1))
        return sorted(len(member.assignment()) for member in members) == [1, 1, 2] and set(seen) == expected

    try:
        wait_until(shared)
        for member in members:
            member.commit()
            committed = member.committed(member.assignment())
            assert {offset and offset.offset for offset in committed.values()} == {10}
    finally:
        for member in members:
            member.close()


def test_what_it_does_not_have_is_named(mock: str, topic: str) -> None:
    with (
        Admin(bootstrap_servers=mock) as admin,
        pytest.raises(UnsupportedVersionError, match="does not have the API CreateTopics"),
    ):
        admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])


def test_transactions_are_read_where_checksums_are_not_verified(mock: str, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=mock, transactional_id=topic) as producer:
        producer.init_transactions()
        for value in (b"one", b"two"):
            with producer.transaction():
                producer.send(topic, value, partition=0)
    with Consumer(bootstrap_servers=mock, auto_offset_reset="earliest", check_crcs=False) as consumer:
        consumer.assign([tp])
        assert [record.value for record in read(consumer, 2)] == [b"one", b"two"]
