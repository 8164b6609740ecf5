"""What compaction keeps of a batch: the rules.

A record stays when it is behind what the offset map covers, or when no later record has its key; a tombstone
(null value) goes once the delete horizon of its batch has passed, a record without key at once. The delete
horizon is set by the first pass that finds a tombstone to be the latest of its key, to `delete.retention.ms`
after that pass: who reads the log from its start has that long to see the key deleted.

Records of aborted transactions go at once, and markers as `transactions` says. A batch that lost every record goes,
except for two, of which the header stays: the batch with the last record of a producer that is still
remembered, since the log must tell its last sequence or epoch when it is read anew; and the last batch of the part
that is cleaned, so that the log's end stays where it is. A batch that loses nothing is copied byte for byte.

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

# How many records are looked at between two chances for other threads.
RECORDS_PER_TURN = 256


@dataclass(frozen=True, slots=True)
class LastRecord:
    """The last that a producer wrote, as the broker remembers it.

    Attributes:
        data_offset: of its last record of data, -1 when that is not known.
        producer_epoch: its epoch.
    """

    data_offset: int
    producer_epoch: int


@dataclass(slots=True)
class RecordCounts:
    """What went through the filter.

    Attributes:
        read, kept: records, control records too.
        invalid: records without key, which a compacted log should not have.
    """

    read: int = 0
    kept: int = 0
    invalid: int = 0


class BatchFilter:
    """Takes out of batches what need not stay. For one pass over a log; batches come in order.

    Parameters:
        offsets: the latest offset of each key of the dirty part.
        transactions: of the log.
        producers: the last record of each producer that is remembered, by its id.
        upper_bound: where the part that is cleaned ends.
        now_ms: the time, milliseconds since the epoch.
        delete_retention_ms: `delete.retention.ms` of the log.
        give_way: called now and then, to let other threads run.

    Attributes:
        counts: what went through.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastRecord],
        upper_bound: int,
        now_ms: int,
        delete_retention_ms: int,
        give_way: Callable[[], None],
    ) -> None:
        self.counts = RecordCounts()
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._upper_bound = upper_bound
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._give_way = give_way

    def filter(self, header: BatchHeader, *, keep_legacy_tombstones: bool) -> BatchHeader | None:
        """What stays of a batch, None when nothing does.

        Parameters:
            header: with all the batch's bytes.
            keep_legacy_tombstones: whether the tombstones of batches in format 0 and 1, which know no delete
                horizon, are to stay.

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
        """Whether a transaction's marker goes now, and whether it need stay only until its delete horizon."""
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
        """The indexes and timestamps of the records that stay, whether tombstones are among them, and how many
        records there are."""
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
                self._give_way()
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
    """The records of a batch, which are made one by one: its bytes may be few and its records many.

    Raises:
        CorruptRecordError: they are not what the header says.
    """
    if header.is_control:
        # Never more than one, and what reads data leaves them out.
        return iter([record for batch in read_batches(header.raw) for record in batch.records()])
    chunk = RecordCursor(header.raw, "", -1, fetch_offset=0, check_checksums=False).take()
    if header.magic == 2 and len(chunk) != header.record_count:
        raise header.corrupt("the offsets of its records do not ascend")
    return iter(chunk)
