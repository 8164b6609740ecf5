"""A log to compact: appends of every kind, cleaning passes step by step, and the records that remain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from kclient.records import ABORT, COMMIT, BatchBuilder, BatchHeader, control_batch, read_batches
from refbroker.log import AppendResult, LogConfig, Origin, PartitionLog
from refbroker.log.compaction.cleaner import CleanerSettings, CleaningPass
from refbroker.log.compaction.offset_map import BYTES_PER_ENTRY
from refbroker.log.compaction.selection import measure
from refbroker.log.compaction.stats import PassStats
from refbroker.log.compaction.throttle import Throttle
from tests.support.stores import START_MS, Store

DELETE_RETENTION_MS = 1000
COMPACTED = LogConfig(
    segment_bytes=4096,
    index_interval_bytes=100,
    segment_index_bytes=1200,
    cleanup_policy=("compact",),
    delete_retention_ms=DELETE_RETENTION_MS,
    min_cleanable_dirty_ratio=0.0,
    file_delete_delay_ms=100,
)

Pair = tuple[bytes | None, bytes | None]


class Kept(NamedTuple):
    """A data record of the log."""

    offset: int
    key: bytes | None
    value: bytes | None


def put(
    log: PartitionLog,
    *pairs: Pair,
    timestamp: int = START_MS,
    compression: str = "none",
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
    epoch: int = 0,
    now_ms: int | None = None,
) -> AppendResult:
    """Append one batch.

    Parameters:
        producer: id, epoch and first sequence.
    """
    builder = BatchBuilder(compression, max_bytes=1 << 30)
    for number, (key, value) in enumerate(pairs):
        assert builder.append(timestamp + number, key, value, [("number", b"%d" % number)]) == number
    producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
    batch = builder.build(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    # Clients may not send records without a key, and transactions need a coordinator.
    ordinary = not transactional and all(key is not None for key, _ in pairs)
    origin = Origin.CLIENT if ordinary else Origin.COORDINATOR
    return log.append(
        bytes(batch),
        leader_epoch=epoch,
        origin=origin,
        now_ms=timestamp if now_ms is None else now_ms,
        verified=transactional,
    )


def end_transaction(
    log: PartitionLog, producer_id: int, producer_epoch: int, *, commit: bool, timestamp: int = START_MS
) -> AppendResult:
    """Append a transaction marker."""
    marker = control_batch(
        COMMIT if commit else ABORT,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=0,
        timestamp=timestamp,
    )
    return log.append(marker, leader_epoch=0, origin=Origin.COORDINATOR, now_ms=timestamp)


def begin_pass(store: Store, log: PartitionLog, *, keys: int = 1000, io_buffer_size: int = 1000) -> CleaningPass:
    """Begin a cleaning pass over all cleanable segments.

    Parameters:
        keys: the capacity of the offset map.
    """
    settings = CleanerSettings(keys * BYTES_PER_ENTRY, 1.0, io_buffer_size)
    throttle = Throttle(lambda: float("inf"), store.clock)
    return CleaningPass(store.disk, measure(log, store.clock()), settings, throttle, store.clock)


def finish(running: CleaningPass) -> PassStats:
    """Run a pass to its end in this thread, and record the offset up to which the log is clean."""
    try:
        while running.step() is not None:
            pass
    finally:
        running.close()
    running.log.cleaned_up_to = running.stats.end_offset
    return running.stats


def clean(store: Store, log: PartitionLog, *, keys: int = 1000) -> PassStats:
    """Clean a log in one pass."""
    return finish(begin_pass(store, log, keys=keys))


def batches(log: PartitionLog) -> list[BatchHeader]:
    """Return every batch in the log's files, control batches included."""
    return [BatchHeader(memoryview(bytes(header.raw))) for segment in log.segments for header in segment.batches()]


def records(log: PartitionLog) -> list[Kept]:
    """Return every data record in the log's files, committed or not."""
    return [
        Kept(record.offset, record.key, record.value)
        for header in batches(log)
        if not header.is_control
        for batch in read_batches(header.raw)
        for record in batch.records()
    ]


def markers(log: PartitionLog) -> list[int]:
    """Return the offsets of the transaction markers that are still needed."""
    return [header.base_offset for header in batches(log) if header.is_control and header.record_count]


def file_names(store: Store) -> list[str]:
    return store.disk.names(store.path)


def with_config(config: LogConfig = COMPACTED, **changes: object) -> LogConfig:
    return dataclasses.replace(config, **changes)  # type: ignore[arg-type]


def latest(history: Sequence[Kept]) -> dict[bytes, Kept]:
    """Return the last record of each key."""
    return {record.key: record for record in history if record.key is not None}
