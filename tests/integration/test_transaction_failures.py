"""Failures in transactions: lost responses, calls that are cancelled or made in callbacks, deleted topics, brokers that
are down. A producer ends every transaction, or says that it cannot."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from kclient import Admin, AsyncProducer, ConsumerGroupMetadata, NewTopic, Producer, TopicPartition
from kclient.admin import TransactionState
from kclient.errors import DeliveryError, IllegalStateError, KafkaTimeoutError, TransactionAbortableError
from refbroker.testing import RefBroker
from refbroker.testing.faults import Fault
from tests.support.patience import ANSWER, NEVER_MS
from tests.support.raw_transactions import RawTransactions
from tests.support.reading import committed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.refbroker_only

SETTINGS = {"auto.create.topics.enable": "false"}
IMPATIENT: dict[str, Any] = {"retry_backoff_ms": 5, "reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 50}


@pytest.fixture(params=[2, 1])
def failing(request: pytest.FixtureRequest) -> Iterator[RefBroker]:
    """Yield a broker for tests that inject faults, in both versions of transactions."""
    with RefBroker(settings=SETTINGS) as running:
        if request.param == 1:
            with RawTransactions(running.bootstrap_servers) as raw:
                raw.set_transaction_version(1)
        yield running


@pytest.fixture
def out(failing: RefBroker, topic: str) -> str:
    """A topic of three partitions on it."""
    create(failing, topic, partitions=3)
    return topic


@pytest.fixture
def options(failing: RefBroker, topic: str) -> dict[str, Any]:
    """The options of the test's transactional producer."""
    return {"bootstrap_servers": failing.bootstrap_servers, "transactional_id": f"id-{topic}", **IMPATIENT}


def create(broker: RefBroker, topic: str, partitions: int) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])


@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_connections_before_or_after_a_request_took_effect_change_nothing(
    failing: RefBroker, out: str, options: dict[str, Any], when: Any
) -> None:
    expected = []
    tp, group = TopicPartition(out, 0), ConsumerGroupMetadata(f"group-{out}")
    for api in ("InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"):
        with Producer(**options) as producer, failing.faults.cut(api, when=when, count=2):
            producer.init_transactions()
            for number in range(4):
                value = f"{api}-{number}".encode()
                producer.begin_transaction()
                producer.send(out, value, partition=number % 3)
                producer.send_offsets_to_transaction({tp: number}, group)
                if number % 2:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
                    expected.append(value)
    assert committed(failing.bootstrap_servers, out) == sorted(expected)


@pytest.mark.parametrize("failing", [1], indirect=True)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_abort_leaves_no_transaction_open_that_a_lost_request_has_begun(
    failing: RefBroker, out: str, options: dict[str, Any], when: Any
) -> None:
    api, name = "AddPartitionsToTxn", options["transactional_id"]
    with Producer(**options) as producer, Admin(bootstrap_servers=failing.bootstrap_servers) as admin:
        producer.init_transactions()
        producer.begin_transaction()
        cut = failing.faults.cut(api, when=when)
        producer.send(out, b"lost")
        cut.wait()
        with failing.faults.fail(api, "TOPIC_AUTHORIZATION_FAILED") as fail:
            cut.remove()
            fail.wait()
            producer.abort_transaction()
        wait_until(lambda: admin.describe_transactions(name)[name].state is not TransactionState.ONGOING)
        for value in (b"kept", b"also kept"):
            with producer.transaction():
                producer.send(out, value)
    assert committed(failing.bootstrap_servers, out) == [b"also kept", b"kept"]


def test_a_transaction_can_be_aborted_from_a_delivery_callback(
    failing: RefBroker, out: str, options: dict[str, Any]
) -> None:
    called: list[BaseException | None] = []
    with Producer(**options) as producer:
        producer.init_transactions()
        producer.begin_transaction()

        def abort(_: Any, error: BaseException | None) -> None:
            producer.abort_transaction()
            called.append(error)

        producer.send(out, b"lost", on_delivery=abort)
        wait_until(lambda: called)
        assert called == [None]
        with producer.transaction():
            producer.send(out, b"kept")
    assert committed(failing.bootstrap_servers, out) == [b"kept"]


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
async def test_a_cancelled_commit_continues_and_the_next_call_returns_its_result(
    failing: RefBroker, out: str, options: dict[str, Any], call: str
) -> None:
    async with AsyncProducer(**options) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send(out, b"first"))
        with failing.faults.delay("EndTxn"):
            with anyio.move_on_after(0.05) as scope:
                await getattr(producer, call)()
            assert scope.cancelled_caught
            with pytest.raises(IllegalStateError, match=f"{call}.*call it again"):
                await producer.begin_transaction()
        await getattr(producer, call)()
        async with producer.transaction():
            await producer.send(out, b"second")
    expected = [b"first", b"second"] if call == "commit_transaction" else [b"second"]
    assert await anyio.to_thread.run_sync(committed, failing.bootstrap_servers, out) == expected


@pytest.mark.not_simulated("interrupts the process from a thread")
def test_ctrl_c_in_a_commit_leaves_its_result_to_the_same_call(
    failing: RefBroker, out: str, options: dict[str, Any]
) -> None:
    def commit() -> None:
        with producer.transaction():
            producer.send(out, b"first")

    def interrupt(fault: Fault) -> None:
        fault.wait()
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Producer(**options) as producer:
            producer.init_transactions()
            with failing.faults.delay("EndTxn") as fault:
                thread = threading.Thread(target=interrupt, args=(fault,))
                thread.start()
                with pytest.raises(KeyboardInterrupt):
                    commit()
                thread.join()
                with pytest.raises(IllegalStateError, match=r"commit_transaction\(\).*call it again"):
                    producer.begin_transaction()
            producer.commit_transaction()
            with producer.transaction():
                producer.send(out, b"second")
    finally:
        signal.signal(signal.SIGINT, before)
    assert committed(failing.bootstrap_servers, out) == [b"first", b"second"]


def test_a_topic_that_goes_in_the_middle_costs_the_transaction_and_no_more(
    failing: RefBroker, out: str, options: dict[str, Any]
) -> None:
    gone = f"{out}-gone"
    create(failing, gone, partitions=1)
    with (
        Admin(bootstrap_servers=failing.bootstrap_servers) as admin,
        Producer(**options, delivery_timeout_ms=2_000, request_timeout_ms=1_900, linger_ms=0) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(gone, b"a").result(ANSWER)
        admin.delete_topics([gone])
        producer.send(gone, b"b")
        with pytest.raises(TransactionAbortableError):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        with pytest.raises(TransactionAbortableError, match="offsets"):
            producer.send_offsets_to_transaction({TopicPartition(gone, 0): 1}, ConsumerGroupMetadata("g"))
        producer.abort_transaction()
        with producer.transaction():
            producer.send(out, b"kept")
    assert committed(failing.bootstrap_servers, out) == [b"kept"]


@pytest.mark.parametrize("state", ["initializing", "in a transaction", "committing", "aborting", "preparing"])
def test_a_producer_closes_in_time_in_every_state_without_a_broker(state: str) -> None:
    with RefBroker(settings=SETTINGS) as broker:
        create(broker, "t", partitions=1)
        never: dict[str, Any] = {"delivery_timeout_ms": NEVER_MS, "max_block_ms": NEVER_MS}
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="tx", **IMPATIENT, **never)
        if state != "initializing":
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("t", b"v").result(ANSWER)
    if state != "initializing":
        producer.send("t", b"unsent")
    calls = {
        "initializing": producer.init_transactions,
        "committing": producer.commit_transaction,
        "aborting": producer.abort_transaction,
        "preparing": producer.prepare_transaction,
    }
    if state in calls:
        with pytest.raises(KafkaTimeoutError, match="it continues"):
            calls[state](timeout=0.05)
    with contextlib.suppress(DeliveryError):
        producer.close(timeout=0.2)
