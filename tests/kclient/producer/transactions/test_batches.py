"""What comes of a transaction whose records are refused, lost or late, and of the producer's numbers then."""

from __future__ import annotations

import pytest

from kclient.errors import (
    DisconnectedError,
    InvalidPidMappingError,
    KafkaTimeoutError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    TopicAuthorizationError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from kclient.protocol import Message
from kclient.protocol.messages.end_txn import EndTxnRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.kclient.producer.transactions.model import TransactionModel
from tests.support.typed import built


def open_transaction(version: int, *values: bytes) -> TransactionModel:
    """A producer with an open transaction, whose partition is added."""
    model = TransactionModel(version, delivery_timeout_ms=31_000)
    model.begin(*values)
    if version == 1:
        model.answer_step(model.one())
    return model


def abort(model: TransactionModel) -> list[type[Message]]:
    """Abort the transaction; returns the kinds of requests that it took."""
    call = model.transactions.abort()
    asked = []
    while requests := model.poll():
        for request in requests:
            asked.append(request.request_type)
            epoch = model.parts.identity.epoch + 1
            model.answer_step(request, **({"producer_epoch": epoch} if asked[-1] is InitProducerIdRequest else {}))
    assert model.seen(call) is None
    assert model.state == "READY"
    return asked


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (29, TopicAuthorizationError),
        (45, OutOfOrderSequenceError),
        (47, None),
        (48, None),
        (59, None),
        (87, None),
        (120, TransactionAbortableError),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_record_that_is_refused_makes_the_transaction_abortable(
    version: int, code: int, kind: type[Exception] | None
) -> None:
    model = open_transaction(version, b"v")
    call = model.transactions.commit()
    model.answer(model.one(), code=code)
    error = model.seen(call)
    assert error is not None
    assert (error.code, error.abortable, error.fatal) == (code, True, False)
    assert kind is None or isinstance(error, kind)
    assert model.opened[-1] is False
    assert EndTxnRequest in abort(model)
    model.begin(b"w")
    model.deliver()


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_follows_the_first_batch_of_an_epoch_in_a_transaction(version: int) -> None:
    model = open_transaction(version, b"a")
    first = model.one()
    model.send(b"b", partition=0)
    assert model.poll() == []
    model.answer(first, code=NotLeaderOrFollowerError.code)
    model.now += 2
    again = model.one()
    assert [record.value for record in model.batches(again)[0].records()] == [b"a"]
    assert model.poll() == []
    model.answer(again)
    assert [record.value for record in model.batches(model.one())[0].records()] == [b"b"]


@pytest.mark.parametrize(("code", "kind"), [(90, ProducerFencedError), (49, InvalidPidMappingError)])
def test_a_record_whose_producer_is_replaced_ends_the_producer(code: int, kind: type[Exception]) -> None:
    model = open_transaction(2, b"v")
    request = model.one()
    unsent = model.send(b"w", partition=0)
    call = model.transactions.commit()
    model.answer(request, code=code)
    assert model.poll() == []
    error = model.seen(call)
    assert isinstance(error, kind)
    assert error.fatal
    assert isinstance(unsent.exception(0), kind)
    assert isinstance(model.fatal, kind)


def test_unsent_records_fail_once_the_transaction_can_only_be_aborted() -> None:
    model = TransactionModel(max_in_flight_requests_per_connection=1)
    model.begin(b"a")
    request = model.one()
    unsent = model.send(b"b", partition=0)
    model.answer(request, code=29)
    model.poll()
    error = unsent.exception(0)
    assert isinstance(error, TransactionAbortedError)
    assert isinstance(error.__cause__, TopicAuthorizationError)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error)


@pytest.mark.parametrize(("version", "expected"), [(1, [EndTxnRequest, InitProducerIdRequest]), (2, [EndTxnRequest])])
def test_a_record_that_comes_too_late_costs_the_transaction_and_the_epoch(version: int, expected: list[object]) -> None:
    model = open_transaction(version, b"v")
    request = model.one()
    model.now += 31
    call = model.transactions.commit()
    model.poll()
    error = model.seen(call)
    assert isinstance(error, TransactionAbortableError)
    assert isinstance(error.__cause__, KafkaTimeoutError)
    assert not error.retriable
    model.lose(request, DisconnectedError("gone"))
    assert abort(model) == expected
    model.begin(b"w")
    if version == 1:
        model.answer_step(model.one())
    (batch,) = model.batches(model.one()).values()
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_a_record_that_was_confirmed_late_costs_no_epoch() -> None:
    model = open_transaction(1, b"v")
    request = model.one()
    model.now += 31
    model.poll()
    assert model.state == "ABORTABLE_ERROR"
    model.answer(request)
    assert abort(model) == [EndTxnRequest]


def test_a_record_that_was_never_sent_costs_no_epoch() -> None:
    model = TransactionModel(1, delivery_timeout_ms=31_000)
    model.begin(b"v")
    model.answer_step(model.one())
    model.nodes.down.add(1)
    model.poll()
    model.now += 31
    model.poll()
    assert model.state == "ABORTABLE_ERROR"
    assert abort(model) == [EndTxnRequest]


def test_sequence_numbers_of_a_requested_epoch_start_at_0() -> None:
    model = open_transaction(1, b"v")
    request = model.one()
    model.transactions.abort().seen = True
    model.lose(request, DisconnectedError("gone"))
    model.answer_step(model.one())
    request, message = model.step()
    assert (message.producer_id, message.producer_epoch) == (9, 0)
    model.answer_step(request, producer_epoch=1)
    model.begin(b"w")
    model.answer_step(model.one())
    (batch,) = model.batches(model.one()).values()
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_a_batch_that_overtook_another_one_is_sent_again_and_costs_nothing() -> None:
    model = open_transaction(2, b"a")
    model.answer(model.one())
    model.send(b"b", partition=0)
    first = model.one()
    model.send(b"c", partition=0)
    second = model.one()
    model.answer(second, code=45)
    model.answer(first)
    model.now += 10
    model.transactions.commit()
    model.answer(model.one())
    assert model.one().request_type is EndTxnRequest


def test_a_record_lost_while_the_end_is_under_way_does_not_change_it() -> None:
    """Only what another thread sent while the transaction ended can fail then."""
    model = open_transaction(2, b"a")
    model.answer(model.one())
    call = model.transactions.commit()
    end = model.one()
    model.send(b"late", partition=0)
    model.now += 31
    model.poll()
    assert model.state == "COMMITTING"
    model.answer_step(end)
    assert model.seen(call) is None


def test_a_batch_with_a_record_that_is_refused_fails_whole() -> None:
    """An idempotent producer sends the others again; here none of them may count."""
    model = open_transaction(2)
    good, bad = model.send(b"good", partition=0), model.send(b"bad", partition=0)
    refused = [ProduceResponse.BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")]
    model.answer(model.one(), code=87, record_errors=refused)
    assert "no key" in str(bad.exception(0))
    assert good.exception(0) is not None
    assert model.state == "ABORTABLE_ERROR"
    assert model.poll() == []


def test_a_batch_that_is_too_large_is_split_within_the_transaction() -> None:
    model = open_transaction(2)
    futures = [model.send(b"%d" % index * 100, partition=0) for index in range(4)]
    call = model.transactions.commit()
    model.answer(model.one(), code=10)
    model.deliver()
    assert model.seen(call) is None
    assert all(future.exception(0) is None for future in futures)


def test_requests_of_a_transaction_name_it() -> None:
    model = open_transaction(1, b"v")
    request = model.one()
    assert request.request_type is ProduceRequest
    assert built(request, ProduceRequest, 11).transactional_id == "tx"
    (batch,) = model.batches(request).values()
    assert batch.is_transactional


@pytest.mark.parametrize("code", [45, 59])
def test_records_that_a_broker_lost_cost_the_epoch_with_version_1(code: int) -> None:
    """The number that the broker refused would be refused again, in every transaction."""
    model = open_transaction(1, b"a")
    model.answer(model.one())
    model.send(b"b", partition=0)
    model.answer(model.one(), code=code)
    assert abort(model) == [EndTxnRequest, InitProducerIdRequest]
    model.begin(b"c")
    model.answer_step(model.one())
    (batch,) = model.batches(model.one()).values()
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


@pytest.mark.parametrize("code", [31, 35, 53, 90])
def test_a_fatal_error_of_a_record_during_the_abort_is_reported_as_fatal(code: int) -> None:
    model = open_transaction(2, b"v")
    request = model.one()
    call = model.transactions.abort()
    model.answer(request, code=code)
    assert model.poll() == []
    error = model.seen(call)
    assert error is not None
    assert model.fatal is not None
    assert (error.fatal, model.fatal.fatal) == (True, True)
    assert (error.code, model.fatal.code) == (code, code)
