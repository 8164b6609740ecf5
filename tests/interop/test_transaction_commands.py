"""`kclient transactions` beside Kafka's own tool: both tell the same of a transaction, and end what hangs alike.

And a transaction of librdkafka's, which knows nothing of handing over, that is ended from outside.
"""

from __future__ import annotations

import pytest

from kclient import Admin, NewTopic, PreparedTransaction, TopicPartition
from kclient.admin import OffsetSpec, TransactionState
from kclient.errors import ProducerFencedError
from tests.interop.conftest import Target
from tests.support.command_line import Cli
from tests.support.kafka.tools import LONG_MS, TOOLS, JavaTools
from tests.support.raw_transactions import RawTransactions
from tests.support.waiting import wait_until

COMMAND = f"{TOOLS}.TransactionsCommand"


@pytest.fixture
def made(admin: Admin, topic: str) -> str:
    admin.create_topics([NewTopic(topic, 2)])
    return topic


@pytest.fixture
def name(topic: str) -> str:
    return f"id-of-{topic}"


def lines(told: str, start: str) -> list[list[str]]:
    """The cells of the lines that begin so."""
    return [line.split() for line in told.splitlines() if line.startswith(start)]


def test_both_tell_the_same_of_an_open_transaction(
    java: JavaTools, cli: Cli, admin: Admin, raw: RawTransactions, made: str, name: str
) -> None:
    opened = raw.prepared(name, made, b"one", timeout_ms=LONG_MS)
    # id, coordinator, producer id, state
    ((_, coordinator, producer_id, state),) = lines(java.run(COMMAND, "list"), name)
    ((*ours,),) = lines(cli("transactions", "list", "--pattern", name).decode(), name)
    assert ours == [name, state, producer_id, coordinator]
    # coordinator, id, producer id, epoch, state, timeout, start, duration, partitions
    (told,) = [
        line.split()
        for line in java.run(COMMAND, "describe", "--transactional-id", name).splitlines()
        if f" {name} " in f" {line} ".replace("\t", " ")
    ]
    found = admin.describe_transactions(name)[name]
    assert told[:7] == [
        str(found.coordinator.node_id),
        name,
        str(found.producer_id),
        str(found.producer_epoch),
        found.state.value,
        str(found.timeout_ms),
        str(found.start_timestamp),
    ]
    assert told[8] == ",".join(map(str, found.partitions)) == f"{made}-0"
    # producer id, epoch, coordinator epoch, last sequence, last timestamp, transaction start
    ((*producer,),) = lines(
        java.run(COMMAND, "describe-producers", "--topic", made, "--partition", "0"), str(opened.producer_id)
    )
    ((seen,),) = admin.describe_producers([TopicPartition(made, 0)]).values()
    assert producer == [
        str(each)
        for each in (
            seen.producer_id,
            seen.producer_epoch,
            -1,
            seen.last_sequence,
            seen.last_timestamp,
            seen.transaction_start_offset,
        )
    ]
    assert seen.coordinator_epoch is None
    admin.complete_transaction(opened)


@pytest.mark.parametrize("whose", ["ours", "Kafka's"])
def test_an_open_transaction_is_aborted_in_its_partition_by_either(
    java: JavaTools, cli: Cli, admin: Admin, raw: RawTransactions, made: str, name: str, whose: str
) -> None:
    """It does not hang, so that its coordinator ends it as well, later and without success."""
    key = TopicPartition(made, 0)
    opened = raw.prepared(name, made, b"one", timeout_ms=LONG_MS)
    if whose == "ours":
        cli("transactions", "abort", f"{made}:0", "--start-offset", "0")
    else:
        java.run(COMMAND, "abort", "--topic", made, "--partition", "0", "--start-offset", "0")
    stable = admin.list_offsets({key: OffsetSpec.LATEST}, isolation_level="read_committed")
    assert stable[key].offset == 2
    (seen,) = admin.describe_producers([key])[key]
    assert (seen.producer_id, seen.coordinator_epoch, seen.transaction_start_offset) == (opened.producer_id, 0, None)
    admin.complete_transaction(opened, commit=False)


@pytest.mark.not_secured("librdkafka has its own names for options")
def test_a_transaction_of_librdkafka_is_ended_from_outside(target: Target, admin: Admin, made: str, name: str) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    options = {"bootstrap.servers": target.bootstrap_servers, "transactional.id": name, "log_level": 0}
    producer = confluent.Producer(options)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(made, b"one", partition=0)
    assert producer.flush(20) == 0
    found = admin.describe_transactions(name)[name]
    prepared = PreparedTransaction(name, found.producer_id, found.producer_epoch)
    admin.complete_transaction(prepared, commit=True)
    wait_until(lambda: admin.describe_transactions(name)[name].state is TransactionState.COMPLETE_COMMIT)
    key = TopicPartition(made, 0)
    assert admin.list_offsets({key: OffsetSpec.LATEST}, isolation_level="read_committed")[key].offset == 2
    producer.produce(made, b"two", partition=0)
    with pytest.raises(confluent.KafkaException) as caught:
        producer.commit_transaction(20)
    assert caught.value.args[0].fatal() or caught.value.args[0].txn_requires_abort()
    admin.fence_producers(name)
    with pytest.raises(ProducerFencedError):
        admin.complete_transaction(prepared, commit=True)
