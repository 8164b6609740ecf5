"""The driver's part: decide a batch and complete it, or abort it. Kafka only: independent of Spark.

A decision is a compare-and-set. The driver's producer first takes the transactional id, which fences every other
driver, and then reads the last decision. If another driver decides after that, it has taken the id, and the transaction
of this one fails; then this one takes the id again and checks again. That also happens normally, because Spark may run
`commit` in another process each time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from kclient.errors import InvalidPidMappingError, InvalidProducerEpochError, ProducerFencedError
from kclient.spark.exactly_once.clients import CLIENTS, Clients
from kclient.spark.exactly_once.decision import Decision, Entry, encode, following, offsets, read_decision
from kclient.spark.exactly_once.errors import (
    ExactlyOnceError,
    NotRepeatableError,
    OldCheckpointError,
    RivalError,
    SupersededError,
    TransactionLostError,
)
from kclient.spark.exactly_once.recovery import abort_each, check_open, commit_all, is_aborted, sweep
from kclient.spark.exactly_once.settings import Settings, TaskResult
from kclient.types import ConsumerGroupMetadata

_TAKEN = (ProducerFencedError, InvalidProducerEpochError, InvalidPidMappingError)
"""Another driver has the id now, or the id was unused for so long that it expired."""

MOST_TRIES = 5
"""How often the driver takes its id again when it is fenced during a decision."""

_log = logging.getLogger(__name__)


def commit(settings: Settings, batch: int, written: Sequence[TaskResult], clients: Clients = CLIENTS) -> None:
    """Decide a batch once, and complete its transactions before returning.

    Parameters:
        written: the results of the tasks.
        clients: the clients of this process.

    Raises:
        TransactionExpiredError: a task's transaction is no longer open; the batch is not decided.
        TransactionLostError: the batch is decided, and some rows are lost.
        NotRepeatableError: the batch is decided, and the rows that were written to replace lost ones differ.
        RivalError, SupersededError, OldCheckpointError: another run of the query writes, or has written.
        KafkaError: the outcome of the batch is unknown; `abort` determines it.
    """
    if not written:
        return
    admin = clients.admin(settings)
    is_first = clients.is_first(settings, written[0].task.run)
    if is_first:
        # A producer of this process may belong to an earlier run; the first commit of a new run fences all others.
        clients.forget_driver(settings)
    # Transactions that a dead run or a failed attempt left open.
    sweeps = is_first or any(one.task.attempt or one.another_is_open for one in written)
    for _ in range(MOST_TRIES):
        try:
            last = _decide(settings, batch, written, clients, fences=sweeps)
        except _TAKEN:
            clients.forget_driver(settings)
            continue
        except BaseException:
            # The last request of its producer may still be in progress.
            clients.forget_driver(settings)
            raise
        if last is not None and last.batch == batch:
            commit_all(admin, settings, last)
        if sweeps:
            sweep(admin, settings, batch, last)
        return
    raise SupersededError(
        f"batch {batch} is not committed: other producers took the transactional id {settings.driver_id!r} "
        f"{MOST_TRIES} times in a row. Only one running query may use a checkpoint or its copy"
    )


def abort(settings: Settings, batch: int, written: Sequence[TaskResult | None], clients: Clients = CLIENTS) -> None:
    """Abort a batch; if it is decided, complete it. Spark also calls this when `commit` failed half-way.

    Parameters:
        written: the results of the tasks; None for failed ones, which have aborted their transactions.
        clients: the clients of this process.

    Raises:
        KafkaError: not all transactions are known to be ended; the next run or the timeouts end them.
    """
    admin = clients.admin(settings)
    clients.forget_driver(settings)
    # First, a `commit` in progress takes effect or fails; fencing prevents a later one.
    admin.fence_producers(settings.driver_id)
    decision = read_decision(admin, settings)
    kept = set()
    if decision is not None and decision.batch == batch:
        kept = {entry.prepared(settings, batch) for entry in decision.entries}
    try:
        # Complete the decided batch first: readers wait for it, and it is lost if it takes too long.
        if decision is not None and kept:
            commit_all(admin, settings, decision)
    finally:
        abort_each(admin, [one.prepared for one in written if one and one.prepared and one.prepared not in kept])


def _decide(
    settings: Settings, batch: int, written: Sequence[TaskResult], clients: Clients, *, fences: bool
) -> Decision | None:
    """Decide a batch, unless it is decided; return the last decision, which is that of the batch unless nothing was
    written.

    Of the batches without rows, only the first one of a stream is decided, so that a later run without a decision knows
    that one is missing.

    Parameters:
        fences: whether to fence other drivers even if there is nothing to decide.
    """
    admin = clients.admin(settings)
    run = written[0].task.run
    wrote = [one for one in written if one.prepared is not None]
    # Without a decision, no driver has to be fenced, so most batches without rows cost one request.
    producer = clients.driver(settings) if wrote or fences else None
    last = read_decision(admin, settings)
    if last is not None:
        last.check_run(run, batch)
    if last is not None and last.batch == batch:
        decision = _amended(settings, last, written)
    elif not wrote and (last is not None or not settings.is_stream):
        return last
    else:
        if last is not None and last.run != run and last.batch + 1 == batch:
            _finish_former(settings, last, clients)
        rows = sum(one.rows for one in written)
        entries = (_entry(one) for one in wrote)
        decision = following(last, batch, run, tasks=len(written), rows=rows, entries=entries)
    if decision == last or producer is None:
        return last
    check_open(admin, settings, batch, (_entry(one) for one in wrote))
    texts = encode(decision)
    partitions = len(producer.partitions_for(settings.decision_topic)) if len(texts) > 1 else 1
    if len(texts) > partitions:
        raise ExactlyOnceError(
            f"batch {batch} is not committed: the list of its {len(wrote)} transactions needs {len(texts)} partitions, "
            f"and topic {settings.decision_topic!r} has {partitions}. Set decisionTopic to a topic with enough "
            "partitions, or write in fewer tasks (coalesce)"
        )
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        offsets(decision, settings.decision_topic), ConsumerGroupMetadata(settings.group)
    )
    producer.commit_transaction()
    if last is None and batch and wrote:
        _warn_of_none(settings, batch)
    return decision


def _entry(one: TaskResult) -> Entry:
    assert one.prepared is not None
    return Entry(one.task.partition, one.lane, one.prepared.producer_id, one.prepared.epoch)


def _amended(settings: Settings, last: Decision, written: Sequence[TaskResult]) -> Decision:
    """Return the decision with rewritten transactions in place of the lost ones.

    Raises:
        RivalError: tasks wrote rows although none were lost.
        NotRepeatableError: the rewritten rows differ from the lost ones.
        OldCheckpointError: the batch has other rows than at its decision.
    """
    entries = {entry.partition: entry for entry in last.entries}
    for one in written:
        if one.prepared is None:
            continue
        entry = entries.get(one.task.partition)
        if one.replaces is None or entry is None or entry.prepared(settings, last.batch) != one.replaces:
            if entry == _entry(one):
                continue
            raise RivalError(
                f"batch {last.batch} was decided by another run of the query while this run was writing it; the rows "
                "of this run are aborted. Start the query again; only one running query may use a checkpoint or its "
                "copy"
            )
        if len(written) != last.tasks:
            raise NotRepeatableError(
                f"batch {last.batch} had {last.tasks} tasks when it was decided, and has {len(written)} now: its "
                "missing rows cannot be written again by tasks, although repeatableInput=true"
            )
        entries[one.task.partition] = _entry(one)
    _check_rows(settings, last, written)
    return msgspec.structs.replace(last, entries=tuple(sorted(entries.values())))


def _check_rows(settings: Settings, last: Decision, written: Sequence[TaskResult]) -> None:
    """Check that a decided batch still has the same number of rows; otherwise it is another batch."""
    rows = sum(one.rows for one in written)
    if rows == last.rows or settings.repeatable is False:
        return
    found = f"batch {last.batch} had {last.rows} rows when it was decided, and has {rows} now"
    if any(one.replaces is not None for one in written):
        raise NotRepeatableError(
            f"{found}: its missing rows cannot be written again by tasks, although repeatableInput=true"
        )
    raise OldCheckpointError(
        f"{found}; only the decided rows are written. If the checkpoint is a copy, was restored or has lost files, use "
        "a new checkpointLocation, with which the query starts under another id; if the query does not give the same "
        "rows for the same input (random values, a changing table), set repeatableInput=false; if it is a batch write, "
        "use another writeId, because this one was used for other rows"
    )


def _warn_of_none(settings: Settings, batch: int) -> None:
    _log.warning(
        "batch %d is written, and the group %s had no decision of an earlier batch. That is right if none of them was "
        "written exactly once. Otherwise, if the query died within this batch, it may be written twice: check whether "
        "transactionalIdPrefix or the cluster was changed, the group or the decision topic was deleted, or "
        "offsets.retention.minutes have passed",
        batch,
        settings.group,
    )


def _finish_former(settings: Settings, last: Decision, clients: Clients) -> None:
    """Check, at the first batch of a run, that the previous one is complete, as it is if Spark continues after it.

    Its ids may have expired by now, so only a known loss is an error. If there are batches without rows in between,
    Spark has long continued.
    """
    admin = clients.admin(settings)
    try:
        commit_all(admin, settings, last)
    except TransactionLostError as error:
        known = {entry.prepared(settings, last.batch).transactional_id: entry for entry in last.entries}
        if any(is_aborted(admin, known[name].prepared(settings, last.batch)) for _, name in error.tasks):
            raise
