"""What an abort waits for, and what it asks of coordinators and brokers before the transaction is over."""

from __future__ import annotations

import pytest

from kclient.errors import (
    DisconnectedError,
    GroupAuthorizationError,
    InvalidTxnStateError,
    NotCoordinatorError,
    TopicAuthorizationError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)
from tests.kclient.producer.transactions.model import GROUP, OFFSETS, TransactionModel, drive, names


def test_an_abort_drops_what_is_not_under_way_and_waits_for_the_rest() -> None:
    model = TransactionModel(max_in_flight_requests_per_connection=1)
    (sent,) = model.begin(b"a")
    request = model.one()
    unsent = model.send(b"b", partition=0)
    call = model.transactions.abort()
    assert model.poll() == []
    assert isinstance(unsent.exception(0), TransactionAbortedError)
    assert not sent.done()
    model.answer(request, offset=3)
    assert sent.result(0).offset == 3
    request, message = model.step()
    assert not message.committed
    model.answer_step(request)
    assert model.seen(call) is None


def test_an_abort_does_not_repeat_what_a_broker_did_not_take() -> None:
    model = TransactionModel()
    (future,) = model.begin(b"a")
    request = model.one()
    model.transactions.abort()
    model.answer(request, code=6)
    assert names(model.poll()) == ["EndTxn"]
    assert isinstance(future.exception(0), TransactionAbortedError)


def test_an_abort_waits_for_requests_of_batches_that_were_given_up() -> None:
    """One that arrived after the marker would be in no transaction, and hold up readers indefinitely."""
    model = TransactionModel(delivery_timeout_ms=31_000)
    model.begin(b"a")
    request = model.one()
    model.now += 31
    assert model.poll() == []
    assert model.state == "ABORTABLE_ERROR"
    model.transactions.abort()
    assert model.poll() == []
    model.answer(request)
    assert names(model.poll()) == ["EndTxn"]


def test_an_abort_learns_first_whether_a_partition_was_added() -> None:
    model = TransactionModel(1)
    model.begin(b"a")
    request = model.one()
    call = model.transactions.abort()
    request.on_error(DisconnectedError("gone"), model.now)
    model.now += 10
    request, _ = model.step()
    assert names([request]) == ["AddPartitionsToTxn"]
    model.answer_step(request)
    assert [name for name, _ in drive(model)] == ["EndTxn"]
    assert model.seen(call) is None


def test_an_abort_forgets_partitions_and_offsets_that_nobody_was_asked_to_add() -> None:
    model = TransactionModel(1)
    model.nodes.down.add(103)
    model.begin(b"a")
    offsets = model.transactions.send_offsets(OFFSETS, GROUP)
    assert model.poll() == []
    call = model.transactions.abort()
    model.nodes.down.clear()
    assert drive(model) == []
    assert model.seen(call) is None
    assert isinstance(offsets.error, TransactionAbortedError)


def test_an_abort_adds_no_partition_that_has_come_while_others_were_added() -> None:
    model = TransactionModel(1, leaders=[1, 1])
    model.begin(b"a")
    request = model.one()
    model.send(b"b", partition=1)
    assert model.poll() == []
    call = model.transactions.abort()
    model.answer_step(request)
    assert [name for name, _ in drive(model)] == ["EndTxn"]
    assert model.seen(call) is None


def test_an_abort_does_not_wait_for_a_topic_that_is_gone() -> None:
    """Its partition was not added, and never will be."""
    model = TransactionModel(1, delivery_timeout_ms=31_000)
    model.begin(b"a")
    model.answer_step(model.one(), UnknownTopicOrPartitionError.code)
    model.now += 31
    model.poll()
    assert model.state == "ABORTABLE_ERROR"
    call = model.transactions.abort()
    assert drive(model) == []
    assert model.seen(call) is None


def test_an_abort_drops_a_partition_that_is_refused_while_it_waits() -> None:
    model = TransactionModel(1)
    model.begin(b"a")
    request = model.one()
    call = model.transactions.abort()
    model.answer_step(request, UnknownTopicOrPartitionError.code)
    assert drive(model) == []
    assert model.seen(call) is None


UNCERTAIN = pytest.mark.parametrize("end_code", [0, InvalidTxnStateError.code], ids=["begun", "not begun"])
"""What the coordinator answers to the end of a transaction that it may not have begun."""


def answer_uncertain_end(model: TransactionModel, end_code: int) -> None:
    request, message = model.step()
    assert (names([request]), message.committed) == (["EndTxn"], False)
    model.answer_step(request, end_code)
    request, message = model.step()
    assert (names([request]), message.producer_id, message.producer_epoch) == (["InitProducerId"], 9, 0)
    model.answer_step(request, producer_epoch=1)
    assert model.poll() == []


@UNCERTAIN
def test_an_abort_asks_again_whether_a_partition_was_added_until_its_topic_is_gone(end_code: int) -> None:
    """The first request may have begun the transaction, which the coordinator would keep open."""
    model = TransactionModel(1)
    model.begin(b"a")
    model.one().on_error(DisconnectedError("gone"), model.now)
    call = model.transactions.abort()
    for code in (NotCoordinatorError.code, UnknownTopicOrPartitionError.code):
        model.now += 10
        request = model.one()
        assert names([request]) == ["AddPartitionsToTxn"]
        model.answer_step(request, code)
    model.now += 10
    answer_uncertain_end(model, end_code)
    assert model.seen(call) is None
    assert model.state == "READY"


@UNCERTAIN
@pytest.mark.parametrize("is_group", [False, True], ids=["partition", "group"])
def test_an_abort_ends_what_a_lost_request_may_have_begun(end_code: int, *, is_group: bool) -> None:
    model = TransactionModel(1)
    if is_group:
        model.begin()
        model.transactions.send_offsets(OFFSETS, GROUP)
    else:
        model.begin(b"a")
    model.one().on_error(DisconnectedError("gone"), model.now)
    model.now += 10
    model.answer_step(model.one(), (GroupAuthorizationError if is_group else TopicAuthorizationError).code)
    model.poll()
    assert model.state == "ABORTABLE_ERROR"
    call = model.transactions.abort()
    answer_uncertain_end(model, end_code)
    assert model.seen(call) is None
    assert model.state == "READY"


def test_an_abort_that_the_coordinator_must_know_fails_if_it_does_not() -> None:
    model = TransactionModel(1)
    model.begin(b"a")
    model.answer_step(model.one())
    call = model.transactions.abort()
    model.answer_step(model.one(), InvalidTxnStateError.code)
    assert isinstance(model.seen(call), InvalidTxnStateError)
    assert model.state == "FATAL_ERROR"


@pytest.mark.parametrize(("version", "expected"), [(1, ["EndTxn", "InitProducerId"]), (2, ["EndTxn"])])
def test_an_abort_does_not_wait_for_a_group_s_coordinator_that_is_gone(version: int, expected: list[str]) -> None:
    """With version 1 only a new epoch keeps the offsets, should they arrive yet, out of the next transaction."""
    model = TransactionModel(version)
    model.begin()
    offsets = model.transactions.send_offsets(OFFSETS, GROUP)
    if version == 1:
        model.answer_step(model.one())
    request = model.one()
    call = model.transactions.abort()
    request.on_error(DisconnectedError("gone"), model.now)
    assert [name for name, _ in drive(model)] == expected
    assert model.seen(call) is None
    assert isinstance(offsets.error, TransactionAbortedError)
