"""Committed offsets between refbroker and others: Kafka's files and tools, confluent-kafka, kafka-python.

One data directory goes from Apache Kafka to refbroker and back, and each finds what the other has committed, with what
transactions have left behind; Kafka's console consumer and DumpLogSegments print what refbroker has stored.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import FEW_PARTITIONS
from tests.interop.dumps import assert_same
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.tools import JavaTools
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until

# Warnings about unclosed resources of other clients are not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

TOPIC, PARTITIONS = "committed", 3

Offsets = dict[int, int]


def make_topic(address: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(ANSWER)


def commit(confluent: Any, address: str, group: str, offsets: Offsets, metadata: str = "") -> None:
    """By confluent-kafka, which assigns by itself."""
    consumer = confluent.Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})
    places = [confluent.TopicPartition(TOPIC, one, offset, metadata) for one, offset in offsets.items()]
    for answer in consumer.commit(offsets=places, asynchronous=False):
        assert answer.error is None, answer
    consumer.close()


def committed(confluent: Any, address: str, group: str) -> Offsets:
    consumer = confluent.Consumer({"bootstrap.servers": address, "group.id": group})
    found: Any = None

    def answered() -> bool:
        nonlocal found
        try:
            found = consumer.committed(
                [confluent.TopicPartition(TOPIC, one) for one in range(PARTITIONS)], timeout=ANSWER
            )
        except confluent.KafkaException as error:
            # A broker that has just started may not know yet what it coordinates, and librdkafka gives up.
            if error.args[0].code() != confluent.KafkaError.NOT_COORDINATOR:
                raise
        return found is not None

    wait_until(answered)
    consumer.close()
    return {one.partition: one.offset for one in found if one.offset >= 0}


def commit_in_transaction(confluent: Any, address: str, group: str, offsets: Offsets, *, abort: bool) -> None:
    producer = confluent.Producer({"bootstrap.servers": address, "transactional.id": f"of-{group}"})
    consumer = confluent.Consumer({"bootstrap.servers": address, "group.id": group})
    producer.init_transactions(30)
    producer.begin_transaction()
    places = [confluent.TopicPartition(TOPIC, one, offset) for one, offset in offsets.items()]
    producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
    producer.abort_transaction(30) if abort else producer.commit_transaction(30)
    consumer.close()


@pytest.mark.usefixtures("needs_kafka")
def test_a_data_directory_goes_from_kafka_to_refbroker_and_back(tmp_path: Path, confluent: Any) -> None:
    kafka = KafkaCluster(directory=tmp_path, config=FEW_PARTITIONS)
    address, directory = kafka.address(1), kafka.data_directory()
    settings = {**FEW_PARTITIONS, "node.id": "1"}
    with kafka:
        make_topic(address)
        commit(confluent, address, "plain", {0: 5, 1: 6}, "from kafka")
        commit(confluent, address, "plain", {0: 7})
        commit(confluent, address, "gone", {0: 1})
        commit(confluent, address, "transactions", {0: 1, 1: 1})
        commit_in_transaction(confluent, address, "transactions", {0: 20, 2: 22}, abort=False)
        commit_in_transaction(confluent, address, "transactions", {0: 30, 1: 31}, abort=True)
        expected = {"plain": {0: 7, 1: 6}, "gone": {0: 1}, "transactions": {0: 20, 1: 1, 2: 22}}
        assert {group: committed(confluent, address, group) for group in expected} == expected
    with BrokerProcess(directory, settings=settings) as process:
        address = process.bootstrap_servers
        assert {group: committed(confluent, address, group) for group in expected} == expected
        assert sorted(list_groups(address)) == sorted(expected)
        commit(confluent, address, "plain", {2: 9}, "from refbroker")
        commit(confluent, address, "transactions", {0: 40})
        commit(confluent, address, "new", {1: 3})
        delete_group(address, "gone")
    expected = {"plain": {0: 7, 1: 6, 2: 9}, "gone": {}, "transactions": {0: 40, 1: 1, 2: 22}, "new": {1: 3}}
    kafka.start(1)
    with closing(kafka):
        address = kafka.address(1)
        assert {group: committed(confluent, address, group) for group in expected} == expected
        assert sorted(list_groups(address)) == ["new", "plain", "transactions"]


def list_groups(address: str) -> list[str]:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address})
    listed = admin.list_consumer_groups().result(ANSWER)
    assert not listed.errors
    return [group.group_id for group in listed.valid]


def delete_group(address: str, group: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_consumer_groups([group])[group].result(ANSWER)


@pytest.mark.usefixtures("needs_kafka")
def test_kafkas_tools_print_what_is_stored(process: BrokerProcess, confluent: Any) -> None:
    address = process.bootstrap_servers
    make_topic(address)
    commit(confluent, address, "printed", {0: 5, 2: 6}, "metadata of mine")
    delete_group(address, "printed")
    commit(confluent, address, "printed", {1: 8})
    lines = JavaTools(address).formatted("__consumer_offsets", "OffsetsMessageFormatter")
    mine = [
        (line["key"]["data"]["partition"], line["value"]["data"]["offset"], line["value"]["data"]["metadata"])
        for line in lines
        if line["key"]["data"]["group"] == "printed" and line["key"]["type"] == 1 and line["value"] is not None
    ]
    mine = [(partition, offset, metadata.rstrip("\0")) for partition, offset, metadata in mine]
    assert sorted(mine) == [(0, 5, "metadata of mine"), (1, 8, ""), (2, 6, "metadata of mine")]
    process.stop()
    logs = sorted(log for log in process.data_directory.glob("__consumer_offsets-*/*.log") if log.stat().st_size)
    dump = "\n".join(assert_same(logs, "--offsets-decoder"))
    assert dump.count('"group":"printed"') == 6
    assert dump.count("<DELETE>") == 3


def test_confluent_and_kafka_python_see_each_others_commits(process: BrokerProcess, confluent: Any) -> None:
    kafka_python = pytest.importorskip("kafka")
    address = process.bootstrap_servers
    make_topic(address)
    commit(confluent, address, "shared", {0: 5}, "mine")
    consumer = kafka_python.KafkaConsumer(bootstrap_servers=address, group_id="shared", enable_auto_commit=False)
    places = [kafka_python.TopicPartition(TOPIC, one) for one in range(PARTITIONS)]
    consumer.assign(places)
    assert [consumer.committed(place) for place in places] == [5, None, None]
    # confluent-kafka sends the end of its C string along.
    assert consumer.committed(places[0], metadata=True).metadata.rstrip("\0") == "mine"
    consumer.commit({places[2]: kafka_python.OffsetAndMetadata(8, "yours", -1)})
    consumer.close()
    assert committed(confluent, address, "shared") == {0: 5, 2: 8}


def test_a_consumer_continues_where_the_last_one_has_committed(process: BrokerProcess, confluent: Any) -> None:
    """A group with members, whose offsets the next one finds, and an administrator moves once nobody is there."""
    address = process.bootstrap_servers
    make_topic(address)
    producer = confluent.Producer({"bootstrap.servers": address})
    for number in range(90):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    consume(confluent, address, 30)
    first = committed(confluent, address, "workers")
    assert sum(first.values()) == 30
    consume(confluent, address, 60)
    assert committed(confluent, address, "workers") == {0: 30, 1: 30, 2: 30}
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address})

    def is_empty() -> bool:
        described = admin.describe_consumer_groups(["workers"])["workers"].result(ANSWER)
        return bool(described.state == confluent.ConsumerGroupState.EMPTY)

    wait_until(is_empty)
    places = [confluent.TopicPartition(TOPIC, one, 20) for one in range(PARTITIONS)]
    moved = confluent.ConsumerGroupTopicPartitions("workers", places)
    admin.alter_consumer_group_offsets([moved])["workers"].result(ANSWER)
    consume(confluent, address, 30)


def consume(confluent: Any, address: str, count: int) -> None:
    """Get so many records as a member of a group, and commit each."""
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": address, "group.id": "workers", "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.subscribe([TOPIC])
    got = 0
    while got < count:
        record = consumer.poll(30)
        assert record is not None
        assert record.error() is None
        consumer.commit(record, asynchronous=False)
        got += 1
    consumer.close()
