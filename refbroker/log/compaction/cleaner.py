"""One pass of compaction over one log.

First the dirty part is read into the offset map until its memory is full; the pass covers the log up to there, and a
later one continues. Then all segments up to there, clean ones included, are rewritten in groups of neighbours, and each
group is replaced by its result.

A pass is a sequence of steps, each of which decides where the next one runs: reading and rewriting in a worker thread,
which opens its own files and uses only segments that no longer change; reading and changing the log on the event loop,
which owns it. Between two steps (one I/O buffer) a pass can be delayed, or aborted without effect.

How a group is replaced, so that a crash at any point loses nothing (`swap_recovery` is the other half):

    1. worker   <base>.log.cleaned and its indexes are written and flushed
    2. worker   they are renamed to .swap, and the directory is flushed: from now on a start completes the replacement
    3. loop     the log has the new segment, and the old ones' files are renamed to .deleted
    4. worker   the directory is flushed: no old segment can reappear beside the new one
    5. loop     .swap is removed, and the directory is flushed again

Not implemented: splitting a segment whose offsets do not fit its index, as very old versions of Kafka could write them.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kclient.errors import CorruptRecordError
from kclient.records import BatchHeader
from refbroker.log.batches import scan_batches
from refbroker.log.compaction.filtering import RECORDS_PER_TURN, BatchFilter, LastRecord, records_of
from refbroker.log.compaction.grouping import group_segments
from refbroker.log.compaction.offset_map import OffsetMap
from refbroker.log.compaction.selection import LogToClean
from refbroker.log.compaction.stats import PassStats
from refbroker.log.compaction.throttle import GilYielder, Throttle
from refbroker.log.compaction.transactions import CleanedTransactions
from refbroker.log.files import Files
from refbroker.log.segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
)
from refbroker.log.transaction_index import AbortedTransaction, TransactionIndex
from refbroker.log.validation import StampedBatch, keep_offsets

logger = logging.getLogger(__name__)


class CleaningAbortedError(Exception):
    """A pass was aborted, because its log is being deleted, truncated or closed."""


class Place(enum.Enum):
    """The place where a step of a pass runs."""

    WORKER = "a worker thread"
    LOOP = "the event loop"


@dataclass(frozen=True, slots=True)
class Step:
    """What a pass needs for its next step.

    Attributes:
        place: where the step runs.
        wait_ms: how long to wait first, to limit the load of the disk.
    """

    place: Place
    wait_ms: int = 0


_WORKER = Step(Place.WORKER)
_LOOP = Step(Place.LOOP)


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The settings of one cleaner.

    Attributes:
        dedupe_buffer_size: memory for the offset map, in bytes.
        load_factor: the fraction of it that may be used.
        io_buffer_size: the bytes read and written at once.
    """

    dedupe_buffer_size: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_size: int = 512 << 10


@dataclass(frozen=True, slots=True)
class _Source:
    """What a worker thread may know of a segment: the parts that do not change while the segment is in the log."""

    segment: Segment
    base_offset: int
    end_offset: int
    path: Path
    size: int
    offset_index_bytes: int
    time_index_bytes: int
    modified_ms: int


class CleaningPass:
    """A pass over a log, started on the event loop.

    Parameters:
        files: the disk.
        target: the log and the part of it that can be cleaned.
        settings: the cleaner's settings.
        throttle: shared by all cleaners.
        clock: milliseconds since the epoch.

    Attributes:
        log: the log.
        stats: its statistics so far; complete, with `end_offset`, once `step` returns None.
    """

    def __init__(
        self,
        files: Files,
        target: LogToClean,
        settings: CleanerSettings,
        throttle: Throttle,
        clock: Callable[[], int],
    ) -> None:
        self.log = target.log
        self.stats = PassStats(self.log.topic, self.log.partition, target.first_dirty_offset, clock())
        self._files = files
        self._target = target
        self._settings = settings
        self._throttle = throttle
        self._clock = clock
        self._yield_gil = GilYielder()
        self._map = OffsetMap(settings.dedupe_buffer_size, settings.load_factor)
        self._aborted = False
        self._steps = self._run()

    def abort(self) -> None:
        """Make the next step raise CleaningAbortedError."""
        self._aborted = True

    def step(self) -> Step | None:
        """Do one step, and return what the next one needs; None at the end. The first step runs on the event loop.

        Raises:
            CleaningAbortedError: the pass was aborted, or the log was closed.
            CorruptRecordError: a segment is damaged.
            KafkaStorageError: the disk fails; the data directory is offline then.
        """
        if self._aborted or self.log.closed:
            self.close()
            raise CleaningAbortedError(f"the cleaning of {self.log} was aborted")
        try:
            return next(self._steps, None)
        except OSError as error:
            # A log is closed before it is deleted; only then do files disappear under a worker thread.
            if self.log.closed:
                raise CleaningAbortedError(f"the log {self.log} was closed") from error
            with self.log.health.guard(f"compact {self.log.directory}", self.log.topic, self.log.partition):
                raise

    def close(self) -> None:
        """Stop, and remove files that are not in place yet."""
        self._steps.close()

    def _run(self) -> Generator[Step]:
        logger.info("Cleaning %s from offset %d on", self.log, self.stats.first_dirty_offset)
        upper_bound = self._target.first_uncleanable_offset
        segments = list(self.log.segments)
        yield _WORKER
        ends = [segment.base_offset for segment in segments[1:]]
        sources = [
            self._source(segment, end)
            for segment, end in zip(segments, ends, strict=False)
            if segment.base_offset < upper_bound
        ]
        # A transaction's marker may be behind everything that is cleaned.
        aborted = [transaction for segment in segments for transaction in self._aborted_transactions(segment)]
        yield from self._build_map(sources, aborted)
        end_offset = max(self._map.latest_offset + 1, self.stats.first_dirty_offset)
        config = self.log.config
        covered = [source for source in sources if source.base_offset < end_offset]
        groups = group_segments(covered, config.segment_bytes, config.segment_index_bytes, upper_bound)
        transactions = CleanedTransactions()
        transactions.add_aborted(aborted)
        clean = [source for source in sources if source.base_offset < self.stats.first_dirty_offset]
        legacy_horizon_ms = clean[-1].modified_ms - config.delete_retention_ms if clean else 0
        for group in groups:
            yield from self._clean_group(group, transactions, legacy_horizon_ms)
        self.stats.end_offset = end_offset
        self.stats.map_keys = len(self._map)
        self.stats.map_utilization = self._map.utilization
        self.stats.duration_ms = self._clock() - self.stats.started_ms

    # Reading

    def _source(self, segment: Segment, end_offset: int) -> _Source:
        return _Source(
            segment,
            segment.base_offset,
            end_offset,
            segment.path,
            segment.size,
            offset_index_bytes=self._file_size(segment.file_path(INDEX_SUFFIX)),
            time_index_bytes=self._file_size(segment.file_path(TIME_INDEX_SUFFIX)),
            modified_ms=self._files.modified_ms(segment.path),
        )

    def _file_size(self, path: Path) -> int:
        file = self._files.open(path, writable=False)
        try:
            return self._files.size(file)
        finally:
            file.close()

    def _aborted_transactions(self, segment: Segment) -> Iterator[AbortedTransaction]:
        return TransactionIndex(self._files, segment.file_path(TXN_INDEX_SUFFIX)).entries()

    def _batches(self, source: _Source) -> Iterator[BatchHeader]:
        """Yield the complete batches of a segment.

        Raises:
            CorruptRecordError: they do not fill it, or their offsets, which no checksum covers, are invalid.
        """
        file = self._files.open(source.path, writable=False)
        position, offset = 0, source.base_offset
        for header in scan_batches(self._files, file, 0, source.size, chunk_size=self._settings.io_buffer_size):
            if not offset <= header.base_offset <= header.last_offset < source.end_offset:
                raise header.corrupt("its offsets do not ascend", self.log.topic, self.log.partition)
            position, offset = header.position + header.size_in_bytes, header.next_offset
            yield header
        file.close()
        if position != source.size:
            raise CorruptRecordError(
                f"{source.path} has {source.size} bytes, but its last whole batch ends at {position}",
                topic=self.log.topic,
                partition=self.log.partition,
                offset=offset,
            )

    def _observed(self, size: int) -> Step:
        """Return a step in a worker thread once `size` bytes may have been read or written."""
        return Step(Place.WORKER, self._throttle.observe(size))

    def _build_map(self, sources: Sequence[_Source], aborted: Sequence[AbortedTransaction]) -> Iterator[Step]:
        """Record the latest offset of each key in the dirty part, until the map is full."""
        transactions = CleanedTransactions()
        transactions.add_aborted(aborted)
        for source in sources:
            if source.end_offset <= self.stats.first_dirty_offset:
                continue
            pending = 0
            for header in self._batches(source):
                self.stats.map_bytes_read += header.size_in_bytes
                pending += header.size_in_bytes
                if pending >= self._settings.io_buffer_size:
                    yield self._observed(pending)
                    pending = 0
                if header.next_offset > self.stats.first_dirty_offset and not self._map_batch(header, transactions):
                    logger.info("The offset map for %s is full at offset %d", self.log, self._map.latest_offset + 1)
                    return
            # Missing records at the end of a segment were compacted away or never existed.
            self._map.latest_offset = max(self._map.latest_offset, source.end_offset - 1)
            yield self._observed(pending)

    def _map_batch(self, header: BatchHeader, transactions: CleanedTransactions) -> bool:
        """Add a batch to the map; return False if the map was full before its end."""
        header.verify()
        if header.is_control:
            transactions.ends_without_data(header)
            self.stats.map_records += 1
        elif transactions.is_aborted(header):
            self.stats.map_records += max(header.record_count, 0)
        else:
            put, first = self._map.put, self.stats.first_dirty_offset
            for index, record in enumerate(records_of(header)):
                if not index % RECORDS_PER_TURN:
                    self._yield_gil()
                self.stats.map_records += 1
                if record.key is not None and record.offset >= first and not put(record.key, record.offset):
                    # A batch may have more keys than the map accepts: the next pass continues in the middle of it.
                    self._map.latest_offset = max(self._map.latest_offset, record.offset - 1)
                    return False
        self._map.latest_offset = max(self._map.latest_offset, header.last_offset)
        return True

    # Rewriting

    def _clean_group(
        self, group: Sequence[_Source], transactions: CleanedTransactions, legacy_horizon_ms: int
    ) -> Iterator[Step]:
        yield _LOOP
        producers = {
            entry.producer_id: LastRecord(entry.last_offset, entry.producer_epoch) for entry in self.log.producers()
        }
        yield _WORKER
        batch_filter = BatchFilter(
            self._map,
            transactions,
            producers,
            self._target.first_uncleanable_offset,
            self.stats.started_ms,
            self.log.config.delete_retention_ms,
            self._yield_gil,
        )
        cleaned = Segment(
            self._files,
            self.log.directory,
            group[0].base_offset,
            self.log.config,
            created_ms=group[-1].modified_ms,
            create=True,
            suffix=CLEANED_SUFFIX,
        )
        in_place = False
        try:
            for source in group:
                keep_legacy = source.modified_ms > legacy_horizon_ms
                yield from self._clean_into(cleaned, source, batch_filter, transactions, keep_legacy)
            self._finish(cleaned, group[-1].modified_ms)
            yield _LOOP
            in_place = True
            self.log.replace_segments(cleaned, [source.segment for source in group])
            yield _WORKER
            self._files.fsync_directory(self.log.directory)
            yield _LOOP
            cleaned.change_suffix("", sync=False)
        finally:
            if not in_place:
                self._discard(cleaned)
            elif cleaned.suffix:
                # The pass was aborted in between, or the disk failed; the next start finishes it.
                with suppress(OSError):
                    self._files.fsync_directory(self.log.directory)
                    cleaned.change_suffix("")
        yield _WORKER
        self._files.fsync_directory(self.log.directory)
        self.stats.records_read += batch_filter.counts.read
        self.stats.records_kept += batch_filter.counts.kept
        self.stats.records_invalid += batch_filter.counts.invalid
        logger.info("Replaced %s by %s", [source.path.name for source in group], cleaned)

    def _clean_into(
        self,
        cleaned: Segment,
        source: _Source,
        batch_filter: BatchFilter,
        transactions: CleanedTransactions,
        keep_legacy_tombstones: bool,
    ) -> Generator[Step]:
        waiting: list[StampedBatch] = []
        read = written = 0
        for header in self._batches(source):
            read += header.size_in_bytes
            kept = batch_filter.filter(header, keep_legacy_tombstones=keep_legacy_tombstones)
            for transaction in transactions.retained:
                cleaned.transaction_index.append(transaction)
            transactions.retained.clear()
            if kept is not None:
                waiting.append(keep_offsets(kept))
                written += kept.size_in_bytes
            if read + written >= self._settings.io_buffer_size:
                yield self._append(cleaned, waiting, read, written)
                waiting, read, written = [], 0, 0
        yield self._append(cleaned, waiting, read, written)

    def _append(self, cleaned: Segment, batches: list[StampedBatch], read: int, written: int) -> Step:
        if batches:
            cleaned.append(batches)
        self.stats.bytes_read += read
        self.stats.bytes_written += written
        return self._observed(read + written)

    def _finish(self, cleaned: Segment, modified_ms: int) -> None:
        """Flush it and rename the files to `.swap`: a start from now on uses it instead of the old ones."""
        cleaned.deactivate()
        # Retention uses it for records without timestamps.
        self._files.set_modified_ms(cleaned.path, modified_ms)
        for file in (cleaned.file, *cleaned.index_files()):
            self._files.fsync(file)
        cleaned.change_suffix(SWAP_SUFFIX)

    def _discard(self, cleaned: Segment) -> None:
        """Remove a segment that will not be used; a start would do it too, but may be far off."""
        # The disk may have failed, or the directory may be gone.
        with suppress(OSError):
            if cleaned.suffix == SWAP_SUFFIX:
                # No `.swap` file may remain without its segment: it would replace one of the log's.
                cleaned.change_suffix(CLEANED_SUFFIX)
            cleaned.delete()
