"""What each error does to a transaction, request by request: the whole table, and what a program sees of it."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import (
    BrokerError,
    InvalidProducerEpochError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    error_from_code,
)
from kclient.net.manager import Request
from kclient.producer.transactions.outcomes import KINDS, Api, Kind, abortable, kind_of, worst
from kclient.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.kclient.producer.transactions.model import GROUP, OFFSETS, TransactionModel

RETRIED, LOOKED_UP, REFUSED, ABORTABLE, FATAL = "retried", "looked up", "refused", "abortable", "fatal"

COMMON = {
    14: RETRIED,  # COORDINATOR_LOAD_IN_PROGRESS
    15: LOOKED_UP,  # COORDINATOR_NOT_AVAILABLE
    16: LOOKED_UP,  # NOT_COORDINATOR
    51: RETRIED,  # CONCURRENT_TRANSACTIONS
    47: FATAL,  # INVALID_PRODUCER_EPOCH
    90: FATAL,  # PRODUCER_FENCED
    49: FATAL,  # INVALID_PRODUCER_ID_MAPPING
    53: FATAL,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    59: ABORTABLE,  # UNKNOWN_PRODUCER_ID
    120: ABORTABLE,  # TRANSACTION_ABORTABLE
    35: FATAL,  # UNSUPPORTED_VERSION
    -1: FATAL,  # UNKNOWN_SERVER_ERROR
}
EXPECTED: dict[str, dict[int, str]] = {
    "InitProducerId": {
        **COMMON,
        50: FATAL,  # INVALID_TRANSACTION_TIMEOUT
        53: REFUSED,
        31: REFUSED,  # CLUSTER_AUTHORIZATION_FAILED
        120: REFUSED,
        59: FATAL,
    },
    "AddPartitionsToTxn": {
        **{code: kind for code, kind in COMMON.items() if code not in (49, 53, 35, -1)},
        29: ABORTABLE,  # TOPIC_AUTHORIZATION_FAILED
        3: RETRIED,  # UNKNOWN_TOPIC_OR_PARTITION
        17: ABORTABLE,  # INVALID_TOPIC_EXCEPTION
        48: FATAL,  # INVALID_TXN_STATE
        49: FATAL,
        53: FATAL,
    },
    "AddOffsetsToTxn": {**COMMON, 30: ABORTABLE, 48: FATAL},
    "TxnOffsetCommit": {
        **COMMON,
        7: LOOKED_UP,  # REQUEST_TIMED_OUT
        3: RETRIED,
        30: ABORTABLE,  # GROUP_AUTHORIZATION_FAILED
        29: ABORTABLE,
        82: ABORTABLE,  # FENCED_INSTANCE_ID
        25: ABORTABLE,  # UNKNOWN_MEMBER_ID
        22: ABORTABLE,  # ILLEGAL_GENERATION
        113: ABORTABLE,  # STALE_MEMBER_EPOCH
        110: ABORTABLE,  # FENCED_MEMBER_EPOCH
        47: ABORTABLE,  # INVALID_PRODUCER_EPOCH: it may have timed out
        12: ABORTABLE,  # OFFSET_METADATA_TOO_LARGE
        28: ABORTABLE,  # INVALID_COMMIT_OFFSET_SIZE
        43: FATAL,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
        48: FATAL,
    },
    "EndTxn": {**COMMON, 48: FATAL},
    "EndTxn v5": {**COMMON, 48: ABORTABLE},
}
CASES = [(api, code, expected) for api, codes in EXPECTED.items() for code, expected in codes.items()]


def ask(api: str) -> tuple[TransactionModel, Request, Any]:
    """A producer that has just sent this request, and the call that waits for it."""
    if api == "InitProducerId":
        model = TransactionModel(initialized=False)
        call = model.transactions.initialize()
        return model, model.one(), call
    model = TransactionModel(1 if api in ("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn") else 2)
    if api == "AddPartitionsToTxn":
        model.begin(b"v")
        return model, model.one(), model.transactions.commit()
    model.begin()
    if api in ("AddOffsetsToTxn", "TxnOffsetCommit"):
        call = model.transactions.send_offsets(OFFSETS, GROUP)
        return model, model.one(), call
    model.send(b"v", partition=0)
    model.deliver_records()
    call = model.transactions.commit()
    return model, model.one(), call


@pytest.mark.parametrize(("api", "code", "expected"), CASES)
def test_each_error_leads_where_the_table_says(api: str, code: int, expected: str) -> None:
    model, request, call = ask(api)
    lookups, before = model.lookups, model.state
    model.answer_step(request, code)
    if expected in (RETRIED, LOOKED_UP):
        assert (model.state, call.done) == (before, False)
        assert model.poll() == []
        model.now += 10
        again = model.one()
        assert again.request_type is request.request_type
        if api != "TxnOffsetCommit":
            assert model.lookups == lookups + (expected == LOOKED_UP)
        model.answer_step(again)
        model.deliver()
        assert model.seen(call) is None
        return
    error = model.seen(call)
    assert error is not None
    assert (error.abortable, error.fatal) == (expected == ABORTABLE, expected == FATAL)
    assert model.state == {REFUSED: "UNINITIALIZED", ABORTABLE: "ABORTABLE_ERROR", FATAL: "FATAL_ERROR"}[expected]
    if code in (47, 90) and expected == FATAL:
        assert isinstance(error, ProducerFencedError)
    elif not error_from_code(code).retriable:
        assert error.code == code
    if expected == FATAL:
        assert model.fatal is not None
        assert model.poll() == []
        with pytest.raises(type(error)):
            model.transactions.abort()
    elif expected == REFUSED:
        again_call = model.transactions.initialize()
        model.answer_step(model.one())
        assert model.seen(again_call) is None
    else:
        aborted = model.transactions.abort()
        model.deliver()
        assert model.seen(aborted) is None
        assert model.state == "READY"


def test_every_error_that_the_tables_name_is_tried() -> None:
    tried = {api: set(codes) for api, codes in EXPECTED.items()}
    for api, codes in KINDS.items():
        if api is not Api.PRODUCE:
            assert set(codes) <= tried[api.value], api


def test_an_abort_that_fails_leaves_nothing_to_try() -> None:
    for code in (48, 120, 59, 47, 90, 49, 53, -1):
        model = TransactionModel()
        model.begin(b"v")
        model.deliver_records()
        call = model.transactions.abort()
        model.answer_step(model.one(), code)
        error = model.seen(call)
        assert error is not None
        assert error.fatal
        assert not error.abortable
        assert model.state == "FATAL_ERROR"


def test_an_unknown_producer_id_takes_a_new_epoch_after_the_abort_with_version_1() -> None:
    model, request, _ = ask("AddOffsetsToTxn")
    assert request.request_type is AddOffsetsToTxnRequest
    model.answer_step(request, 59)
    call = model.transactions.abort()
    request, message = model.step()
    assert request.request_type is InitProducerIdRequest
    assert (message.producer_id, message.producer_epoch) == (9, 0)
    model.answer_step(request, producer_epoch=1)
    assert model.seen(call) is None
    assert model.parts.identity.epoch == 1


def test_a_missing_permission_ends_the_coordinator_look_up_which_can_be_repeated() -> None:
    model = TransactionModel(initialized=False)
    model.lookup_code = 53
    call = model.transactions.initialize()
    assert model.poll() == []
    error = model.seen(call)
    assert error is not None
    assert (error.code, error.fatal, model.state) == (53, False, "UNINITIALIZED")
    model.lookup_code = 0
    call = model.transactions.initialize()
    model.now += 10
    model.answer_step(model.one())
    assert model.seen(call) is None


def test_a_group_that_may_not_be_used_makes_the_transaction_abortable() -> None:
    model = TransactionModel()
    model.begin()
    model.lookup_code = 30
    call = model.transactions.send_offsets(OFFSETS, GROUP)
    assert model.poll() == []
    error = model.seen(call)
    assert error is not None
    assert (error.code, error.abortable, error.fatal) == (30, True, False)
    model.lookup_code = 0
    aborted = model.transactions.abort()
    model.deliver()
    assert model.seen(aborted) is None
    model.begin()
    call = model.transactions.send_offsets(OFFSETS, GROUP)
    model.now += 10
    model.deliver()
    assert model.seen(call) is None


def test_of_several_errors_the_gravest_decides() -> None:
    errors: list[KafkaError] = [error_from_code(code, topic="t", partition=0) for code in (3, 29, 47, 120)]
    assert worst(Api.ADD_PARTITIONS, errors)[0] is Kind.FENCED
    assert isinstance(worst(Api.ADD_PARTITIONS, errors)[1], InvalidProducerEpochError)
    assert worst(Api.ADD_PARTITIONS, errors[:2])[0] is Kind.ABORTABLE


@pytest.mark.parametrize("code", sorted(BrokerError.by_code))
def test_no_error_of_a_record_is_left_to_be_retried_by_the_program(code: int) -> None:
    """A commit that raises something retriable would be repeated, without success."""
    error = error_from_code(code)
    if kind_of(Api.PRODUCE, error) is Kind.ABORTABLE:
        raised = abortable(error)
        assert raised.abortable
        assert not raised.retriable
        assert not raised.fatal
        assert raised.__cause__ is error if isinstance(raised, TransactionAbortableError) and code != 120 else True
