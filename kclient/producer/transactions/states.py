"""The states of a transactional producer: which follow each other, and which calls each of them allows.

The two tables are all there is to know; the diagram in the documentation is drawn from them. Leaves out what is
done in a state (`manager`) and which errors lead where (`outcomes`).
"""

from __future__ import annotations

import enum

from kclient.errors import IllegalStateError


class TransactionState(enum.Enum):
    """Where the producer stands; see TRANSITIONS.

    PREPARED means that the transaction was handed over. After ABORTABLE_ERROR only an abort leads on, and after
    FATAL_ERROR nothing does.
    """

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    PREPARING = "preparing"
    PREPARED = "prepared"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


S = TransactionState

TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    S.UNINITIALIZED: frozenset({S.INITIALIZING, S.FATAL_ERROR}),
    S.INITIALIZING: frozenset({S.READY, S.UNINITIALIZED, S.FATAL_ERROR}),
    S.READY: frozenset({S.IN_TRANSACTION, S.FATAL_ERROR}),
    S.IN_TRANSACTION: frozenset({S.PREPARING, S.COMMITTING, S.ABORTING, S.ABORTABLE_ERROR, S.FATAL_ERROR}),
    S.PREPARING: frozenset({S.PREPARED, S.ABORTING, S.ABORTABLE_ERROR, S.FATAL_ERROR}),
    S.PREPARED: frozenset({S.INITIALIZING, S.FATAL_ERROR}),
    S.COMMITTING: frozenset({S.READY, S.INITIALIZING, S.ABORTABLE_ERROR, S.FATAL_ERROR}),
    S.ABORTING: frozenset({S.READY, S.INITIALIZING, S.FATAL_ERROR}),
    S.ABORTABLE_ERROR: frozenset({S.ABORTING, S.FATAL_ERROR}),
    S.FATAL_ERROR: frozenset(),
}
"""INITIALIZING goes back to UNINITIALIZED when the broker refuses the id, and may be tried again; COMMITTING and
ABORTING go through INITIALIZING where the producer has to ask for its next epoch."""


class TransactionCall(enum.Enum):
    """What an application asks of the producer; the value is the name of the method."""

    INIT = "init_transactions"
    BEGIN = "begin_transaction"
    SEND = "send"
    SEND_OFFSETS = "send_offsets_to_transaction"
    PREPARE = "prepare_transaction"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"


ALLOWED: dict[TransactionCall, frozenset[TransactionState]] = {
    TransactionCall.INIT: frozenset({S.UNINITIALIZED, S.PREPARED}),
    TransactionCall.BEGIN: frozenset({S.READY}),
    TransactionCall.SEND: frozenset({S.IN_TRANSACTION}),
    TransactionCall.SEND_OFFSETS: frozenset({S.IN_TRANSACTION}),
    TransactionCall.PREPARE: frozenset({S.IN_TRANSACTION}),
    TransactionCall.COMMIT: frozenset({S.IN_TRANSACTION}),
    TransactionCall.ABORT: frozenset({S.IN_TRANSACTION, S.PREPARING, S.ABORTABLE_ERROR}),
}
"""In which states a call may be made. A call that timed out may be repeated besides, to wait for its result; and in
the two error states every other call raises the error itself."""

_ADVICE: dict[TransactionState, str] = {
    S.UNINITIALIZED: "call init_transactions() first",
    S.INITIALIZING: "init_transactions() has not ended yet: call it again to wait for it",
    S.READY: "call begin_transaction() first",
    S.IN_TRANSACTION: "commit or abort the open transaction first",
    S.PREPARING: "prepare_transaction() has not ended yet: call it again to wait for it, or abort",
    S.PREPARED: (
        "the transaction was handed over and is ended by Admin.complete_transaction(); once it is, "
        "init_transactions() makes the producer ready for the next one"
    ),
    S.COMMITTING: "commit_transaction() has not ended yet: call it again to wait for it",
    S.ABORTING: "abort_transaction() has not ended yet: call it again to wait for it",
}


def check_transition(before: TransactionState, after: TransactionState) -> None:
    """Raise unless the table has this transition.

    Raises:
        IllegalStateError: it does not.
    """
    if after not in TRANSITIONS[before]:
        raise IllegalStateError(f"a transactional producer cannot go from {before.value!r} to {after.value!r}")


def unrepeated_call(call: TransactionCall, before: TransactionCall, transactional_id: str) -> IllegalStateError:
    """The error of a call that comes before the result of another one, which ended after it timed out, was taken."""
    return IllegalStateError(
        f"{call.value}() is not allowed yet: {before.value}() of the producer {transactional_id!r} was given up before "
        f"its result was known, and has succeeded meanwhile: call {before.value}() again to learn of it"
    )


def illegal_call(call: TransactionCall, state: TransactionState, transactional_id: str) -> IllegalStateError:
    """The error of a call that a state does not allow: what, in which state, and what to do."""
    text = f"{call.value}() is not allowed while the producer {transactional_id!r} is in the state {state.value!r}"
    advice = _ADVICE.get(state)
    if call is TransactionCall.INIT and state is not S.INITIALIZING:
        advice = "it is called once, before the first transaction"
    return IllegalStateError(f"{text}: {advice}" if advice else text)
