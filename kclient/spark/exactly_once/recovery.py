"""Ends the transactions of tasks: commits those of a decided batch, and fences others of its parity, which aborts them.

Committing a committed transaction has no effect, so a recovery simply commits all of them.
`kclient.admin.prepared_transactions` explains the coordinator's errors if that is too late; this module says what they
mean for the batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from kclient import Admin
from kclient.admin import TransactionDescription, TransactionState
from kclient.errors import (
    AdminError,
    InvalidPidMappingError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
    TransactionalIdNotFoundError,
)
from kclient.spark.clock import time_ms
from kclient.spark.exactly_once.decision import Decision, Entry, read_decision
from kclient.spark.exactly_once.errors import SupersededError, TransactionExpiredError, TransactionLostError
from kclient.spark.exactly_once.settings import Settings, TaskAttempt
from kclient.types import PreparedTransaction

MOST_AT_ONCE = 16
"""Transactions that are ended concurrently; for each, the coordinator writes to its log."""

MARGIN = 0.1
LONGEST_MARGIN_MS = 10_000
"""The part of a transaction's timeout that must remain when its batch is decided: a tenth, but at most this."""

_TOO_LATE = (InvalidTxnStateError, ProducerFencedError, InvalidPidMappingError)
_ABORTED = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
_USABLE = (TransactionState.ONGOING, TransactionState.EMPTY)
"""States in which the producer with the id can write, because its transaction is open or can be opened."""

_log = logging.getLogger(__name__)


def commit_all(admin: Admin, settings: Settings, decision: Decision, entries: Iterable[Entry] | None = None) -> None:
    """Commit transactions of a decided batch; an error of one does not prevent the others.

    Raises:
        TransactionLostError: some can no longer be committed.
        SupersededError: a later run has continued the query.
        KafkaError: the outcome of some is unknown; call this again.
    """
    chosen = decision.entries if entries is None else tuple(entries)
    prepared = [entry.prepared(settings, decision.batch) for entry in chosen]
    failed = _each(lambda one: admin.complete_transaction(one, commit=True), prepared)
    unknown = [error for error in failed.values() if not isinstance(error, _TOO_LATE)]
    if unknown:
        raise unknown[0]
    if not failed:
        return
    now = read_decision(admin, settings)
    if now is not None and now.batch > decision.batch:
        raise SupersededError(
            f"another run of the query has completed batch {decision.batch} and decided batch {now.batch}"
        )
    lost = [(chosen[index].partition, prepared[index].transactional_id) for index in failed]
    raise TransactionLostError(decision.batch, lost, str(next(iter(failed.values()))))


def abort_each(admin: Admin, transactions: Iterable[PreparedTransaction]) -> None:
    """Abort exactly these transactions if they are open; later transactions with the same ids are not affected.

    Raises:
        KafkaError: the outcome of one is unknown; its timeout aborts it.
    """
    failed = _each(lambda one: admin.complete_transaction(one, commit=False), list(transactions))
    unknown = [error for error in failed.values() if not isinstance(error, _TOO_LATE)]
    if unknown:
        raise unknown[0]


def is_aborted(admin: Admin, prepared: PreparedTransaction) -> bool:
    """Return whether a transaction is known to be aborted; False if it was committed or the outcome is unknown.

    A requested abort increments the epoch from transaction.version 2 on, an abort by timeout always. No other batch
    uses the transactional id before a later batch is decided, so a higher epoch has no other cause.
    """
    found = _describe(admin, [prepared.transactional_id]).get(prepared.transactional_id)
    return (
        found is not None
        and found.state in _ABORTED
        and found.producer_id == prepared.producer_id
        and found.producer_epoch in (prepared.epoch, prepared.epoch + 1)
    )


def check_open(admin: Admin, settings: Settings, batch: int, entries: Iterable[Entry]) -> None:
    """Check that each transaction is open, and stays open long enough to complete it.

    Raises:
        TransactionExpiredError: some are not.
    """
    wanted = {(prepared := entry.prepared(settings, batch)).transactional_id: (entry, prepared) for entry in entries}
    found = _describe(admin, wanted)
    now = time_ms()
    gone, reason = [], ""
    for name, (entry, prepared) in wanted.items():
        wrong = _what_is_wrong(prepared, found.get(name), now)
        if wrong:
            gone.append((entry.partition, name))
            reason = reason or wrong
    if gone:
        raise TransactionExpiredError(batch, gone, reason)


def _what_is_wrong(prepared: PreparedTransaction, found: TransactionDescription | None, now: int) -> str:
    if found is None:
        return "its coordinator does not know the transactional id"
    if (found.producer_id, found.producer_epoch) != (prepared.producer_id, prepared.epoch) or (
        found.state is not TransactionState.ONGOING
    ):
        return (
            f"the transactional id is in state {found.state.value} with producer id {found.producer_id}, epoch "
            f"{found.producer_epoch}, and the task had producer id {prepared.producer_id}, epoch {prepared.epoch}; the "
            f"timeout is {found.timeout_ms} ms"
        )
    # The start uses the coordinator's clock, so this is only a precaution; a miss is detected at completion.
    left = (found.start_timestamp or 0) + found.timeout_ms - now
    if left < min(LONGEST_MARGIN_MS, found.timeout_ms * MARGIN):
        return f"{max(0, left):.0f} ms are left of its timeout of {found.timeout_ms} ms"
    return ""


def open_lane(admin: Admin, settings: Settings, task: TaskAttempt, kept: Entry | None = None) -> tuple[int, bool]:
    """Return the first lane without an open transaction, beginning with that of the attempt.

    An open transaction may belong to an attempt that is about to be decided, and init_transactions would abort it.

    Parameters:
        kept: the task's transaction in a decided batch of the same parity, whose lane must not be used.

    Returns:
        The lane, and whether an earlier lane has an open transaction.
    """
    first, count = task.attempt, 1
    another_is_open = False
    while True:
        lanes = {
            settings.task_id(task.batch, task.partition, lane): lane
            for lane in range(first, first + count)
            if kept is None or lane != kept.lane
        }
        found = _describe(admin, lanes)
        for name, lane in lanes.items():
            if name not in found or found[name].state is not TransactionState.ONGOING:
                return lane, another_is_open
            another_is_open = True
        # Each attempt that died before its batch was decided uses a lane; few requests find a free one.
        first, count = first + count, count * 2


def sweep(admin: Admin, settings: Settings, batch: int, decision: Decision | None) -> None:
    """Fence stale attempts of a completed batch, which aborts their open transactions.

    An open transaction blocks readers of committed records. Aborting it is not enough: before transaction.version 2,
    an abort does not change the epoch, so a running attempt or a late request of it would open another transaction.
    With any version, so would an attempt that has its producer id and has not written yet, whose transactional id is in
    the state Empty.

    Only ids with the parity of the batch are fenced, because another run may already use those of the next batch. If
    another run has decided since, it may use those of the batch after that too, and none is fenced. Errors are logged,
    because the batch is written; timeouts end the transactions.

    Parameters:
        decision: the last decision, which is that of the batch if it had rows. Its transactions are not fenced.
    """
    kept = set() if decision is None else {entry.prepared(settings, decision.batch) for entry in decision.entries}
    try:
        listed = admin.list_transactions(states=_USABLE)
        names = [name for name in listed if settings.is_task_of(name, batch)]
        stale = [
            each.transactional_id
            for each in _describe(admin, names).values()
            if each.state in _USABLE
            and PreparedTransaction(each.transactional_id, each.producer_id, each.producer_epoch) not in kept
        ]
        # Read the decision after the transactions: if it is unchanged, none of them belongs to a batch that follows
        # another decision.
        if stale and read_decision(admin, settings) == decision:
            admin.fence_producers(stale)
    except KafkaError as error:
        _log.warning(
            "stale transactions of batch %d of %s may block readers of committed records until their timeout: %s",
            batch,
            settings.group,
            error,
        )


def _describe(admin: Admin, names: Iterable[str]) -> dict[str, TransactionDescription]:
    """Return the descriptions of ids; those that no coordinator knows are omitted."""
    asked = list(names)
    if not asked:
        return {}
    try:
        return admin.describe_transactions(asked)
    except AdminError as error:
        for one in error.errors.values():
            if not isinstance(one, TransactionalIdNotFoundError):
                raise one from None
        return dict(error.results)


def _each(
    call: Callable[[PreparedTransaction], None], transactions: list[PreparedTransaction]
) -> dict[int, KafkaError]:
    """Call the function for each transaction, several concurrently; return the errors by index."""

    def attempt(one: PreparedTransaction) -> KafkaError | None:
        try:
            call(one)
        except KafkaError as error:
            return error
        return None

    if len(transactions) < 2:
        outcomes = [attempt(one) for one in transactions]
    else:
        with ThreadPoolExecutor(min(MOST_AT_ONCE, len(transactions))) as pool:
            outcomes = list(pool.map(attempt, transactions))
    return {index: error for index, error in enumerate(outcomes) if error is not None}
