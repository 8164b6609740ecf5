"""The state of transactions between refbroker and others: confluent-kafka, Java's producer, Kafka's tools, its files.

Producers of both versions of transactions commit, abort and are fenced on refbroker. Kafka's console consumer with the
formatter of the transaction log, its DumpLogSegments and its `kafka-transactions` print what refbroker has stored. A
data directory with an open transaction goes from Apache Kafka to refbroker and back.
"""

from __future__ import annotations

import time
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

TOPIC, PARTITIONS = "paid", 2
STATE = "__transaction_state"
COMMAND = "org.apache.kafka.tools.TransactionsCommand"


def make_topic(address: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(ANSWER)


def transactional(confluent: Any, address: str, name: str, timeout_ms: int = 600_000) -> Any:
    """confluent-kafka's producer with its identity; by default librdkafka logs errors to stderr."""
    producer = confluent.Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    return producer


def committed(confluent: Any, address: str) -> list[str]:
    """What a reader of committed records finds, up to the end of each partition, once no transaction is open."""
    # Markers are written after the end of a transaction was answered, and such a reader takes what is open for the end.
    wait_until(lambda: not _is_open(confluent, address))
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent.TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: list[str] = []
    ended: set[int] = set()
    deadline = time.monotonic() + ANSWER
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, f"partitions {ended} ended, {found} found"
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is not None:
            assert message.error().code() == confluent.KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
            continue
        found.append(message.value().decode())
    consumer.close()
    return sorted(found)


def write(producer: Any, *values: str) -> None:
    for number, value in enumerate(values):
        producer.produce(TOPIC, value.encode(), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def listed(address: str, *arguments: str) -> dict[str, list[str]]:
    """The columns that `kafka-transactions` prints, by the first of them."""
    lines = JavaTools(address).run(COMMAND, *arguments).splitlines()
    head = next(number for number, line in enumerate(lines) if "TransactionalId" in line)
    return {(words := line.split())[0]: words[1:] for line in lines[head + 1 :] if line.strip()}


def test_confluent_commits_aborts_and_is_fenced(process: BrokerProcess, confluent: Any) -> None:
    address = process.bootstrap_servers
    make_topic(address)
    zombie = transactional(confluent, address, "id")
    for number in range(4):
        zombie.begin_transaction()
        write(zombie, f"{number}a", f"{number}b", f"{number}c")
        zombie.abort_transaction(30) if number % 2 else zombie.commit_transaction(30)
    zombie.begin_transaction()
    write(zombie, "left open")
    producer = transactional(confluent, address, "id")
    with pytest.raises(confluent.KafkaException) as raised:
        zombie.commit_transaction(30)
    assert raised.value.args[0].code() == confluent.KafkaError._FENCED
    assert raised.value.args[0].fatal()
    producer.begin_transaction()
    write(producer, "after")
    producer.commit_transaction(30)
    assert committed(confluent, address) == ["0a", "0b", "0c", "2a", "2b", "2c", "after"]


def test_offsets_of_confluent_count_with_its_transaction(process: BrokerProcess, confluent: Any) -> None:
    address = process.bootstrap_servers
    make_topic(address)
    producer = transactional(confluent, address, "id")
    consumer = confluent.Consumer({"bootstrap.servers": address, "group.id": "group"})
    places = [confluent.TopicPartition(TOPIC, 0)]

    def commit(offset: int, *, abort: bool) -> int:
        producer.begin_transaction()
        wanted = [confluent.TopicPartition(TOPIC, 0, offset)]
        producer.send_offsets_to_transaction(wanted, consumer.consumer_group_metadata(), 30)
        producer.abort_transaction(30) if abort else producer.commit_transaction(30)
        found: int = consumer.committed(places, timeout=ANSWER)[0].offset
        return found

    assert [commit(5, abort=False), commit(9, abort=True), commit(7, abort=False)] == [5, 5, 7]
    consumer.close()


def test_a_transaction_that_takes_too_long_is_aborted_for_confluent(process: BrokerProcess, confluent: Any) -> None:
    address = process.bootstrap_servers
    make_topic(address)
    producer = transactional(confluent, address, "slow", timeout_ms=1000)
    producer.begin_transaction()
    write(producer, "late")
    wait_until(lambda: not _is_open(confluent, address))
    with pytest.raises(confluent.KafkaException):
        producer.commit_transaction(30)
    assert committed(confluent, address) == []


def _is_open(confluent: Any, address: str) -> bool:
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": address})
    wanted = {confluent.TopicPartition(TOPIC, number): OffsetSpec.latest() for number in range(PARTITIONS)}

    def ends(level: Any) -> list[int]:
        found = admin.list_offsets(wanted, isolation_level=level)
        return [found[place].result(ANSWER).offset for place in wanted]

    return ends(confluent.IsolationLevel.READ_COMMITTED) != ends(confluent.IsolationLevel.READ_UNCOMMITTED)


@pytest.mark.usefixtures("needs_kafka")
@pytest.mark.parametrize("version", [0, 1, 2], ids="version {}".format)
def test_kafkas_tools_print_what_is_stored(process: BrokerProcess, confluent: Any, version: int) -> None:
    address = process.bootstrap_servers
    tools = JavaTools(address)
    if version < 2:
        direction = ("downgrade", "--feature", f"transaction.version={version}")
        assert "was downgraded" in tools.run("org.apache.kafka.tools.FeatureCommand", *direction)
    make_topic(address)
    producer = transactional(confluent, address, "confluent")
    producer.begin_transaction()
    write(producer, "1", "2")
    producer.commit_transaction(30)
    tools.run(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", TOPIC, "--num-records", "50", "--record-size", "10",
        "--throughput", "-1", "--transactional-id", "java", "--transaction-duration-ms", "100000",
    )  # fmt: skip
    producer.begin_transaction()
    write(producer, "3")
    assert listed(address, "list")["confluent"][-1] == "Ongoing"
    assert listed(address, "list")["java"][-1] == "CompleteCommit"
    assert list(listed(address, "list", "--transactional-id-pattern", "j.*")) == ["java"]
    described = tools.run(COMMAND, "describe", "--transactional-id", "confluent")
    assert f"{TOPIC}-0" in described
    assert "Ongoing" in described

    states: dict[str, list[int]] = {}
    versions: dict[str, set[int]] = {"confluent": set(), "java": set()}
    for line in tools.formatted(STATE, "TransactionLogMessageFormatter"):
        name, value = line["key"]["data"]["transactionalId"], line["value"]
        states.setdefault(name, []).append(value["data"]["transactionStatus"])
        versions[name].add(value["data"].get("clientTransactionVersion", 0))
        assert value["version"] == min(version, 1)
    assert states["confluent"] == [0, 1, 1, 2, 4, 1] or states["confluent"] == [0, 1, 2, 4, 1]
    assert [one for one in states["java"] if one != 1] == [0, 2, 4]
    assert max(versions["java"]) == (2 if version == 2 else 0)

    process.stop()
    logs = sorted(log for log in process.data_directory.glob(f"{STATE}-*/*.log") if log.stat().st_size)
    dump = "\n".join(assert_same(logs, "--transaction-log-decoder"))
    assert dump.count('"transactionalId":"confluent"') == len(states["confluent"])


@pytest.mark.usefixtures("needs_kafka")
def test_an_open_transaction_goes_from_kafka_to_refbroker_and_back(tmp_path: Path, confluent: Any) -> None:
    kafka = KafkaCluster(directory=tmp_path, config=FEW_PARTITIONS)
    address, directory = kafka.address(1), kafka.data_directory()
    with kafka:
        make_topic(address)
        producer = transactional(confluent, address, "done")
        producer.begin_transaction()
        write(producer, "of kafka")
        producer.commit_transaction(30)
        left = transactional(confluent, address, "left")
        left.begin_transaction()
        write(left, "never")
        before = listed(address, "list")
    assert {name: columns[-1] for name, columns in before.items()} == {"done": "CompleteCommit", "left": "Ongoing"}
    with BrokerProcess(directory, settings={**FEW_PARTITIONS, "node.id": "1"}) as process:
        address = process.bootstrap_servers
        found = listed(address, "list")
        assert {name: columns[1:] for name, columns in found.items()} == {
            name: columns[1:] for name, columns in before.items()
        }, "the same producer ids in the same states"
        producer = transactional(confluent, address, "left")
        producer.begin_transaction()
        write(producer, "of refbroker")
        producer.commit_transaction(30)
        assert committed(confluent, address) == ["of kafka", "of refbroker"]
        open_here = transactional(confluent, address, "open")
        open_here.begin_transaction()
        write(open_here, "never")
    kafka.start(1)
    with closing(kafka):
        address = kafka.address(1)
        states = {name: columns[-1] for name, columns in listed(address, "list").items()}
        assert states == {"done": "CompleteCommit", "left": "CompleteCommit", "open": "Ongoing"}
        producer = transactional(confluent, address, "open")
        producer.begin_transaction()
        write(producer, "of kafka again")
        producer.commit_transaction(30)
        assert committed(confluent, address) == ["of kafka", "of kafka again", "of refbroker"]
