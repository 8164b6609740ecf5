"""The admin client and transactions: seen, ended from elsewhere, fenced, found hanging and aborted; both faces."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from kclient import Admin, AsyncAdmin, Consumer, NewTopic, Producer, TopicPartition
from kclient.admin import AlterConfig, ConfigResource, OffsetSpec, TransactionState
from kclient.errors import (
    AdminError,
    IllegalStateError,
    InvalidPidMappingError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
)
from kclient.types import PreparedTransaction
from tests.support.raw_transactions import TIMESTAMP_MS, RawTransactions
from tests.support.reading import read_up_to
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture
def made(admin: Admin, topic: str) -> str:
    """A topic of two partitions."""
    admin.create_topics([NewTopic(topic, 2)])
    return topic


@pytest.fixture
def name(topic: str) -> str:
    """A transactional id that nobody used before."""
    return f"id-of-{topic}"


def committed(bootstrap_servers: str, admin: Admin, topic: str) -> list[bytes | None]:
    """What a read_committed consumer is given of partition 0, up to what was the end when the last marker was there."""
    key = TopicPartition(topic, 0)
    ends = [admin.list_offsets({key: OffsetSpec.LATEST}, isolation_level=level)[key].offset for level in LEVELS]
    with Consumer(
        bootstrap_servers=bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([key])
        return [record.value for record in read_up_to(consumer, {key: min(ends)})]


LEVELS = ("read_uncommitted", "read_committed")


def leader_of(admin: Admin, key: TopicPartition) -> int:
    leader = admin.describe_topics(key.topic)[key.topic].partitions[key.partition].leader
    assert leader is not None
    return leader


def wait_for_state(admin: Admin, name: str, state: TransactionState) -> None:
    wait_until(lambda: admin.describe_transactions(name)[name].state is state)


@pytest.mark.usefixtures("transaction_version")
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_prepared_transaction_is_ended_by_another_client(
    bootstrap_servers: str, admin: Admin, raw: RawTransactions, made: str, name: str, commit: bool
) -> None:
    prepared = raw.prepared(name, made, b"one", b"two")
    assert committed(bootstrap_servers, admin, made) == []
    admin.complete_transaction(prepared, commit=commit)
    admin.complete_transaction(prepared, commit=commit)
    wait_for_state(admin, name, TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    admin.complete_transaction(prepared, commit=commit)
    assert committed(bootstrap_servers, admin, made) == ([b"one", b"two"] if commit else [])


@pytest.mark.usefixtures("transaction_version")
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_the_opposite_answer_comes_too_late(
    bootstrap_servers: str, admin: Admin, raw: RawTransactions, made: str, name: str, commit: bool
) -> None:
    prepared = raw.prepared(name, made, b"one")
    admin.complete_transaction(prepared, commit=commit)
    said = (
        "is already committed, and can no longer be aborted"
        if commit
        else "is already aborted, and can no longer be committed"
    )
    with pytest.raises(InvalidTxnStateError, match=said):
        admin.complete_transaction(prepared, commit=not commit)
    wait_for_state(admin, name, TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    with pytest.raises(InvalidTxnStateError, match=said):
        admin.complete_transaction(prepared, commit=not commit)
    assert committed(bootstrap_servers, admin, made) == ([b"one"] if commit else [])


@pytest.mark.usefixtures("transaction_version")
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_producer_hands_its_transaction_over_and_continues_when_it_is_ended(
    bootstrap_servers: str, admin: Admin, made: str, name: str, commit: bool
) -> None:
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        for value in (b"one", b"two"):
            producer.begin_transaction()
            producer.send(made, value, partition=0)
            handed_over = msgspec.json.encode(producer.prepare_transaction())
            prepared = msgspec.json.decode(handed_over, type=PreparedTransaction)
            admin.complete_transaction(prepared, commit=commit)
            admin.complete_transaction(prepared, commit=commit)
            producer.init_transactions()
            with pytest.raises(ProducerFencedError, match="was used again after this transaction was prepared"):
                admin.complete_transaction(prepared, commit=commit)
    assert committed(bootstrap_servers, admin, made) == ([b"one", b"two"] if commit else [])


def test_a_prepared_transaction_outlives_its_producer(
    bootstrap_servers: str, admin: Admin, made: str, name: str
) -> None:
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(made, b"one", partition=0)
        prepared = producer.prepare_transaction()
    assert admin.describe_transactions(name)[name].state is TransactionState.ONGOING
    admin.complete_transaction(prepared)
    wait_for_state(admin, name, TransactionState.COMPLETE_COMMIT)
    assert committed(bootstrap_servers, admin, made) == [b"one"]


def test_after_the_timeout_nothing_can_be_committed(
    admin: Admin, raw: RawTransactions, made: str, name: str, transaction_version: int
) -> None:
    # Kafka's coordinator gives the replicas of its own log that long as well, so that less would end nothing there.
    prepared = raw.start(name, timeout_ms=1_000)
    # No record: the time runs from here, and one that was late would be refused.
    raw.add(prepared, made, 0)
    wait_for_state(admin, name, TransactionState.COMPLETE_ABORT)
    assert admin.describe_transactions(name)[name].producer_epoch == prepared.epoch + 1
    if transaction_version == 2:
        with pytest.raises(InvalidTxnStateError, match=r"already aborted.*its timeout passed.*a timeout of 1000 ms"):
            admin.complete_transaction(prepared)
        admin.complete_transaction(prepared, commit=False)
    else:
        for commit in (True, False):
            with pytest.raises(ProducerFencedError, match=r"most likely its timeout passed.*a timeout of 1000 ms"):
                admin.complete_transaction(prepared, commit=commit)


@pytest.mark.usefixtures("transaction_version")
def test_a_new_producer_of_the_transactional_id_aborts_what_was_prepared(
    bootstrap_servers: str, admin: Admin, raw: RawTransactions, made: str, name: str
) -> None:
    prepared = raw.prepared(name, made, b"one")
    rival = raw.start(name)
    for commit in (True, False):
        with pytest.raises(ProducerFencedError, match="was used again after this transaction was prepared") as caught:
            admin.complete_transaction(prepared, commit=commit)
        assert f"is now Empty with producer id {rival.producer_id}, epoch {rival.epoch}" in str(caught.value)
    assert committed(bootstrap_servers, admin, made) == []


@pytest.mark.usefixtures("transaction_version")
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_in_which_nothing_was_written_is_ended_either_way(
    admin: Admin, raw: RawTransactions, name: str, commit: bool
) -> None:
    admin.complete_transaction(raw.start(name), commit=commit)


def test_a_transactional_id_that_nobody_knows_is_named(admin: Admin, name: str) -> None:
    with pytest.raises(InvalidPidMappingError, match=f"commit of '{name}' .* does not know the transactional id"):
        admin.complete_transaction(PreparedTransaction(name, 7, 3))


def test_transactions_are_listed_by_what_is_wanted_of_them(
    admin: Admin, raw: RawTransactions, made: str, name: str
) -> None:
    prepared = raw.prepared(f"{name}-open", made, b"one")
    raw.start(f"{name}-idle")

    def listed(**filters: object) -> set[str]:
        return {each for each in admin.list_transactions(**filters) if each.startswith(name)}  # type: ignore[arg-type]

    both = {f"{name}-open", f"{name}-idle"}
    assert listed() == both
    assert listed(states=[TransactionState.ONGOING]) == {f"{name}-open"}
    assert listed(states=[TransactionState.EMPTY, TransactionState.ONGOING]) == both
    assert listed(producer_ids=[prepared.producer_id]) == {f"{name}-open"}
    assert listed(states=[TransactionState.ONGOING], min_duration=0) == {f"{name}-open"}
    assert listed(states=[TransactionState.ONGOING], min_duration=3600) == set()
    assert listed(transactional_id_pattern=f"{name}-i.*") == {f"{name}-idle"}
    assert listed(transactional_id_pattern="i") == set()
    found = admin.list_transactions()[f"{name}-open"]
    assert (found.state, found.producer_id) == (TransactionState.ONGOING, prepared.producer_id)
    assert found.coordinator in admin.describe_cluster().brokers
    admin.complete_transaction(prepared)


def test_a_transaction_is_described_with_what_it_has_written_to(
    admin: Admin, raw: RawTransactions, made: str, name: str
) -> None:
    prepared = raw.start(name, timeout_ms=50_000)
    idle = admin.describe_transactions(name)[name]
    assert (idle.state, idle.partitions, idle.start_timestamp) == (TransactionState.EMPTY, (), None)
    raw.add(prepared, made, 1, 0)
    found = admin.describe_transactions([name])[name]
    assert (found.state, found.producer_id, found.producer_epoch) == (
        TransactionState.ONGOING,
        prepared.producer_id,
        prepared.epoch,
    )
    assert found.partitions == (TopicPartition(made, 0), TopicPartition(made, 1))
    assert found.timeout_ms == 50_000
    assert found.start_timestamp is not None
    assert found.start_timestamp > TIMESTAMP_MS
    assert found.coordinator.node_id in admin.describe_cluster().brokers
    admin.complete_transaction(prepared)
    with pytest.raises(AdminError) as caught:
        admin.describe_transactions([name, f"{name}-none"])
    assert set(caught.value.results) == {name}
    assert isinstance(caught.value.errors[f"{name}-none"], TransactionalIdNotFoundError)


def test_producers_of_a_transactional_id_are_fenced(
    bootstrap_servers: str, admin: Admin, raw: RawTransactions, made: str, name: str
) -> None:
    prepared = raw.prepared(name, made, b"one")
    fenced = admin.fence_producers([name])[name]
    assert (fenced.producer_id, fenced.epoch > prepared.epoch) == (prepared.producer_id, True)
    with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
        raw.end(prepared, commit=True)
    assert committed(bootstrap_servers, admin, made) == []


def test_producers_of_a_partition_are_described(admin: Admin, raw: RawTransactions, made: str, name: str) -> None:
    first, second = TopicPartition(made, 0), TopicPartition(made, 1)
    prepared = raw.prepared(name, made, b"one", b"two")
    found = admin.describe_producers([first, second])
    assert found[second] == ()
    (producer,) = found[first]
    assert (producer.producer_id, producer.producer_epoch) == (prepared.producer_id, prepared.epoch)
    assert (producer.last_sequence, producer.transaction_start_offset, producer.coordinator_epoch) == (1, 0, None)
    assert producer.last_timestamp == TIMESTAMP_MS + 1
    admin.complete_transaction(prepared)
    wait_for_state(admin, name, TransactionState.COMPLETE_COMMIT)
    ((producer,),) = admin.describe_producers([first], broker_id=leader_of(admin, first)).values()
    assert (producer.last_sequence, producer.transaction_start_offset) == (None, None)
    assert producer.coordinator_epoch is not None


def test_producers_of_what_does_not_exist(admin: Admin, made: str) -> None:
    there, missing = TopicPartition(made, 0), TopicPartition(made, 9)
    with pytest.raises(AdminError) as caught:
        admin.describe_producers([there, missing])
    assert caught.value.results == {there: ()}
    assert isinstance(caught.value.errors[missing], UnknownTopicOrPartitionError)


def goes_unverified(raw: RawTransactions, transaction: PreparedTransaction, topic: str) -> bool:
    """Return whether a broker applies the setting that lets it accept a record without a transaction."""
    try:
        raw.write(transaction, topic, b"lost")
    except TransactionAbortableError:
        return False
    return True


@pytest.fixture
def hanging(admin: Admin, raw: RawTransactions, made: str, name: str) -> Iterator[PreparedTransaction]:
    """A transaction with one committed record in front, of which the coordinator knows nothing: it went unverified."""
    everyone = ConfigResource.broker()
    setting = "transaction.partition.verification.enable"
    admin.complete_transaction(raw.prepared(f"{name}-before", made, b"before"))
    wait_for_state(admin, f"{name}-before", TransactionState.COMPLETE_COMMIT)
    admin.incremental_alter_configs({everyone: [AlterConfig.set(setting, False)]})
    try:
        left = raw.start(name)
        wait_until(lambda: goes_unverified(raw, left, made))
        yield left
    finally:
        admin.incremental_alter_configs({everyone: [AlterConfig.delete(setting)]})


def test_a_hanging_transaction_is_found_and_aborted_where_it_begins(
    bootstrap_servers: str, admin: Admin, hanging: PreparedTransaction, made: str, name: str
) -> None:
    key = TopicPartition(made, 0)
    (found,) = admin.find_hanging_transactions(topics=made)
    assert (found.partition, found.start_offset, found.transactional_id) == (key, 2, name)
    assert (found.producer.producer_id, found.producer.producer_epoch) == (hanging.producer_id, hanging.epoch)
    assert found in admin.find_hanging_transactions(broker_id=leader_of(admin, key))
    with pytest.raises(IllegalStateError, match="open ones start at 2"):
        admin.abort_transaction(key, start_offset=0)
    assert admin.list_offsets({key: OffsetSpec.LATEST}, isolation_level="read_committed")[key].offset == 2
    admin.abort_transaction(key, start_offset=found.start_offset)
    assert admin.list_offsets({key: OffsetSpec.LATEST}, isolation_level="read_committed")[key].offset == 4
    assert admin.find_hanging_transactions(topics=[made]) == []
    assert committed(bootstrap_servers, admin, made) == [b"before"]


def test_a_hanging_transaction_is_aborted_by_what_names_its_producer(
    bootstrap_servers: str, admin: Admin, hanging: PreparedTransaction, made: str
) -> None:
    key = TopicPartition(made, 0)
    admin.abort_transaction(key, producer_id=hanging.producer_id, producer_epoch=hanging.epoch, coordinator_epoch=0)
    assert admin.find_hanging_transactions(topics=made) == []
    assert committed(bootstrap_servers, admin, made) == [b"before"]


def test_a_marker_for_an_older_epoch_than_the_partition_knows_is_refused(
    admin: Admin, raw: RawTransactions, made: str, name: str
) -> None:
    older = raw.start(name)
    newer = raw.prepared(name, made, b"one")
    with pytest.raises(InvalidProducerEpochError, match="the producer has a newer epoch in the partition"):
        admin.abort_transaction(
            TopicPartition(made, 0), producer_id=older.producer_id, producer_epoch=older.epoch, coordinator_epoch=0
        )
    admin.complete_transaction(newer)


def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    admin: Admin, raw: RawTransactions, made: str, name: str
) -> None:
    prepared = raw.prepared(name, made, b"one")
    assert admin.find_hanging_transactions(topics=made, max_transaction_timeout=1) == []
    admin.complete_transaction(prepared)


async def test_the_async_face_has_the_same_calls(
    bootstrap_servers: str, raw: RawTransactions, made: str, name: str
) -> None:
    prepared = raw.prepared(name, made, b"one")
    key = TopicPartition(made, 0)
    async with AsyncAdmin(bootstrap_servers=bootstrap_servers) as admin:
        assert name in await admin.list_transactions(states=[TransactionState.ONGOING])
        assert (await admin.describe_transactions(name))[name].partitions == (key,)
        assert len((await admin.describe_producers([key]))[key]) == 1
        assert await admin.find_hanging_transactions(topics=[made], max_transaction_timeout=1) == []
        with pytest.raises(IllegalStateError, match=r"no open transaction starts at offset 5; open ones start at 0 \["):
            await admin.abort_transaction(key, start_offset=5)
        await admin.complete_transaction(prepared, commit=True)
        assert (await admin.fence_producers(name))[name].epoch > prepared.epoch
        with pytest.raises(ProducerFencedError):
            await admin.complete_transaction(prepared)
