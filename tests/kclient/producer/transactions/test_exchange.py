"""What a transactional producer asks of coordinators and brokers, in which order and at which versions."""

from __future__ import annotations

import pytest

from kclient.errors import (
    ClosedError,
    DisconnectedError,
    KafkaTimeoutError,
    NotCoordinatorError,
    ProducerFencedError,
    ProtocolError,
    TransactionAbortableError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.end_txn import EndTxnRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.records import read_batches
from kclient.types import ConsumerGroupMetadata, PreparedTransaction
from tests.kclient.producer.transactions.model import GROUP, OFFSETS, TransactionModel, drive, names
from tests.support.typed import built

COORDINATOR_LOAD_IN_PROGRESS = 14
CONCURRENT_TRANSACTIONS = 51


def test_initializing_asks_for_an_id_with_the_timeout_of_transactions() -> None:
    model = TransactionModel(initialized=False, transaction_timeout_ms=7000)
    call = model.transactions.initialize()
    request, message = model.step()
    assert (message.transactional_id, message.transaction_timeout_ms, message.producer_id) == ("tx", 7000, -1)
    assert request.minimum_version is None
    model.answer_step(request, producer_id=77, producer_epoch=5)
    assert model.seen(call) is None
    assert (model.parts.identity.producer_id, model.parts.identity.epoch) == (77, 5)


def test_with_version_2_records_and_the_end_are_all_there_is() -> None:
    model = TransactionModel(2)
    model.begin(b"a", b"b")
    call = model.transactions.commit()
    asked = drive(model)
    assert [name for name, _ in asked] == ["Produce", "EndTxn"]
    assert asked[0][1].transactional_id == "tx"
    (batch,) = read_batches(asked[0][1].topic_data[0].partition_data[0].records)
    assert (batch.is_transactional, batch.producer_epoch, batch.base_sequence) == (True, 0, 0)
    assert asked[1][1].committed
    assert model.seen(call) is None
    model.begin(b"c")
    (request,) = model.poll()
    assert (request.minimum_version, request.maximum_version) == (12, None)
    (batch,) = model.batches(request).values()
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_with_version_1_partitions_are_added_before_their_first_batch() -> None:
    model = TransactionModel(1, leaders=[1, 1])
    for number in range(2):
        model.begin(b"a")
        model.send(b"b", partition=1)
        call = model.transactions.commit()
        asked = drive(model)
        assert [name for name, _ in asked] == ["AddPartitionsToTxn", "Produce", "EndTxn"]
        (topic,) = asked[0][1].v3_and_below_topics
        assert (topic.name, sorted(topic.partitions)) == ("t", [0, 1])
        batches = [batch for data in asked[1][1].topic_data[0].partition_data for batch in read_batches(data.records)]
        assert {(batch.producer_epoch, batch.base_sequence) for batch in batches} == {(0, number)}
        assert model.seen(call) is None


def test_with_version_1_no_request_is_of_a_version_that_means_version_2() -> None:
    model = TransactionModel(1)
    model.begin(b"a")
    model.transactions.send_offsets(OFFSETS, GROUP)
    model.transactions.commit()
    last = {}
    while requests := model.poll():
        for request in requests:
            last[names([request])[0]] = request.maximum_version
            if request.request_type is ProduceRequest:
                model.answer(request)
            else:
                model.answer_step(request)
    assert last == {
        "AddPartitionsToTxn": 3,
        "AddOffsetsToTxn": None,
        "TxnOffsetCommit": 4,
        "Produce": 11,
        "EndTxn": 4,
    }


def test_a_partition_is_added_while_its_batch_waits_for_company() -> None:
    model = TransactionModel(1, linger_ms=1000)
    model.begin(b"a")
    request, _ = model.step()
    model.answer_step(request)
    assert model.poll() == []
    model.now += 1.0
    assert names(model.poll()) == ["Produce"]


def test_a_partition_that_nothing_is_sent_to_again_is_not_added_again() -> None:
    model = TransactionModel(1)
    model.begin(b"a")
    model.transactions.commit().seen = True
    drive(model)
    model.transactions.begin()
    model.transactions.commit()
    assert drive(model) == []
    assert model.state == "READY"


def test_a_partition_that_comes_while_others_are_added_is_added_after_them() -> None:
    model = TransactionModel(1, leaders=[1, 1])
    model.begin(b"a")
    request, _ = model.step()
    model.send(b"b", partition=1)
    assert model.poll() == []
    model.answer_step(request)
    requests = model.poll()
    assert names(requests) == ["Produce", "AddPartitionsToTxn"]
    assert built(requests[1], AddPartitionsToTxnRequest, 3).v3_and_below_topics[0].partitions == [1]


@pytest.mark.parametrize(
    ("version", "expected"),
    [(2, ["TxnOffsetCommit", "TxnOffsetCommit"]), (1, ["AddOffsetsToTxn", "TxnOffsetCommit", "TxnOffsetCommit"])],
)
def test_offsets_are_stored_with_the_group_s_coordinator(version: int, expected: list[str]) -> None:
    model = TransactionModel(version)
    model.begin()
    first, second = (model.transactions.send_offsets(OFFSETS, GROUP) for _ in range(2))
    asked = drive(model)
    assert [name for name, _ in asked] == expected
    message = asked[-1][1]
    assert (message.group_id, message.generation_id, message.member_id) == ("g", 4, "member")
    stored = {each.partition_index: each.committed_offset for each in message.topics[0].partitions}
    assert stored == {0: 5, 1: 6}
    assert first.done
    assert second.done
    model.transactions.commit()
    assert [name for name, _ in drive(model)] == ["EndTxn"]


def test_offsets_of_a_consumer_without_a_member_go_to_older_brokers_too() -> None:
    for group, first in ((GROUP, 3), (ConsumerGroupMetadata("g"), None)):
        model = TransactionModel(1)
        model.begin()
        model.transactions.send_offsets(OFFSETS, group)
        model.answer_step(model.one())
        assert model.one().minimum_version == first


def test_only_the_offsets_that_are_not_stored_yet_are_sent_again() -> None:
    model = TransactionModel()
    model.begin()
    call = model.transactions.send_offsets(OFFSETS, GROUP)
    model.answer_step(model.one(), 14, only=1)
    assert not call.done
    model.now += 10
    request, message = model.step()
    assert [each.partition_index for each in message.topics[0].partitions] == [1]
    model.answer_step(request)
    assert model.seen(call) is None


def test_a_commit_waits_for_offsets_that_are_still_to_be_stored() -> None:
    model = TransactionModel()
    model.begin()
    model.transactions.send_offsets(OFFSETS, GROUP)
    call = model.transactions.commit()
    assert [name for name, _ in drive(model)] == ["TxnOffsetCommit", "EndTxn"]
    assert model.seen(call) is None


@pytest.mark.parametrize("version", [1, 2])
def test_an_empty_transaction_asks_nothing_of_the_coordinator(version: int) -> None:
    model = TransactionModel(version)
    for _ in range(2):
        for end in (model.transactions.commit, model.transactions.abort):
            model.transactions.begin()
            call = end()
            assert drive(model) == []
            assert model.seen(call) is None


def test_the_end_waits_for_every_answer() -> None:
    model = TransactionModel(leaders=[1, 2])
    model.begin(b"a")
    model.send(b"b", partition=1)
    call = model.transactions.commit()
    first, second = model.poll()
    model.answer(first)
    assert model.poll() == []
    model.answer(second)
    model.answer_step(model.one())
    assert model.seen(call) is None


def test_a_commit_does_not_wait_for_the_linger() -> None:
    model = TransactionModel(linger_ms=60_000)
    model.begin(b"a")
    model.transactions.commit()
    assert names(model.poll()) == ["Produce"]


def test_a_request_without_response_is_repeated_after_a_coordinator_look_up() -> None:
    for error in (DisconnectedError("gone"), KafkaTimeoutError("late")):
        model = TransactionModel()
        model.begin(b"a")
        call = model.transactions.commit()
        model.deliver_records()
        request = model.one()
        request.on_error(error, model.now)
        assert model.poll() == []
        assert model.lookups == 1
        model.now += 10
        again, message = model.step()
        assert model.lookups == 2
        assert message == request.build(5)
        model.answer_step(again)
        assert model.seen(call) is None


def test_a_request_that_is_lost_because_the_producer_closes_changes_nothing() -> None:
    model = TransactionModel()
    model.begin(b"a")
    call = model.transactions.commit()
    model.deliver_records()
    model.one().on_error(ClosedError("closed"), model.now)
    assert (model.state, call.done) == ("COMMITTING", False)


def test_what_comes_while_markers_are_written_is_sent_again_soon() -> None:
    model = TransactionModel(1)
    model.begin(b"a")
    model.answer_step(model.one(), CONCURRENT_TRANSACTIONS)
    assert model.poll() == []
    assert model.deadline - model.now < 0.01
    model = TransactionModel(2)
    model.begin(b"a")
    model.answer(model.one(), code=CONCURRENT_TRANSACTIONS)
    assert model.poll() == []
    assert model.deadline - model.now < 0.01


def test_a_request_that_fails_again_and_again_is_repeated_less_and_less_often() -> None:
    model = TransactionModel(1, retry_backoff_ms=100, retry_backoff_max_ms=10_000)
    model.begin(b"a")
    waits = []
    for _ in range(5):
        model.answer_step(model.one(), COORDINATOR_LOAD_IN_PROGRESS)
        assert model.poll() == []
        waits.append(model.deadline - model.now)
        model.now = model.deadline
    assert waits == [pytest.approx(0.1 * 2**number, rel=0.21) for number in range(5)]


def test_the_version_is_checked_between_transactions_and_an_upgrade_takes_an_epoch() -> None:
    model = TransactionModel(1)
    model.begin(b"a")
    model.nodes.version = 2
    call = model.transactions.commit()
    asked = drive(model)
    assert [name for name, _ in asked] == ["AddPartitionsToTxn", "Produce", "EndTxn", "InitProducerId"]
    assert (asked[-1][1].producer_id, asked[-1][1].producer_epoch) == (9, 0)
    assert model.seen(call) is None
    model.begin(b"b")
    model.nodes.version = 1
    model.transactions.commit().seen = True
    assert [name for name, _ in drive(model)] == ["Produce", "EndTxn"]
    model.begin(b"c")
    assert [name for name, _ in drive(model)] == ["AddPartitionsToTxn", "Produce"]


def test_the_end_may_bring_a_new_producer_id() -> None:
    model = TransactionModel()
    model.begin(b"a")
    model.transactions.commit().seen = True
    model.deliver_records()
    model.answer_step(model.one(), producer_id=500, producer_epoch=0)
    model.begin(b"b")
    (batch,) = model.batches(model.one()).values()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (500, 0, 0)


def test_what_is_prepared_is_handed_over_without_an_end() -> None:
    model = TransactionModel()
    model.begin(b"a")
    call = model.transactions.prepare()
    assert [name for name, _ in drive(model)] == ["Produce"]
    assert model.seen(call) is None
    assert call.prepared == PreparedTransaction("tx", 9, 0)
    assert model.transactions.close() is None
    assert drive(model) == []
    model.transactions.initialize()
    assert [name for name, _ in drive(model)] == ["InitProducerId"]


def test_a_transaction_without_records_or_offsets_is_not_handed_over() -> None:
    model = TransactionModel()
    model.begin()
    call = model.transactions.prepare()
    model.poll()
    error = model.seen(call)
    assert error is not None
    assert error.abortable
    assert model.state == "ABORTABLE_ERROR"


@pytest.mark.parametrize("version", [1, 2])
def test_a_producer_that_closes_aborts_what_is_open(version: int) -> None:
    model = TransactionModel(version)
    model.begin(b"a")
    model.deliver_records()
    call = model.transactions.close()
    ((name, message),) = drive(model)
    assert (name, message.committed) == ("EndTxn", False)
    assert call is not None
    assert call.done


def test_a_call_that_waits_ends_when_its_producer_closes_and_aborts() -> None:
    model = TransactionModel()
    model.begin(b"a")
    waiting = model.transactions.prepare()
    closing = model.transactions.close()
    assert isinstance(waiting.error, ClosedError)
    assert closing is not waiting


def test_a_broker_that_gives_no_next_epoch_ends_the_producer() -> None:
    model = TransactionModel(2)
    model.begin(b"a")
    call = model.transactions.commit()
    model.deliver_records()
    model.answer_step(model.one(), producer_id=-1, producer_epoch=-1)
    error = model.seen(call)
    assert isinstance(error, ProtocolError)
    assert error.fatal
    assert model.state == "FATAL_ERROR"


def test_a_producer_that_closes_waits_for_a_commit() -> None:
    model = TransactionModel()
    model.begin(b"a")
    call = model.transactions.commit()
    assert model.transactions.close() is call


def test_records_that_slip_in_after_the_end_fail_and_are_not_of_the_next_transaction() -> None:
    model = TransactionModel()
    model.begin(b"a")
    model.transactions.commit().seen = True
    model.deliver_records()
    end = model.one()
    late = model.send(b"late", partition=0)
    assert model.poll() == []
    model.answer_step(end)
    model.poll()
    assert isinstance(late.exception(0), TransactionAbortedError)
    model.begin(b"b")
    (batch,) = model.batches(model.one()).values()
    assert [record.value for record in batch.records()] == [b"b"]


def test_a_broker_too_old_to_bump_an_epoch_ends_the_producer() -> None:
    model = TransactionModel(1, delivery_timeout_ms=31_000)
    model.begin(b"a")
    model.answer_step(model.one())
    request = model.one()
    model.now += 31
    model.poll()
    model.lose(request, DisconnectedError("gone"))
    call = model.transactions.abort()
    end = model.one()
    assert end.request_type is EndTxnRequest
    model.answer_step(end)
    bump = model.one()
    assert (bump.request_type, bump.minimum_version) == (InitProducerIdRequest, 3)
    bump.on_error(UnsupportedVersionError("too old"), model.now)
    assert isinstance(model.seen(call), UnsupportedVersionError)
    assert model.state == "FATAL_ERROR"


def test_a_coordinator_that_moved_is_looked_up_again() -> None:
    model = TransactionModel(1)
    model.begin(b"a")
    model.answer_step(model.one(), NotCoordinatorError.code)
    assert model.poll() == []
    model.now += 10
    assert names(model.poll()) == ["AddPartitionsToTxn"]
    assert model.lookups == 2


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_that_cannot_be_stored_cost_the_transaction(version: int) -> None:
    """Nothing else would end the commit that waits for them, as when their topic is gone."""
    model = TransactionModel(version, delivery_timeout_ms=31_000)
    model.begin()
    offsets = model.transactions.send_offsets(OFFSETS, GROUP)
    if version == 1:
        model.answer_step(model.one())
    call = model.transactions.commit()
    started = model.now
    while not call.done:
        for request in model.poll():
            model.answer_step(request, UnknownTopicOrPartitionError.code)
        assert model.now - started < 35
        model.now += 0.5
    assert model.now - started > 30
    error = model.seen(call)
    assert isinstance(error, TransactionAbortableError)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(error)
    assert offsets.error is not None
    aborted = model.transactions.abort()
    drive(model)
    assert model.seen(aborted) is None


def test_offsets_of_a_group_without_a_coordinator_cost_the_transaction() -> None:
    model = TransactionModel(delivery_timeout_ms=31_000)
    model.begin()
    model.lookup_code = 15
    model.transactions.send_offsets(OFFSETS, GROUP)
    call = model.transactions.commit()
    started = model.now
    while not call.done:
        assert model.poll() == []
        assert model.now < started + 32
        model.now = min(model.deadline, started + 31)
    error = model.seen(call)
    assert isinstance(error, TransactionAbortableError)
    assert "COORDINATOR_NOT_AVAILABLE" in str(error)


def test_a_commit_is_one_though_its_producer_is_fenced_before_the_next_epoch() -> None:
    model = TransactionModel(1)
    model.begin(b"a")
    model.nodes.version = 2
    call = model.transactions.commit()
    model.deliver_records()
    model.answer_step(model.one())
    bump = model.one()
    assert bump.request_type is InitProducerIdRequest
    assert not call.done
    model.answer_step(bump, ProducerFencedError.code)
    assert model.seen(call) is None
    with pytest.raises(ProducerFencedError):
        model.transactions.begin()


def test_what_a_call_waits_for_is_known() -> None:
    model = TransactionModel(1)
    assert model.transactions.last_error() is None
    model.begin(b"a")
    model.transactions.commit()
    model.answer_step(model.one(), CONCURRENT_TRANSACTIONS)
    error = model.transactions.last_error()
    assert error is not None
    assert error.code == CONCURRENT_TRANSACTIONS
    model.now += 10
    model.lookup_code = 15
    model.one().on_error(DisconnectedError("gone"), model.now)
    assert isinstance(model.transactions.last_error(), DisconnectedError)
