"""The tables of a transactional producer's states, and what each call does in each of them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from kclient.errors import IllegalStateError, KafkaError, ProducerFencedError, TransactionAbortableError
from kclient.producer.transactions.interfaces import PendingCall
from kclient.producer.transactions.manager import TransactionManager
from kclient.producer.transactions.states import STATES, TransactionCall, TransactionEvent, TransactionState
from tests.kclient.producer.transactions.model import GROUP, TransactionModel
from tests.support.typed import reread

S = TransactionState
PRODUCER_FENCED = 90

CALLS: dict[TransactionCall, Callable[[TransactionManager], object]] = {
    TransactionCall.INIT: TransactionManager.initialize,
    TransactionCall.BEGIN: TransactionManager.begin,
    TransactionCall.SEND: TransactionManager.check_send,
    TransactionCall.SEND_OFFSETS: lambda manager: manager.send_offsets({}, GROUP),
    TransactionCall.PREPARE: TransactionManager.prepare,
    TransactionCall.COMMIT: TransactionManager.commit,
    TransactionCall.ABORT: TransactionManager.abort,
}
WAITING = {
    S.INITIALIZING: TransactionCall.INIT,
    S.PREPARING: TransactionCall.PREPARE,
    S.COMMITTING: TransactionCall.COMMIT,
    S.ABORTING: TransactionCall.ABORT,
}


def in_state(state: TransactionState) -> TransactionModel:
    """A producer that got into a state as producers do."""
    model = TransactionModel(initialized=state not in (S.UNINITIALIZED, S.INITIALIZING))
    transactions = model.transactions
    if state is S.INITIALIZING:
        transactions.initialize()
    if state in (S.UNINITIALIZED, S.INITIALIZING, S.READY):
        return model
    model.begin(b"v")
    if state is S.PREPARING:
        transactions.prepare()
    elif state is S.COMMITTING:
        transactions.commit()
    elif state is S.ABORTING:
        transactions.abort()
    elif state is S.PREPARED:
        call = transactions.prepare()
        model.deliver()
        model.seen(call)
    elif state is S.ABORTABLE_ERROR:
        transactions.batch_failed(KafkaError("a record was lost"))
    elif state is S.FATAL_ERROR:
        transactions.fail(ProducerFencedError())
    return model


@pytest.mark.parametrize("state", S)
def test_each_state_can_be_reached(state: TransactionState) -> None:
    assert in_state(state).transactions.state is state


@pytest.mark.parametrize("call", TransactionCall, ids=lambda call: call.value)
@pytest.mark.parametrize("state", S, ids=lambda state: state.name)
def test_a_call_works_repeats_or_raises_as_the_tables_say(state: TransactionState, call: TransactionCall) -> None:
    model = in_state(state)
    if STATES.allows(state, call) or WAITING.get(state) is call:
        CALLS[call](model.transactions)
        return
    expected: type[KafkaError] = IllegalStateError
    if state is S.FATAL_ERROR:
        expected = ProducerFencedError
    elif state is S.ABORTABLE_ERROR:
        expected = KafkaError
    with pytest.raises(expected) as raised:
        CALLS[call](model.transactions)
    assert raised.value.fatal is (state is S.FATAL_ERROR)
    assert raised.value.abortable is (state is S.ABORTABLE_ERROR)
    if expected is IllegalStateError:
        assert f"{call.value}()" in str(raised.value)
        assert repr(state.value) in str(raised.value)
    assert model.transactions.state is state


@pytest.mark.parametrize("before", S, ids=lambda state: state.name)
def test_every_state_but_the_last_can_fail_permanently(before: TransactionState) -> None:
    assert STATES.allows(before, TransactionEvent.FAIL_FATALLY) is (before is not S.FATAL_ERROR)


def test_records_may_be_sent_in_a_transaction_only() -> None:
    model = TransactionModel()
    assert model.opened[-1] is False
    model.begin(b"v")
    assert reread(model.opened[-1]) is True
    model.transactions.commit()
    assert reread(model.opened[-1]) is False


def test_a_repeated_call_has_the_result_of_the_first() -> None:
    model = TransactionModel()
    model.begin(b"v")
    call = model.transactions.commit()
    model.deliver()
    assert model.state == "READY"
    with pytest.raises(IllegalStateError, match=r"begin_transaction\(\).*commit_transaction\(\).*has succeeded"):
        model.transactions.begin()
    again = model.transactions.commit()
    assert again is call
    assert model.seen(again) is None
    model.transactions.begin()


def test_an_abort_overtakes_a_preparation() -> None:
    model = TransactionModel()
    (future,) = model.begin(b"v")
    prepared = model.transactions.prepare()
    aborted = model.transactions.abort()
    model.poll()
    assert future.exception(0) is not None
    assert prepared.error is not None
    assert model.seen(aborted) is None
    assert model.state == "READY"


def test_a_commit_whose_failure_nobody_waited_for_can_be_aborted() -> None:
    model = TransactionModel()
    model.begin(b"v")
    call = model.transactions.commit()
    model.transactions.batch_failed(TransactionAbortableError())
    assert isinstance(call.error, TransactionAbortableError)
    assert call.error.abortable
    aborted = model.transactions.abort()
    model.poll()
    assert model.seen(aborted) is None


@pytest.mark.parametrize("reached", [False, True])
@pytest.mark.parametrize(
    "call", [TransactionCall.INIT, TransactionCall.COMMIT, TransactionCall.ABORT, TransactionCall.PREPARE]
)
def test_a_call_that_was_interrupted_before_it_waited_may_be_made_again(
    call: TransactionCall, reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C can come at any moment: before the new state is reached, and after."""
    model = TransactionModel(initialized=call is not TransactionCall.INIT)
    if call is not TransactionCall.INIT:
        model.begin(b"v")
    interrupted: list[bool] = []

    def interrupt(*_: object) -> None:
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt

    table = SimpleNamespace(next_state=interrupt, allows=STATES.allows)
    with monkeypatch.context() as patch:
        if reached:
            patch.setattr(model.transactions, "_on_open", interrupt)
        else:
            patch.setattr("kclient.producer.transactions.manager.STATES", table)
        with pytest.raises(KeyboardInterrupt):
            CALLS[call](model.transactions)
    pending = CALLS[call](model.transactions)
    assert isinstance(pending, PendingCall)
    model.deliver()
    assert model.seen(pending) is None
