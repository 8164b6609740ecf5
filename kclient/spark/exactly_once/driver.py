"""The driver's part: decide a batch and complete it, or abort it. Pure Kafka: knows nothing of Spark.

The decision is a compare-and-set. The driver's producer takes its id, which fences every other, and only then reads the
last decision; if anybody decides after that, he has taken the id before, and the transaction of this one fails. Then it
takes the id anew and looks again. That happens in health, too, as Spark may run `commit` in another process each time.
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
from kclient.spark.exactly_once.settings import Settings, Written
from kclient.types import ConsumerGroupMetadata

_TAKEN = (ProducerFencedError, InvalidProducerEpochError, InvalidPidMappingError)
"""Another has the driver's id now, or it was not used for so long that it expired."""

MOST_TRIES = 5
"""How often the driver takes its id anew when it is fenced in the middle of a decision."""

_log = logging.getLogger(__name__)


def commit(settings: Settings, batch: int, written: Sequence[Written], clients: Clients = CLIENTS) -> None:
    """Make a batch count, all of it, once: decide it, and complete its transactions. When it returns, that is done.

    Parameters:
        written: what each task returned.
        clients: of this process.

    Raises:
        TransactionExpiredError: a task's transaction is not open any more; nothing of the batch counts.
        TransactionLostError: the batch is decided, and some rows are lost.
        NotRepeatableError: it is, and what is written in their place are not the same rows.
        RivalError, SupersededError, OldCheckpointError: another run of the query writes, or has written.
        KafkaError: it is not known what became of the batch; `abort` finds out.
    """
    if not written:
        return
    admin = clients.admin(settings)
    is_first = clients.is_first(settings, written[0].place.run)
    if is_first:
        # What the process keeps may be of the run before; the new one's first commit fences all others.
        clients.forget_driver(settings)
    # What is left open by a run that died, or by an attempt that does not count.
    sweeps = is_first or any(one.place.attempt or not one.is_alone for one in written)
    for _ in range(MOST_TRIES):
        try:
            last = _decide(settings, batch, written, clients, fences=sweeps)
        except _TAKEN:
            clients.forget_driver(settings)
            continue
        except BaseException:
            # What its producer was doing may not have come to an end.
            clients.forget_driver(settings)
            raise
        if last is not None and last.batch == batch:
            commit_all(admin, settings, last)
        if sweeps:
            sweep(admin, settings, batch, last)
        return
    raise SupersededError(
        f"batch {batch} is not committed: the transactional id {settings.driver_id!r} was taken by others {MOST_TRIES} "
        "times in a row. Let a checkpoint, and a copy of it, be used by one running query"
    )


def abort(settings: Settings, batch: int, written: Sequence[Written | None], clients: Clients = CLIENTS) -> None:
    """Give a batch up, unless it is decided: then finish it. Spark calls this also when `commit` failed half-way.

    Parameters:
        written: what the tasks returned; None for those that failed, which aborted their transactions themselves.
        clients: of this process.

    Raises:
        KafkaError: it is not known whether all is ended; the next run, or the timeouts, will do that.
    """
    admin = clients.admin(settings)
    clients.forget_driver(settings)
    # What `commit` was doing comes to its end first, one way or the other, and none that still runs can decide after.
    admin.fence_producers(settings.driver_id)
    decision = read_decision(admin, settings)
    kept = set()
    if decision is not None and decision.batch == batch:
        kept = {entry.prepared(settings, batch) for entry in decision.entries}
    try:
        # What counts comes first: readers wait for it, and it is lost if it takes too long.
        if decision is not None and kept:
            commit_all(admin, settings, decision)
    finally:
        abort_each(admin, [one.prepared for one in written if one and one.prepared and one.prepared not in kept])


def _decide(
    settings: Settings, batch: int, written: Sequence[Written], clients: Clients, *, fences: bool
) -> Decision | None:
    """Decide, or find that it is decided: the last decision now, which is the batch's unless nothing was written.

    Of a stream's batches without rows only the first is decided: where a later run finds no decision, one is missing.

    Parameters:
        fences: keep other drivers from deciding even if there is nothing to decide.
    """
    admin = clients.admin(settings)
    run = written[0].place.run
    wrote = [one for one in written if one.prepared is not None]
    # Where nothing is decided nobody has to be fenced, so that most batches without rows cost one request.
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
            f"and {settings.decision_topic!r} has {partitions}. Name a topic that has them with the option "
            "decisionTopic, or write in fewer tasks (coalesce)"
        )
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        offsets(decision, settings.decision_topic), ConsumerGroupMetadata(settings.group)
    )
    producer.commit_transaction()
    if last is None and batch and wrote:
        _warn_of_none(settings, batch)
    return decision


def _entry(one: Written) -> Entry:
    assert one.prepared is not None
    return Entry(one.place.partition, one.lane, one.prepared.producer_id, one.prepared.epoch)


def _amended(settings: Settings, last: Decision, written: Sequence[Written]) -> Decision:
    """The decision with what tasks wrote anew in the place of what they had lost.

    Raises:
        RivalError: tasks wrote, though they had lost nothing.
        NotRepeatableError: what was written anew are not the rows that were lost.
        OldCheckpointError: the batch has other rows than when it was decided.
    """
    entries = {entry.partition: entry for entry in last.entries}
    for one in written:
        if one.prepared is None:
            continue
        entry = entries.get(one.place.partition)
        if one.replaces is None or entry is None or entry.prepared(settings, last.batch) != one.replaces:
            if entry == _entry(one):
                continue
            raise RivalError(
                f"batch {last.batch} was decided by another run of the query while this one was writing it, which is "
                "aborted. Start the query again; let a checkpoint, and a copy of it, be used by one running query"
            )
        if len(written) != last.tasks:
            raise NotRepeatableError(
                f"batch {last.batch} had {last.tasks} tasks when it was decided, and has {len(written)} now: what is "
                "missing of it cannot be written anew by tasks, although repeatableInput=true"
            )
        entries[one.place.partition] = _entry(one)
    _check_rows(settings, last, written)
    return msgspec.structs.replace(last, entries=tuple(sorted(entries.values())))


def _check_rows(settings: Settings, last: Decision, written: Sequence[Written]) -> None:
    """See that a decided batch has as many rows as then: with another number it is not the batch that was decided."""
    rows = sum(one.rows for one in written)
    if rows == last.rows or settings.repeatable is False:
        return
    found = f"batch {last.batch} had {last.rows} rows when it was decided, and has {rows} now"
    if any(one.replaces is not None for one in written):
        raise NotRepeatableError(
            f"{found}: what is missing of it cannot be written anew by tasks, although repeatableInput=true"
        )
    raise OldCheckpointError(
        f"{found}; those it had are written, and no others. Either the checkpoint is a copy, was restored or has lost "
        "files, and the batch was planned anew: with a new checkpointLocation the query begins anew, under another id. "
        "Or the query does not give the same rows for the same input (random values, a table that changes): say so "
        "with repeatableInput=false, and it goes on. For a write that is no stream: its writeId was used for other rows"
    )


def _warn_of_none(settings: Settings, batch: int) -> None:
    _log.warning(
        "batch %d is written, and the group %s had no decision of a batch before. That is right if none of those was "
        "written exactly once. Otherwise this batch may be there twice, if the query died in the middle of it: see "
        "whether transactionalIdPrefix or the cluster was changed, the group or the decision topic was deleted, or "
        "offsets.retention.minutes have passed",
        batch,
        settings.group,
    )


def _finish_former(settings: Settings, last: Decision, clients: Clients) -> None:
    """See, at the first batch of a run, that the one before is complete, as it is when Spark goes on after it.

    Its ids may have expired by now; so only what is known to be lost is an error. Where batches without rows lie
    between, Spark has gone on long ago.
    """
    admin = clients.admin(settings)
    try:
        commit_all(admin, settings, last)
    except TransactionLostError as error:
        known = {entry.prepared(settings, last.batch).transactional_id: entry for entry in last.entries}
        if any(is_aborted(admin, known[name].prepared(settings, last.batch)) for _, name in error.tasks):
            raise
