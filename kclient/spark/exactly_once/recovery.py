"""Ends tasks' transactions: those of a decided batch are committed, all others of its parity fenced and so aborted.

To commit again what is committed is harmless, so a recovery asks nothing first and simply commits all. What the
coordinator says when that is too late is explained in `kclient.admin.prepared_transactions`; here it is turned into
what it means for the batch.
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
from kclient.spark.exactly_once.settings import Place, Settings
from kclient.types import PreparedTransaction

MOST_AT_ONCE = 16
"""Transactions that are ended at the same time: each is a request that its coordinator writes to its log."""

MARGIN = 0.1
LONGEST_MARGIN_MS = 10_000
"""What must be left of a transaction's timeout when its batch is decided: a tenth, but not more than this."""

_TOO_LATE = (InvalidTxnStateError, ProducerFencedError, InvalidPidMappingError)
_ABORTED = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
_USABLE = (TransactionState.ONGOING, TransactionState.EMPTY)
"""The states in which the producer that has the id can write: its transaction is open, or it may open its first one."""

_log = logging.getLogger(__name__)


def commit_all(admin: Admin, settings: Settings, decision: Decision, entries: Iterable[Entry] | None = None) -> None:
    """Commit the transactions of a decided batch, or some of them; all that can be are, whatever becomes of others.

    Raises:
        TransactionLostError: some cannot be committed any more.
        SupersededError: a later run has gone on with the query.
        KafkaError: it is not known whether some are committed; doing it again helps.
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
            f"batch {decision.batch} is finished by another run of the query, which is at batch {now.batch}"
        )
    lost = [(chosen[index].partition, prepared[index].transactional_id) for index in failed]
    raise TransactionLostError(decision.batch, lost, str(next(iter(failed.values()))))


def abort_each(admin: Admin, transactions: Iterable[PreparedTransaction]) -> None:
    """Abort these very transactions, as far as they are open: whoever uses an id now is left alone.

    Raises:
        KafkaError: it is not known whether one is aborted; its timeout will do that.
    """
    failed = _each(lambda one: admin.complete_transaction(one, commit=False), list(transactions))
    unknown = [error for error in failed.values() if not isinstance(error, _TOO_LATE)]
    if unknown:
        raise unknown[0]


def is_aborted(admin: Admin, prepared: PreparedTransaction) -> bool:
    """Whether a transaction is known to have been aborted, as against committed, or nobody knows.

    An abort that was asked for raises the epoch from version 2 of transactions on, one by timeout always. An id is not
    used for another batch before that one is decided.
    """
    found = _describe(admin, [prepared.transactional_id]).get(prepared.transactional_id)
    return (
        found is not None
        and found.state in _ABORTED
        and found.producer_id == prepared.producer_id
        and found.producer_epoch in (prepared.epoch, prepared.epoch + 1)
    )


def check_open(admin: Admin, settings: Settings, batch: int, entries: Iterable[Entry]) -> None:
    """See that each transaction is open, and will be for as long as it takes to complete it.

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
            f"the id is {found.state.value} with producer id {found.producer_id}, epoch {found.producer_epoch}, and "
            f"the task had {prepared.producer_id}, {prepared.epoch}; the timeout is {found.timeout_ms} ms"
        )
    # The start is by the coordinator's clock, so this is no more than a precaution: what it misses is told when it is
    # completed.
    left = (found.start_timestamp or 0) + found.timeout_ms - now
    if left < min(LONGEST_MARGIN_MS, found.timeout_ms * MARGIN):
        return f"{max(0, left):.0f} ms are left of its timeout of {found.timeout_ms} ms"
    return ""


def open_lane(admin: Admin, settings: Settings, place: Place, kept: Entry | None = None) -> tuple[int, bool]:
    """The first lane on which a task can write, from that of its attempt on: one on which no transaction is open.

    What is open on the others may be that of an attempt that is about to be decided, and init_transactions would abort
    it.

    Parameters:
        kept: the task's transaction in a decided batch of the same parity, whose lane is left as it is.

    Returns:
        The lane, and whether nothing was open on those before it.
    """
    first, count = place.attempt, 1
    is_alone = True
    while True:
        lanes = {
            settings.task_id(place.batch, place.partition, lane): lane
            for lane in range(first, first + count)
            if kept is None or lane != kept.lane
        }
        found = _describe(admin, lanes)
        for name, lane in lanes.items():
            if name not in found or found[name].state is not TransactionState.ONGOING:
                return lane, is_alone
            is_alone = False
        # Attempts that died before their batch was decided left each theirs: few requests find the end of many.
        first, count = first + count, count * 2


def sweep(admin: Admin, settings: Settings, batch: int, decision: Decision | None) -> None:
    """Fence the stale attempts of a batch that is done, which aborts the transactions that they left open.

    An open transaction holds up readers of committed records. To abort it is not enough: with version 1 of transactions
    an abort leaves the epoch as it is, so an attempt that is still running, or a request of it that arrives late, would
    open the next transaction. So would, with any version, an attempt that has its producer id and has written nothing
    yet, whose transactional id is Empty.

    Only ids with the parity of the batch are fenced: those of the next batch may be in use by another run already.
    Where another run has decided since, so may be those of the batch after that, and all are left alone. Errors are
    logged, for the batch is written; the transactions' timeouts do the rest.

    Parameters:
        decision: the last one, which is the batch's if that had rows. Its transactions are left alone, open or not.
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
        # The decision is read after the transactions: those of a batch that follows another decision are not among them
        # while it still stands.
        if stale and read_decision(admin, settings) == decision:
            admin.fence_producers(stale)
    except KafkaError as error:
        _log.warning(
            "stale attempts of batch %d of %s may hold up readers of committed records until their timeout: %s",
            batch,
            settings.group,
            error,
        )


def _describe(admin: Admin, names: Iterable[str]) -> dict[str, TransactionDescription]:
    """What is known of ids; those that no coordinator knows are left out."""
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
    """Call for each, several at a time; the errors by index."""

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
