"""The rules by which compaction keeps or removes the records of a batch.

A record stays if it is beyond the offset map, or if no later record has its key; a tombstone (null value) is removed
once the delete horizon of its batch has passed, a record without key immediately. The delete horizon is set by the
first pass that finds a tombstone to be the latest of its key, to `delete.retention.ms` after that pass: a reader
of the log from its start has that long to see the deletion.

Records of aborted transactions are removed immediately, and markers by the rules of `transactions`. An empty batch is
removed, with two exceptions, of which the header stays: the batch with the last record of a known producer, because the
log must contain its last sequence or epoch; and the last batch of the cleaned part, so that the log's end does not
change. A batch that loses nothing is copied unchanged.

Source: `cleanInto` of Kafka's Cleaner and `filterTo` of its MemoryRecords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kclient.records import BatchHeader, RecordCursor, read_batches
from refbroker.log.compaction.offset_map import OffsetMap, map_key
from refbroker.log.compaction.rewriting import with_records, without_records
from refbroker.log.compaction.transactions import CleanedTransactions

# The number of records between two chances for other threads to run.
RECORDS_PER_TURN = 256


@dataclass(frozen=True, slots=True)
class LastRecord:
    """The last record of a producer, as the broker remembers it.

    Attributes:
        data_offset: the offset of its last data record, -1 if unknown.
        producer_epoch: its epoch.
    """

    data_offset: int
    producer_epoch: int


@dataclass(slots=True)
class RecordCounts:
    """The records that passed the filter.

    Attributes:
        read, kept: the numbers of records, including control records.
        invalid: the number of records without key, which a compacted log should not have.
    """

    read: int = 0
    kept: int = 0
    invalid: int = 0


class BatchFilter:
    """Removes records from the batches of one pass over a log, in order.

    Parameters:
        offsets: the latest offset of each key of the dirty part.
        transactions: the log's transactions.
        producers: the last record of each known producer, by its id.
        upper_bound: the end of the part that is cleaned.
        now_ms: the time, milliseconds since the epoch.
        delete_retention_ms: the log's `delete.retention.ms`.
        yield_gil: called at intervals, to let other threads run.

    Attributes:
        counts: the records so far.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastRecord],
        upper_bound: int,
        now_ms: int,
        delete_retention_ms: int,
        yield_gil: Callable[[], None],
    ) -> None:
        self.counts = RecordCounts()
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._upper_bound = upper_bound
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._yield_gil = yield_gil

    def filter(self, header: BatchHeader, *, keep_legacy_tombstones: bool) -> BatchHeader | None:
        """Return what stays of a batch, None if nothing does.

        Parameters:
            header: the header with all bytes of the batch.
            keep_legacy_tombstones: whether the tombstones of batches in format 0 and 1, which have no delete
                horizon, stay.

        Raises:
            CorruptRecordError: the batch is damaged.
        """
        header.verify()
        if header.is_control:
            drop_records, marker_may_go = self._look_at_marker(header)
        else:
            drop_records, marker_may_go = self._transactions.is_aborted(header), False
        keep_header = self._must_keep_header(header)
        if drop_records:
            self.counts.read += max(header.record_count, 0)
            return BatchHeader(memoryview(without_records(header))) if keep_header else None
        kept, timestamps, tombstones, read = self._kept_records(header, keep_legacy_tombstones)
        self.counts.read += read
        self.counts.kept += len(kept)
        if not kept:
            return BatchHeader(memoryview(without_records(header))) if keep_header else None
        set_horizon = (tombstones or marker_may_go) and not header.has_delete_horizon
        if len(kept) == read and header.magic == 2 and not set_horizon:
            return header
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        if set_horizon:
            horizon_ms = self._now_ms + self._delete_retention_ms
        return BatchHeader(memoryview(with_records(header, kept, timestamps, horizon_ms)))

    def _look_at_marker(self, header: BatchHeader) -> tuple[bool, bool]:
        """Return whether to remove a transaction's marker now, and whether it has a delete horizon."""
        without_data = self._transactions.ends_without_data(header)
        return without_data and self._horizon_passed(header), without_data

    def _horizon_passed(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _must_keep_header(self, header: BatchHeader) -> bool:
        if header.next_offset == self._upper_bound and header.magic == 2:
            return True
        last = self._producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.data_offset >= 0:
            return header.last_offset == last.data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _kept_records(
        self, header: BatchHeader, keep_legacy_tombstones: bool
    ) -> tuple[list[int], list[int], bool, int]:
        """Return the indexes and timestamps of the records that stay, whether they include tombstones, and the number
        of records.
        """
        tombstones_stay = keep_legacy_tombstones if header.magic < 2 else not self._horizon_passed(header)
        covered = self._offsets.latest_offset
        latest = self._offsets.offsets.get
        control = header.is_control
        kept: list[int] = []
        timestamps: list[int] = []
        tombstones = False
        index = -1
        for index, record in enumerate(records_of(header)):
            if not index % RECORDS_PER_TURN:
                self._yield_gil()
            offset, is_tombstone = record.offset, record.value is None
            if not control and offset <= covered:
                if record.key is None:
                    self.counts.invalid += 1
                    continue
                if latest(map_key(record.key), -1) > offset or (is_tombstone and not tombstones_stay):
                    continue
            kept.append(index)
            timestamps.append(record.timestamp)
            tombstones = tombstones or is_tombstone
        return kept, timestamps, tombstones, index + 1


def records_of(header: BatchHeader) -> Iterator[Any]:
    """Yield the records of a batch one by one: a few bytes may contain many records.

    Raises:
        CorruptRecordError: they do not match the header.
    """
    if header.is_control:
        # Never more than one, and readers of data skip them.
        return iter([record for batch in read_batches(header.raw) for record in batch.records()])
    chunk = RecordCursor(header.raw, "", -1, fetch_offset=0, check_checksums=False).take()
    if header.magic == 2 and len(chunk) != header.record_count:
        raise header.corrupt("the offsets of its records do not ascend")
    return iter(chunk)
