"""The states of a transactional producer, their transitions, and the calls that each allows.

The diagram in the documentation is drawn from the table. Elsewhere: the work in a state (`manager`) and the effects of
errors (`outcomes`).
"""

from __future__ import annotations

import enum

from kclient.errors import IllegalStateError
from kclient.state_machine import StateTable


class TransactionState(enum.Enum):
    """The state of the producer; see STATES.

    PREPARED means that another client ends the transaction. ABORTABLE_ERROR allows only an abort, FATAL_ERROR nothing.
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


class TransactionCall(enum.Enum):
    """The transactional calls of an application; the value is the name of the method."""

    INIT = "init_transactions"
    BEGIN = "begin_transaction"
    SEND = "send"
    SEND_OFFSETS = "send_offsets_to_transaction"
    PREPARE = "prepare_transaction"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"


class TransactionEvent(enum.Enum):
    """The events of a transaction other than the application's calls."""

    INITIALIZED = "initialized"
    REFUSED = "refused"
    HANDED_OVER = "handed over"
    ENDED = "ended"
    ENDED_WITHOUT_EPOCH = "ended without an epoch"
    FAIL = "fail"
    FAIL_FATALLY = "fail fatally"


C = TransactionCall
E = TransactionEvent

_FATAL: dict[TransactionCall | TransactionEvent, TransactionState] = {E.FAIL_FATALLY: S.FATAL_ERROR}

STATES: StateTable[TransactionState, TransactionCall | TransactionEvent] = StateTable(
    "transactional producer",
    {
        S.UNINITIALIZED: {C.INIT: S.INITIALIZING, **_FATAL},
        S.INITIALIZING: {E.INITIALIZED: S.READY, E.REFUSED: S.UNINITIALIZED, **_FATAL},
        S.READY: {C.BEGIN: S.IN_TRANSACTION, **_FATAL},
        S.IN_TRANSACTION: {
            C.SEND: S.IN_TRANSACTION,
            C.SEND_OFFSETS: S.IN_TRANSACTION,
            C.PREPARE: S.PREPARING,
            C.COMMIT: S.COMMITTING,
            C.ABORT: S.ABORTING,
            E.FAIL: S.ABORTABLE_ERROR,
            **_FATAL,
        },
        S.PREPARING: {E.HANDED_OVER: S.PREPARED, C.ABORT: S.ABORTING, E.FAIL: S.ABORTABLE_ERROR, **_FATAL},
        S.PREPARED: {C.INIT: S.INITIALIZING, **_FATAL},
        S.COMMITTING: {
            E.ENDED: S.READY,
            E.ENDED_WITHOUT_EPOCH: S.INITIALIZING,
            E.FAIL: S.ABORTABLE_ERROR,
            **_FATAL,
        },
        S.ABORTING: {E.ENDED: S.READY, E.ENDED_WITHOUT_EPOCH: S.INITIALIZING, **_FATAL},
        S.ABORTABLE_ERROR: {C.ABORT: S.ABORTING, **_FATAL},
        S.FATAL_ERROR: {},
    },
)
"""INITIALIZING returns to UNINITIALIZED when the broker refuses the id, and may be repeated; COMMITTING and ABORTING
pass through INITIALIZING if the producer has to request its next epoch. A call that timed out may also be repeated, to
wait for its result. In the two error states every other call raises the error itself.
"""

_ADVICE: dict[TransactionState, str] = {
    S.UNINITIALIZED: "call init_transactions() first",
    S.INITIALIZING: "init_transactions() has not ended yet: call it again to wait for it",
    S.READY: "call begin_transaction() first",
    S.IN_TRANSACTION: "commit or abort the open transaction first",
    S.PREPARING: "prepare_transaction() has not ended yet: call it again to wait for it, or abort",
    S.PREPARED: (
        "the transaction is prepared and is ended by Admin.complete_transaction(); then "
        "init_transactions() makes the producer ready for the next one"
    ),
    S.COMMITTING: "commit_transaction() has not ended yet: call it again to wait for it",
    S.ABORTING: "abort_transaction() has not ended yet: call it again to wait for it",
}


def unrepeated_call(call: TransactionCall, before: TransactionCall, transactional_id: str) -> IllegalStateError:
    """Return the error of a call made before the result of an earlier one, which ended after its timeout, was
    returned.
    """
    return IllegalStateError(
        f"{call.value}() is not allowed yet: {before.value}() of the producer {transactional_id!r} timed out and "
        f"has succeeded in the meantime: call {before.value}() again to receive its result"
    )


def illegal_call(call: TransactionCall, state: TransactionState, transactional_id: str) -> IllegalStateError:
    """Return the error of a call that a state does not allow: the call, the state, and what to do."""
    text = f"{call.value}() is not allowed while the producer {transactional_id!r} is in the state {state.value!r}"
    advice = _ADVICE.get(state)
    if call is TransactionCall.INIT and state is not S.INITIALIZING:
        advice = "call it once, before the first transaction"
    return IllegalStateError(f"{text}: {advice}" if advice else text)
