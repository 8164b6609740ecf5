"""Transactions of the producer, both faces and both versions of the protocol, against a broker: what is committed
counts, what is aborted does not, and each error says which kind it is."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from kclient import (
    Admin,
    AsyncProducer,
    Consumer,
    ConsumerGroupMetadata,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from kclient.errors import (
    ClosedError,
    ForkError,
    IllegalStateError,
    InvalidTxnTimeoutError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from tests.support.patience import ANSWER
from tests.support.raw_transactions import RawTransactions
from tests.support.reading import committed
from tests.support.typed import must
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka


@pytest.fixture(params=[2, 1, 0])
def version(request: pytest.FixtureRequest, raw: RawTransactions) -> Iterator[int]:
    """What the cluster has finalized for the test; below 1 clients speak version 1."""
    with raw.at_transaction_version(request.param) as level:
        yield level


@pytest.fixture
def out(admin: Admin, topic: str) -> str:
    """A topic of three partitions, which takes no batch above a hundred thousand bytes."""
    admin.create_topics(
        [NewTopic(topic, num_partitions=3, replication_factor=1, configs={"max.message.bytes": "100000"})]
    )
    return topic


@pytest.fixture
def options(bootstrap_servers: str, topic: str) -> dict[str, Any]:
    """The options of the test's transactional producer."""
    return {"bootstrap_servers": bootstrap_servers, "transactional_id": f"id-{topic}"}


def version_of(producer: Producer) -> int:
    transactions = producer._core.transactions
    assert transactions is not None
    return 2 if transactions.is_v2 else 1


def test_what_is_committed_counts_and_what_is_aborted_does_not(
    bootstrap_servers: str, out: str, options: dict[str, Any], version: int
) -> None:
    with Producer(**options) as producer:
        producer.init_transactions()
        assert version_of(producer) == max(1, version)
        expected = []
        for number in range(12):
            producer.begin_transaction()
            values = [b"%d-%d" % (number, index) for index in range(5)]
            futures = [producer.send(out, value, partition=index % 3) for index, value in enumerate(values)]
            if number % 3 == 1:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                assert all(future.done() for future in futures)
                expected += values
        metrics = producer.metrics()
        assert (metrics["txn_commit_time_count"], metrics["txn_abort_time_count"]) == (8, 4)
        assert metrics["txn_begin_time_count"] == 12
        assert metrics["txn_init_time_ns_total"] > 0
    assert committed(bootstrap_servers, out) == sorted(expected)


def test_an_abort_drops_what_was_not_sent(
    bootstrap_servers: str, out: str, options: dict[str, Any], version: int
) -> None:
    with Producer(**options, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        future = producer.send(out, b"dropped")
        producer.abort_transaction()
        assert isinstance(future.exception(0), TransactionAbortedError)
        with producer.transaction():
            producer.send(out, b"kept")
    assert committed(bootstrap_servers, out) == [b"kept"]


def test_the_context_manager_aborts_and_raises_what_the_body_raised(
    bootstrap_servers: str, out: str, options: dict[str, Any], version: int
) -> None:
    with Producer(**options) as producer:
        producer.init_transactions()

        def fail() -> None:
            with producer.transaction():
                producer.send(out, b"lost").result(ANSWER)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as raised:
            fail()
        assert not hasattr(raised.value, "__notes__")
        with producer.transaction():
            producer.send(out, b"kept")
    assert committed(bootstrap_servers, out) == [b"kept"]


def test_offsets_count_when_their_transaction_does(
    bootstrap_servers: str, out: str, options: dict[str, Any], version: int
) -> None:
    group = f"group-{out}"
    tp, other = TopicPartition(out, 0), TopicPartition(out, 1)
    with (
        Producer(**options) as producer,
        Consumer(bootstrap_servers=bootstrap_servers, group_id=group, enable_auto_commit=False) as consumer,
    ):
        consumer.assign([tp, other])
        producer.init_transactions()
        with producer.transaction():
            producer.send(out, b"a")
            offsets: dict[TopicPartition, OffsetAndMetadata | int] = {tp: 3, other: OffsetAndMetadata(7, "note", 0)}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        found = consumer.committed([tp, other])
        first, second = must(found[tp]), must(found[other])
        assert (first.offset, second.offset, second.metadata) == (3, 7, "note")
        producer.begin_transaction()
        producer.send_offsets_to_transaction({tp: 99}, ConsumerGroupMetadata(group))
        producer.abort_transaction()
        assert must(consumer.committed([tp])[tp]).offset == 3
        with producer.transaction():
            producer.send_offsets_to_transaction({}, consumer.group_metadata())


def test_a_member_that_the_group_does_not_know_can_only_abort(out: str, options: dict[str, Any], version: int) -> None:
    with Producer(**options) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        stranger = ConsumerGroupMetadata(f"group-{out}", 5, "nobody")
        with pytest.raises(KafkaError) as raised:
            producer.send_offsets_to_transaction({TopicPartition(out, 0): 1}, stranger)
        assert (raised.value.abortable, raised.value.fatal) == (True, False)
        with pytest.raises(type(raised.value)):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(out, b"on we go")


def test_a_newer_producer_of_the_same_id_fences_the_older_one(
    bootstrap_servers: str, out: str, options: dict[str, Any], version: int
) -> None:
    with Producer(**options) as older, Producer(**options) as newer:
        older.init_transactions()
        older.begin_transaction()
        older.send(out, b"lost").result(ANSWER)
        newer.init_transactions()
        with newer.transaction():
            newer.send(out, b"kept")
        older.send(out, b"too late")
        with pytest.raises(KafkaError):
            older.commit_transaction()
        # What the records' broker says first leaves open whether somebody else came; the abort does not.
        for _ in range(2):
            with pytest.raises(ProducerFencedError) as raised:
                older.abort_transaction()
            assert raised.value.fatal
        for call in (older.begin_transaction, older.init_transactions, lambda: older.send(out, b"x"), older.flush):
            with pytest.raises(ProducerFencedError):
                call()
    assert committed(bootstrap_servers, out) == [b"kept"]


def test_an_illegal_call_says_in_which_state_it_came(bootstrap_servers: str, out: str, options: dict[str, Any]) -> None:
    with Producer(**options) as producer:
        for call in (producer.begin_transaction, producer.commit_transaction, lambda: producer.send(out, b"x")):
            with pytest.raises(IllegalStateError, match=r"'uninitialized'.*init_transactions"):
                call()
        producer.init_transactions()
        for call in (producer.commit_transaction, producer.abort_transaction, lambda: producer.send(out, b"x")):
            with pytest.raises(IllegalStateError, match=r"'ready'.*begin_transaction"):
                call()
        producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="'in a transaction'"):
            producer.begin_transaction()
        producer.commit_transaction()
    with pytest.raises(ClosedError):
        producer.begin_transaction()
    with Producer(bootstrap_servers=bootstrap_servers) as plain:
        with pytest.raises(IllegalStateError, match="needs a producer with a transactional_id"):
            plain.init_transactions()
        with pytest.raises(IllegalStateError, match="begin_transaction"), plain.transaction():
            pass


def test_a_record_that_cannot_be_delivered_makes_the_transaction_abortable(
    bootstrap_servers: str, out: str, options: dict[str, Any], version: int
) -> None:
    with Producer(**options) as producer:
        producer.init_transactions()
        for _ in range(2):
            producer.begin_transaction()
            producer.send(out, b"lost", partition=0)
            future = producer.send(out, bytes(200_000), partition=1)
            with pytest.raises(RecordTooLargeError) as raised:
                producer.commit_transaction()
            assert (raised.value.abortable, raised.value.fatal) == (True, False)
            assert isinstance(future.exception(0), RecordTooLargeError)
            for call in (producer.begin_transaction, lambda: producer.send(out, b"x"), producer.commit_transaction):
                with pytest.raises(RecordTooLargeError):
                    call()
            producer.abort_transaction()
        with pytest.raises(RecordTooLargeError), producer.transaction():
            producer.send(out, bytes(200_000))
        with producer.transaction():
            for partition in range(3):
                producer.send(out, b"kept", partition=partition)
    assert committed(bootstrap_servers, out) == [b"kept"] * 3


def test_a_producer_that_closes_aborts_its_open_transaction(
    bootstrap_servers: str, out: str, options: dict[str, Any], version: int
) -> None:
    with Producer(**options) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(out, b"lost").result(ANSWER)
    # Until it is aborted, the last stable offset stays before it.
    assert committed(bootstrap_servers, out) == []


def test_a_prepared_transaction_outlives_its_producer_and_is_ended_elsewhere(
    bootstrap_servers: str, out: str, options: dict[str, Any], version: int, raw: RawTransactions
) -> None:
    for commit in (True, False):
        with Producer(**options) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(out, b"%d" % commit)
            prepared = producer.prepare_transaction()
            assert prepared.transactional_id == options["transactional_id"]
            with pytest.raises(IllegalStateError, match=r"'prepared'.*is prepared"):
                producer.begin_transaction()
        raw.end(prepared, commit=commit, version=version)
    assert committed(bootstrap_servers, out) == [b"1"]


def test_a_producer_continues_after_its_prepared_transaction_was_ended(
    bootstrap_servers: str, out: str, options: dict[str, Any], version: int, raw: RawTransactions
) -> None:
    with Producer(**options) as producer:
        for number in range(3):
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(out, b"%d" % number, partition=0)
            raw.end(producer.prepare_transaction(), commit=True, version=version)
    assert committed(bootstrap_servers, out) == [b"0", b"1", b"2"]


def test_nothing_is_not_handed_over(out: str, options: dict[str, Any]) -> None:
    with Producer(**options) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(TransactionAbortableError, match="nothing was sent"):
            producer.prepare_transaction()
        producer.abort_transaction()


def test_the_version_changes_between_two_transactions(
    bootstrap_servers: str, out: str, options: dict[str, Any], raw: RawTransactions
) -> None:
    with raw.at_transaction_version(1), Producer(**options, connections_max_idle_ms=100) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(out, b"first")
        assert version_of(producer) == 1
        raw.set_transaction_version(2)

        def has_learned() -> bool:
            # Only new connections learn of it. An idle one is replaced at once if it is the coordinator's.
            created = producer.metrics()["connection_creation_total"]
            wait_until(lambda: producer.metrics()["connection_creation_total"] > created)
            with producer.transaction():
                producer.send(out, b"while")
            return version_of(producer) == 2

        wait_until(has_learned, ANSWER)
        with producer.transaction():
            producer.send(out, b"last")
    values = committed(bootstrap_servers, out)
    assert values[0] == b"first"
    assert b"last" in values


def test_a_timeout_above_the_broker_s_is_refused_permanently(options: dict[str, Any]) -> None:
    with Producer(**options, transaction_timeout_ms=2_000_000_000) as producer:
        for _ in range(2):
            with pytest.raises(InvalidTxnTimeoutError) as raised:
                producer.init_transactions()
            assert raised.value.fatal


def test_without_a_broker_calls_end_in_time(topic: str) -> None:
    with Producer(bootstrap_servers="127.0.0.1:9", transactional_id=topic) as producer:
        with pytest.raises(KafkaTimeoutError, match=r"init_transactions.*the same call"):
            producer.init_transactions(timeout=0.1)
        with pytest.raises(IllegalStateError, match="'initializing'"):
            producer.begin_transaction()
        with pytest.raises(KafkaTimeoutError):
            producer.init_transactions(timeout=0.1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_neither_ends_nor_touches_the_transaction(
    bootstrap_servers: str, out: str, options: dict[str, Any]
) -> None:
    with Producer(**options) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(out, b"kept").result(ANSWER)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            code = 1
            try:
                producer.commit_transaction()
            except ForkError:
                producer.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        producer.commit_transaction()
    assert committed(bootstrap_servers, out) == [b"kept"]


@pytest.mark.slow
def test_after_a_timed_out_transaction_the_producer_can_be_used_with_version_2(
    bootstrap_servers: str, out: str, options: dict[str, Any], version: int
) -> None:
    with Producer(**options, transaction_timeout_ms=3000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(out, b"late").result(ANSWER)
        # The coordinator looks from time to time, and writes the marker that ends the wait.
        assert committed(bootstrap_servers, out) == []
        with pytest.raises(KafkaError) as raised:
            producer.commit_transaction()
        if version < 2:
            assert isinstance(raised.value, ProducerFencedError)
            return
        assert raised.value.abortable
        producer.abort_transaction()
        with producer.transaction():
            producer.send(out, b"kept")
    assert committed(bootstrap_servers, out) == [b"kept"]


@pytest.mark.anyio
async def test_the_async_producer_makes_the_same_calls(
    bootstrap_servers: str, out: str, options: dict[str, Any]
) -> None:
    async with AsyncProducer(**options) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(out, b"kept")
            await producer.send_offsets_to_transaction({TopicPartition(out, 0): 5}, ConsumerGroupMetadata(f"g-{out}"))

        async def fail() -> None:
            async with producer.transaction():
                await (await producer.send(out, b"lost"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        with anyio.CancelScope() as scope:
            async with producer.transaction():
                await (await producer.send(out, b"lost too"))
                scope.cancel()
                await anyio.sleep(ANSWER)
        await producer.begin_transaction()
        await producer.send(out, b"aborted")
        await producer.abort_transaction()
        with pytest.raises(IllegalStateError, match="'ready'"):
            await producer.send(out, b"x")
        await producer.begin_transaction()
        await producer.send(out, b"kept as well")
        await producer.commit_transaction()
    assert await anyio.to_thread.run_sync(committed, bootstrap_servers, out) == [b"kept", b"kept as well"]
