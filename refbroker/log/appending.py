"""The steps of an append: assigning offsets, checking producers, and updating their state.

Elsewhere: `validation` checks the batches themselves; `producer_state` keeps the state of producers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kclient.errors import OffsetOutOfRangeError
from kclient.records import BatchHeader
from refbroker.log.producer_loading import read_marker, replay_batch
from refbroker.log.producer_state import ProducerStates
from refbroker.log.segment import Segment
from refbroker.log.validation import Origin, StampedBatch, Stamper, keep_offsets
from refbroker.log.verification import Verified


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The result of an append.

    Attributes:
        base_offset, last_offset: the offsets of the first and last record.
        log_append_time_ms: the broker's timestamp, -1 with CreateTime.
        log_start_offset: the log start offset.
        duplicate: whether the batch was stored before, at these offsets, so that nothing was written.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


def find_duplicate(producers: ProducerStates, header: BatchHeader, log_start_offset: int) -> AppendResult | None:
    """Return where a batch of an idempotent producer is stored already, None if the batch is new."""
    stored = producers.find_duplicate(header) if header.has_producer_id else None
    if stored is None:
        return None
    return AppendResult(stored.first_offset, stored.last_offset, stored.timestamp, log_start_offset, duplicate=True)


def stamp_batches(headers: Sequence[BatchHeader], origin: Origin, offset: int, stamper: Stamper) -> list[StampedBatch]:
    """Return the batches with the offsets they get in the log, from `offset` on; replicated batches keep their own.

    Raises:
        OffsetOutOfRangeError: the offset of a replicated batch is before `offset`.
    """
    batches = []
    for header in headers:
        if origin is Origin.REPLICATION:
            batch = keep_offsets(header)
            if batch.base_offset < offset:
                raise OffsetOutOfRangeError(
                    f"The batch to be replicated has offset {batch.base_offset}, the log ends at {offset} already",
                    topic=stamper.topic,
                    partition=stamper.partition,
                )
        else:
            batch = stamper.stamp(header, offset)
        batches.append(batch)
        offset = batch.last_offset + 1
    return batches


def check_producers(
    producers: ProducerStates,
    batches: Sequence[StampedBatch],
    origin: Origin,
    *,
    verified: Verified,
    transaction_version: int,
) -> None:
    """Check that the producers of batches may append them.

    Parameters:
        verified: why the first batch of a transaction may be appended; see `verification`.
        transaction_version: the version of the transactions that markers end.

    Raises:
        OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError, TransactionCoordinatorFencedError:
            see `producer_state`.
    """
    for batch in batches:
        header = batch.header
        if not header.has_producer_id:
            continue
        if header.is_control:
            marker = read_marker(header.raw)
            if marker is not None:
                producers.check_marker(header, marker, batch.base_offset, transaction_version)
            continue
        producers.check(header, batch.base_offset, sequences=origin is Origin.CLIENT, verified=verified)


def update_producers(
    producers: ProducerStates, batches: Sequence[StampedBatch], segment: Segment, position: int
) -> None:
    """Update the producer states with batches that have been written.

    Parameters:
        segment, position: where the first batch starts.
    """
    for batch in batches:
        header = batch.header
        if header.has_producer_id:
            if header.is_control:
                stored = next(segment.headers(position, position + batch.size))
                aborted = replay_batch(producers, segment, stored)
                if aborted is not None:
                    segment.transaction_index.append(aborted)
            else:
                producers.update(header, batch.base_offset, batch.last_offset, batch.max_timestamp)
        position += batch.size
    if batches:
        producers.end_offset = batches[-1].last_offset + 1
