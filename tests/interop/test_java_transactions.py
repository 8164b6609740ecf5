"""Apache Kafka's tools for transactions against the broker under test: its copier, its producer, kafka-transactions."""

from __future__ import annotations

import re

import pytest

from kclient import Admin, NewTopic, TopicPartition
from kclient.admin import AlterConfig, ConfigResource, OffsetSpec, TransactionState
from kclient.errors import ProducerFencedError, TransactionAbortableError
from kclient.types import PreparedTransaction
from tests.support.kafka.jars import run_tool
from tests.support.kafka.tools import KEYED_INPUT, LONG_MS, TOOLS, JavaTools, keyed_lines
from tests.support.patience import PROCESS
from tests.support.raw_transactions import RawTransactions
from tests.support.waiting import wait_until

COMMAND = f"{TOOLS}.TransactionsCommand"
RECORDS = 2000
FEW = 5000
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
def made(admin: Admin, topic: str) -> TopicPartition:
    admin.create_topics([NewTopic(topic, 1)])
    return TopicPartition(topic, 0)


def broker_id(java: JavaTools) -> str:
    found = re.search(r"id: (\d+)", java.run(f"{TOOLS}.BrokerApiVersionsCommand"))
    assert found is not None
    return found[1]


def stable_offset(admin: Admin, place: TopicPartition) -> int:
    return admin.list_offsets({place: OffsetSpec.LATEST}, isolation_level="read_committed")[place].offset


def read(java: JavaTools, topic: str, isolation: str) -> list[str]:
    """The records of a topic's only partition, and at the end what the console consumer says of their number."""
    lines = java.run(
        f"{TOOLS}.consumer.ConsoleConsumer", "--topic", topic, "--partition", "0", "--offset", "earliest",
        "--timeout-ms", "8000", "--isolation-level", isolation,
    ).splitlines()  # fmt: skip
    return [line for line in lines if not re.search(r"ERROR|Exception|^\s+at ", line)]


def copy(java: JavaTools, topic: str) -> str:
    """Run the copier until it has read what there is; one in three of its transactions is aborted on purpose.

    There are forty and more of them, so that chance does not let all be committed.
    """
    return run_tool(
        f"{TOOLS}.TransactionalMessageCopier", "--broker-list", java.bootstrap_servers, "--input-topic", topic,
        "--input-partition", "0", "--output-topic", f"{topic}-copy", "--consumer-group", topic,
        "--transactional-id", topic, "--transaction-size", "50", "--enable-random-aborts", "--max-messages", "-1",
        timeout=PROCESS,
    ).stdout  # fmt: skip


def test_a_producer_commits_every_fifth_of_a_second(java: JavaTools, topic: str) -> None:
    output = java.run(
        f"{TOOLS}.ProducerPerformance", "--topic", topic, "--num-records", str(FEW), "--record-size", "100",
        "--throughput", "4000", "--transactional-id", topic, "--transaction-duration-ms", "200",
    )  # fmt: skip
    assert f"{FEW} records sent" in output, output
    found = read(java, topic, "read_committed")
    assert found[-1] == f"Processed a total of {FEW} messages"
    assert re.search(rf"{topic}\s+[0-9]+\s+[0-9]+\s+CompleteCommit", java.run(COMMAND, "list"))
    described = java.run(COMMAND, "describe", "--transactional-id", topic)
    assert re.search(rf"{topic}\s+[0-9]+\s+[0-9]+\s+CompleteCommit", described), described
    producers = java.run(COMMAND, "describe-producers", "--topic", topic, "--partition", "0")
    assert re.search(r"^[0-9]+\s+[1-9][0-9]*\s+0\s", producers, re.MULTILINE), producers


@pytest.mark.not_secured("the tool has no options for security")
def test_the_copier_aborts_at_random_and_copies_each_record_once(java: JavaTools, topic: str) -> None:
    for name in (topic, f"{topic}-copy"):
        java.create_topic(name)
    java.run(f"{TOOLS}.VerifiableProducer", "--topic", topic, "--max-messages", str(RECORDS), "--acks", "-1")
    # The second one finds nothing left to do.
    for consumed in (RECORDS, 0):
        output = copy(java, topic)
        assert re.search(rf'"stage":"ShutdownComplete".*"consumed":{consumed},"remaining":0', output), output[-2000:]
    committed = read(java, f"{topic}-copy", "read_committed")
    assert sorted(committed[:-1], key=int) == [str(number) for number in range(RECORDS)]
    everything = read(java, f"{topic}-copy", "read_uncommitted")
    assert len(everything) > len(committed), "nothing was aborted"
    described = java.run(f"{TOOLS}.consumer.group.ConsumerGroupCommand", "--describe", "--group", topic)
    assert re.search(rf" {topic} +0 +{RECORDS} +{RECORDS} +0 ", described), described


def test_producers_without_transactions_are_described(java: JavaTools, made: TopicPartition) -> None:
    java.produce(made.topic, keyed_lines(10), *KEYED_INPUT)
    output = java.run(COMMAND, "describe-producers", "--topic", made.topic, "--partition", "0")
    assert re.search(r"ProducerId\s+ProducerEpoch", output), output
    assert re.search(r"^[0-9]+\s+0\s+-1\s+9\s+[0-9]+\s+None\s*$", output, re.MULTILINE), output


def test_an_open_transaction_is_ended_by_force(
    java: JavaTools, admin: Admin, raw: RawTransactions, made: TopicPartition, topic: str
) -> None:
    opened = raw.prepared(topic, made.topic, b"one", timeout_ms=LONG_MS)
    assert re.search(rf"{topic}\s+[0-9]+\s+[0-9]+\s+Ongoing", java.run(COMMAND, "list"))
    java.run(COMMAND, "forceTerminateTransaction", "--transactionalId", topic)
    # The tool takes the id itself, as a producer that starts.
    wait_until(lambda: admin.describe_transactions(topic)[topic].state is TransactionState.EMPTY)
    assert stable_offset(admin, made) == 2
    with pytest.raises(ProducerFencedError):
        admin.complete_transaction(opened)


def test_nothing_hangs(java: JavaTools, made: TopicPartition) -> None:
    for where in (("--broker-id", broker_id(java)), ("--topic", made.topic)):
        output = java.run(COMMAND, "find-hanging", *where, "--max-transaction-timeout", "15")
        assert re.search(r"Topic\s+Partition\s+ProducerId", output), output
        assert made.topic not in output


def test_a_hanging_transaction_is_found_and_aborted(
    java: JavaTools, admin: Admin, raw: RawTransactions, made: TopicPartition, topic: str
) -> None:
    """This happens if a record was not verified, so that the coordinator does not know of it."""
    everyone = ConfigResource.broker()
    admin.incremental_alter_configs({everyone: [AlterConfig.set(VERIFICATION, False)]})
    left = raw.start(topic)
    try:
        wait_until(lambda: is_written(raw, left, topic))
    finally:
        admin.incremental_alter_configs({everyone: [AlterConfig.delete(VERIFICATION)]})
    found = java.run(COMMAND, "find-hanging", "--topic", topic)
    assert re.search(rf"^{topic}\s+0\s+{left.producer_id}\s+{left.epoch}\s", found, re.MULTILINE), found
    assert stable_offset(admin, made) == 0
    java.run(COMMAND, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert stable_offset(admin, made) == 2
    assert topic not in java.run(COMMAND, "find-hanging", "--topic", topic).splitlines()[-1]


def is_written(raw: RawTransactions, transaction: PreparedTransaction, topic: str) -> bool:
    """Whether brokers have heard that they need not verify."""
    try:
        raw.write(transaction, topic, b"lost")
    except TransactionAbortableError:
        return False
    return True
