"""One segment of a log: a file of record batches and its indexes.

`<base offset, 20 digits>.log` holds consecutive batches in the format of the wire (see `kclient.records.batch`); the
first record is at or after the base offset. The indexes are `.index` and `.timeindex`, and `.txnindex` if the segment
contains abort markers. Only the last segment of a log, the active one, is written to. With `preallocate`, the active
file has its full size and is zero after its batches. The files of a segment that replaces others have the additional
suffix `.cleaned`, then `.swap`; those of a segment to be removed have `.deleted`.

The files of inactive segments, and the indexes of all segments, are opened on first use and closed again if too many
files are open (`spare_files`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from kclient.errors import CorruptRecordError
from kclient.records import BatchHeader, read_batches
from refbroker.log.batches import read_batch, scan_batches, scan_headers
from refbroker.log.config import LogConfig
from refbroker.log.file_range import FileRange, OffsetAndTimestamp
from refbroker.log.files import BytesLike, Files, OpenFile
from refbroker.log.offset_index import OffsetIndex, OffsetPosition
from refbroker.log.time_index import TimeIndex, TimestampOffset
from refbroker.log.transaction_index import TransactionIndex
from refbroker.log.validation import StampedBatch

logger = logging.getLogger(__name__)

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_SUFFIX = ".deleted"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    """Return the path of a file of the segment."""
    return directory / f"{base_offset:020d}{suffix}"


class Segment:
    """A segment of a log.

    Parameters:
        files: the disk.
        directory: the directory of the partition.
        base_offset: the smallest offset that the segment may hold.
        config: the settings of the log, for the size and interval of the indexes.
        created_ms: when the segment was created, for rolling segments without timestamps.
        create: whether to create the segment; the contents of existing files are dropped.
        suffix: the additional suffix of its files, such as `.deleted`.

    Attributes:
        size: the bytes of complete batches in the file.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        created_ms: int,
        create: bool = False,
        suffix: str = "",
    ) -> None:
        self.base_offset = base_offset
        self.suffix = suffix
        self._directory = directory
        self.created_ms = created_ms
        self.index_interval_bytes = config.index_interval_bytes
        self._max_index_bytes = config.segment_index_bytes
        self._files = files
        self._active = create
        self._fresh = create
        self._open_file: OpenFile | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None
        self._max_timestamp: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._bytes_since_index_entry = 0
        if create:
            self.size = 0
            self._max_timestamp = TimestampOffset(-1, base_offset)
            try:
                self._create(config)
            except OSError:
                # The log continues in the previous segment; the next start would take a leftover file for its end.
                with suppress(OSError):
                    self.delete()
                raise
        else:
            self.size = files.size(self.file)

    def _create(self, config: LogConfig) -> None:
        self._open_file = self._files.open(self.path, create=True)
        self._files.truncate(self._open_file, 0)
        if config.preallocate:
            self._files.truncate(self._open_file, config.segment_bytes)
        self._open_indexes()
        self._fresh = False

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self.size})"

    # Files

    @property
    def path(self) -> Path:
        """The path of the file of the batches."""
        return self.file_path(LOG_SUFFIX)

    def file_path(self, kind: str) -> Path:
        """Return the path of one of its files, such as `.index`."""
        return segment_path(self._directory, self.base_offset, kind + self.suffix)

    def change_suffix(self, suffix: str, *, sync: bool = True) -> None:
        """Rename all files of the segment; ranges in use stay readable.

        Parameters:
            sync: make the new names durable.
        """
        self.release()
        for kind in SEGMENT_SUFFIXES:
            old = self.file_path(kind)
            if self._files.exists(old):
                self._files.rename(old, segment_path(self._directory, self.base_offset, kind + suffix), sync=False)
        self.suffix = suffix
        if sync:
            self._files.fsync_directory(self._directory)

    @property
    def file(self) -> OpenFile:
        # Another thread may clear the attribute meanwhile; a file that was returned stays open.
        file = self._open_file
        if file is None:
            file = self._open_file = self._files.open(self.path)
            if not self._active:
                self._files.spare_files.add(self)
        return file

    def _open_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        if self._offset_index is None or self._time_index is None:
            self._offset_index = OffsetIndex(
                self._files, self.file_path(INDEX_SUFFIX), self.base_offset, self._max_index_bytes,
                active=self._active, fresh=self._fresh,
            )  # fmt: skip
            self._time_index = TimeIndex(
                self._files, self.file_path(TIME_INDEX_SUFFIX), self.base_offset, self._max_index_bytes,
                active=self._active, fresh=self._fresh,
            )  # fmt: skip
        return self._offset_index, self._time_index

    @property
    def offset_index(self) -> OffsetIndex:
        return self._offset_index or self._open_indexes()[0]

    @property
    def time_index(self) -> TimeIndex:
        return self._time_index or self._open_indexes()[1]

    @property
    def transaction_index(self) -> TransactionIndex:
        if self._transaction_index is None:
            self._transaction_index = TransactionIndex(self._files, self.file_path(TXN_INDEX_SUFFIX))
        return self._transaction_index

    def has_sane_indexes(self, end_offset: int | None) -> bool:
        """Return whether the indexes exist and can be those of this segment; if not, it must be recovered.

        Parameters:
            end_offset: the base offset of the next segment, None for the last segment.
        """
        if not all(self._files.exists(self.file_path(kind)) for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
            return False
        return (
            self.offset_index.is_sane(self.size, end_offset)
            and self.time_index.is_sane(end_offset)
            # A closed segment has at least the entry of its largest timestamp.
            and (self.time_index.entries > 0 or not self.size)
            and self.transaction_index.is_sane(self.base_offset)
        )

    def open_files(self) -> list[OpenFile]:
        """Return all files of the segment, opened, to flush them."""
        return [self.file, *self.index_files()]

    def index_files(self) -> list[OpenFile]:
        """Return the files of its indexes, opened."""
        aborted = self.transaction_index.file
        return [self.offset_index.file, self.time_index.file, *([] if aborted is None else [aborted])]

    @property
    def is_active(self) -> bool:
        """Whether the segment is written to; its files may be preallocated."""
        return self._active

    # What it holds

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp and the last offset of its batch; (-1, base offset) if no record has a timestamp."""
        if self._max_timestamp is None:
            self._max_timestamp = self.time_index.last
        return self._max_timestamp

    @property
    def is_full(self) -> bool:
        """Whether one of the indexes is full."""
        return self.offset_index.is_full or self.time_index.is_full

    def takes(self, offset: int) -> bool:
        """Return whether the offset relative to the base offset fits the offset index."""
        return self.offset_index.takes(offset)

    def largest_timestamp(self) -> int:
        """Return the time that retention uses: the largest timestamp, or without timestamps the file's write time."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self._files.modified_ms(self.path)

    def time_waited_ms(self, now_ms: int, timestamp: int) -> int:
        """Return the time from its first record to `timestamp`; without timestamps, its age. Used for `segment.ms`."""
        if self._first_timestamp is None and self.size:
            first = next(self.headers(), None)
            self._first_timestamp = None if first is None else first.max_timestamp
        if self._first_timestamp is not None and self._first_timestamp >= 0:
            return timestamp - self._first_timestamp
        return now_ms - self.created_ms

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
        """Yield the headers of its batches from `position` on, where a batch must start."""
        return scan_headers(self._files, self.file, position, self.size if end is None else end)

    def batches(self, position: int = 0) -> Iterator[BatchHeader]:
        """Yield its batches from `position` on, each with all its bytes in `raw`."""
        return scan_batches(self._files, self.file, position, self.size)

    def read_batch(self, header: BatchHeader) -> bytes:
        return read_batch(self._files, self.file, header)

    def next_offset(self) -> int:
        """Return the offset after its last record; the base offset if the segment is empty."""
        last = self.base_offset - 1
        for header in self._headers_from(self.offset_index.last):
            last = header.last_offset
        return last + 1

    def _headers_from(self, entry: OffsetPosition) -> Iterator[BatchHeader]:
        """Yield the headers of its batches from the position of an entry of the offset index.

        Sanity checks do not detect every index of another segment, so the batch at that position is checked too.
        """
        headers = self.headers(entry.position)
        if not entry.position:
            return headers
        try:
            first = next(headers, None)
        except CorruptRecordError:
            first = None
        if first is None or first.base_offset > entry.offset:
            logger.warning(
                "The index of %s has a wrong position for offset %d (%d); reading the segment from its start",
                self.path,
                entry.offset,
                entry.position,
            )
            return self.headers()
        return chain((first,), headers)

    # Reading

    def find(self, offset: int) -> BatchHeader | None:
        """Return the header of the first batch that ends at or after `offset`, None if all end before it."""
        for header in self._headers_from(self.offset_index.lookup(offset)):
            if header.last_offset >= offset:
                return header
        return None

    def range(self, position: int, size: int) -> FileRange:
        """Return a range of the file, which stays open while the range is referenced."""
        return FileRange(self._files, self.file, position, size)

    def find_timestamp(self, timestamp: int, first_offset: int) -> OffsetAndTimestamp | None:
        """Return the first record at or after `first_offset` whose timestamp is at least `timestamp`, or None."""
        indexed = self.time_index.lookup(timestamp)
        for header in self._headers_from(self.offset_index.lookup(max(indexed.offset, first_offset))):
            if header.max_timestamp < timestamp or header.last_offset < first_offset:
                continue
            for record in self._records(header):
                if record.timestamp >= timestamp and record.offset >= first_offset:
                    return OffsetAndTimestamp(record.offset, record.timestamp, header.partition_leader_epoch)
        return None

    def find_max_timestamp(self) -> OffsetAndTimestamp | None:
        """Return the first record with the largest timestamp, None if no record has a timestamp."""
        largest = self.max_timestamp
        if largest.timestamp < 0:
            return None
        for header in self._headers_from(self.offset_index.lookup(largest.offset)):
            if header.max_timestamp == largest.timestamp:
                for record in self._records(header):
                    if record.timestamp == largest.timestamp:
                        epoch = header.partition_leader_epoch
                        return OffsetAndTimestamp(record.offset, record.timestamp, epoch)
        return None

    def _records(self, header: BatchHeader) -> Iterator[Any]:
        for batch in read_batches(self.read_batch(header)):
            yield from batch.records()

    # Writing

    def files_to_append(self, size: int) -> list[OpenFile]:
        """Return the files that an append of `size` bytes writes to, opened."""
        if self._bytes_since_index_entry + size > self.index_interval_bytes:
            return [self.file, self.offset_index.file, self.time_index.file]
        return [self.file]

    def append(self, batches: Sequence[StampedBatch]) -> None:
        """Write batches at the end in one call, then the index entries that are due."""
        parts: list[BytesLike] = []
        for batch in batches:
            parts += batch.parts
        position = self.size
        self._files.pwrite(self.file, parts, position)
        largest = self.max_timestamp
        for batch in batches:
            if self._first_timestamp is None:
                self._first_timestamp = batch.max_timestamp
            if batch.max_timestamp > largest.timestamp:
                largest = self._max_timestamp = TimestampOffset(batch.max_timestamp, batch.last_offset)
            if self._bytes_since_index_entry > self.index_interval_bytes and not self.is_full:
                self.offset_index.append(batch.last_offset, position)
                self.time_index.append_if_later(largest.timestamp, largest.offset)
                self._bytes_since_index_entry = 0
            position += batch.size
            self._bytes_since_index_entry += batch.size
        self.size = position

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Remove the batches that end at or after an offset, durably, and be the active segment again.

        Parameters:
            offset: at or after the base offset.
            now_ms: the time, for an empty segment.

        Returns:
            The offset after the remaining batches: `offset`, or the start of the batch that contains it.
        """
        first = self.find(offset)
        self._active = True
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if first is not None:
            self.size = first.position
        # Before anything is written behind it: the removed part contains whole batches.
        self._files.truncate(self.file, self.size)
        self._files.fsync(self.file)
        self._bytes_since_index_entry = self.size - self.offset_index.last.position
        self._max_timestamp = self._find_largest_timestamp()
        if not self.size:
            self.created_ms = now_ms
            self._first_timestamp = None
        return offset if first is None else min(offset, first.base_offset)

    def _find_largest_timestamp(self) -> TimestampOffset:
        largest = self.time_index.last
        for header in self._headers_from(self.offset_index.lookup(largest.offset)):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    def activate(self) -> None:
        """Make this the active segment of a log that was loaded."""
        self._active = True
        for index in self._open_indexes():
            index.preallocate()

    def deactivate(self) -> None:
        """Cut the files to their contents, because the segment is no longer written to."""
        self._close_indexes_with_largest_timestamp()
        self._files.truncate(self.file, self.size)
        self._active = False
        self._files.spare_files.add(self)

    def _close_indexes_with_largest_timestamp(self) -> None:
        largest = self.max_timestamp
        self.time_index.append_if_later(largest.timestamp, largest.offset)
        self.offset_index.trim()
        self.time_index.trim()

    def start_recovery(self) -> None:
        """Clear the indexes; `recovered_batch` fills them again and `finish_recovery` truncates the file."""
        self._active = False
        for index in self._open_indexes():
            index.clear()
        self.transaction_index.truncate_to(0)
        self._max_timestamp = TimestampOffset(-1, self.base_offset)
        self._first_timestamp = None
        self._bytes_since_index_entry = 0

    def recovered_batch(self, header: BatchHeader) -> None:
        """Add the next valid batch to the indexes."""
        if header.max_timestamp > self.max_timestamp.timestamp:
            self._max_timestamp = TimestampOffset(header.max_timestamp, header.last_offset)
        if self._bytes_since_index_entry > self.index_interval_bytes and not self.is_full:
            self.offset_index.append(header.last_offset, header.position)
            self.time_index.append_if_later(*self.max_timestamp)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += header.size_in_bytes

    def finish_recovery(self, valid_bytes: int) -> int:
        """Truncate the file after its valid batches, and return the number of bytes removed."""
        truncated = self.size - valid_bytes
        self.size = valid_bytes
        self._files.truncate(self.file, valid_bytes)
        self._close_indexes_with_largest_timestamp()
        return truncated

    # The end

    def close(self) -> None:
        """Cut the files to their contents and release them; ranges in use keep the segment file open."""
        if self._active:
            self.deactivate()
        self.release()

    def release(self) -> None:
        """Release the files without writing to them."""
        self._open_file = None
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.close_file()
        self._offset_index = self._time_index = self._transaction_index = None

    def close_file(self) -> None:
        """Close the file of the batches, unless the segment is active; the next use opens it again."""
        if not self._active:
            self._open_file = None

    def delete(self) -> None:
        """Remove the files; ranges in use stay readable."""
        self.release()
        for suffix in SEGMENT_SUFFIXES:
            self._files.unlink(self.file_path(suffix))
