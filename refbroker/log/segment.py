"""One segment of a log: a file of record batches and its two indexes.

`<base offset, 20 digits>.log` holds batches one after the other, exactly as they go over the wire
(their layout is in `kclient.records.batch`), the first record at or after the base offset. Beside it lie
`.index` and `.timeindex`, and `.txnindex` once a transaction was aborted in it. Only the last segment of a log, the
active one, is written to. With `preallocate` the active file is as large as it may become, and zero behind its
batches. All files of a segment that is on its way in or out have a suffix more: `.cleaned` and `.swap` while
compaction puts it in another's place, `.deleted` while it waits to be removed.

Files of segments that are not active are opened on first use, and closed again where there are too many; so are the
indexes of active ones (`spare_files`).
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
    """Where a file of the segment is."""
    return directory / f"{base_offset:020d}{suffix}"


class Segment:
    """One segment.

    Parameters:
        files: the disk.
        directory: the partition's.
        base_offset: the smallest offset it may hold.
        config: for the sizes of the indexes and how dense they are.
        created_ms: the clock when it was made, for rolling while it has no timestamps.
        create: whether it is new; what a file of this name holds is dropped then.
        suffix: of its files, behind what says which file it is.

    Attributes:
        size: bytes of whole batches in the file.
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
                # Where the log goes on without it, a start would take it for the end of the log.
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
        """The file of the batches."""
        return self.file_path(LOG_SUFFIX)

    def file_path(self, kind: str) -> Path:
        """One of its files, by what follows the base offset in the name."""
        return segment_path(self._directory, self.base_offset, kind + self.suffix)

    def change_suffix(self, suffix: str, *, sync: bool = True) -> None:
        """Rename all its files; ranges that are held stay readable.

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
        # Another thread may close it meanwhile; who has it in hand can go on.
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
        """Whether the index files are there and can be those of this segment; else it must be recovered.

        Parameters:
            end_offset: where the next segment begins, None for the last one.
        """
        if not all(self._files.exists(self.file_path(kind)) for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
            return False
        return (
            self.offset_index.is_sane(self.size, end_offset)
            and self.time_index.is_sane(end_offset)
            # Closed, a segment has at least the entry of its largest timestamp.
            and (self.time_index.entries > 0 or not self.size)
            and self.transaction_index.is_sane(self.base_offset)
        )

    def open_files(self) -> list[OpenFile]:
        """All its files, to flush."""
        return [self.file, *self.index_files()]

    def index_files(self) -> list[OpenFile]:
        """The files of its indexes."""
        aborted = self.transaction_index.file
        return [self.offset_index.file, self.time_index.file, *([] if aborted is None else [aborted])]

    @property
    def is_active(self) -> bool:
        """Whether it is written to, so that its files are larger than what they hold."""
        return self._active

    # What it holds

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the batch that has it; (-1, base offset) for none."""
        if self._max_timestamp is None:
            self._max_timestamp = self.time_index.last
        return self._max_timestamp

    @property
    def is_full(self) -> bool:
        """Whether an index has no more room."""
        return self.offset_index.is_full or self.time_index.is_full

    def takes(self, offset: int) -> bool:
        """Whether the offset is close enough to the base offset for the index."""
        return self.offset_index.takes(offset)

    def largest_timestamp(self) -> int:
        """How young it is, which is what retention goes by: its largest timestamp, else when its file was written."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self._files.modified_ms(self.path)

    def time_waited_ms(self, now_ms: int, timestamp: int) -> int:
        """How much time its records span up to one with `timestamp`; without timestamps, its age by the clock."""
        if self._first_timestamp is None and self.size:
            first = next(self.headers(), None)
            self._first_timestamp = None if first is None else first.max_timestamp
        if self._first_timestamp is not None and self._first_timestamp >= 0:
            return timestamp - self._first_timestamp
        return now_ms - self.created_ms

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
        """The headers of its batches from `position`, which is where one starts."""
        return scan_headers(self._files, self.file, position, self.size if end is None else end)

    def batches(self, position: int = 0) -> Iterator[BatchHeader]:
        """Its batches from `position`, each with all its bytes in `raw`."""
        return scan_batches(self._files, self.file, position, self.size)

    def read_batch(self, header: BatchHeader) -> bytes:
        return read_batch(self._files, self.file, header)

    def next_offset(self) -> int:
        """The offset after its last record; its base offset when it is empty."""
        last = self.base_offset - 1
        for header in self._headers_from(self.offset_index.last):
            last = header.last_offset
        return last + 1

    def _headers_from(self, entry: OffsetPosition) -> Iterator[BatchHeader]:
        """The headers of its batches from where an entry of the offset index points to.

        An index that is not that of this segment can look as if it were. What it points to tells.
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
                "The index of %s has offset %d at position %d, where it is not; reading the segment from its start",
                self.path,
                entry.offset,
                entry.position,
            )
            return self.headers()
        return chain((first,), headers)

    # Reading

    def find(self, offset: int) -> BatchHeader | None:
        """The header of the first batch that ends at or after `offset`, None when all end before it."""
        for header in self._headers_from(self.offset_index.lookup(offset)):
            if header.last_offset >= offset:
                return header
        return None

    def range(self, position: int, size: int) -> FileRange:
        """A part of the file, which is kept open by it."""
        return FileRange(self._files, self.file, position, size)

    def find_timestamp(self, timestamp: int, first_offset: int) -> OffsetAndTimestamp | None:
        """The first record at or after `first_offset` that is not older than `timestamp`."""
        indexed = self.time_index.lookup(timestamp)
        for header in self._headers_from(self.offset_index.lookup(max(indexed.offset, first_offset))):
            if header.max_timestamp < timestamp or header.last_offset < first_offset:
                continue
            for record in self._records(header):
                if record.timestamp >= timestamp and record.offset >= first_offset:
                    return OffsetAndTimestamp(record.offset, record.timestamp, header.partition_leader_epoch)
        return None

    def find_max_timestamp(self) -> OffsetAndTimestamp | None:
        """The first record with the largest timestamp, None when no record has one."""
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
        """The files that an append of so many bytes writes to."""
        if self._bytes_since_index_entry + size > self.index_interval_bytes:
            return [self.file, self.offset_index.file, self.time_index.file]
        return [self.file]

    def append(self, batches: Sequence[StampedBatch]) -> None:
        """Write batches at the end in one call, then their index entries where they are due."""
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

    def activate(self) -> None:
        """Make it the active segment of a log that was just loaded."""
        self._active = True
        for index in self._open_indexes():
            index.preallocate()

    def deactivate(self) -> None:
        """Cut its files to what they hold, for it is not written to any more."""
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
        """Empty the indexes; `recovered_batch` fills them again and `finish_recovery` cuts the file."""
        self._active = False
        for index in self._open_indexes():
            index.clear()
        self.transaction_index.truncate_to(0)
        self._max_timestamp = TimestampOffset(-1, self.base_offset)
        self._first_timestamp = None
        self._bytes_since_index_entry = 0

    def recovered_batch(self, header: BatchHeader) -> None:
        """Take the next valid batch into the indexes."""
        if header.max_timestamp > self.max_timestamp.timestamp:
            self._max_timestamp = TimestampOffset(header.max_timestamp, header.last_offset)
        if self._bytes_since_index_entry > self.index_interval_bytes and not self.is_full:
            self.offset_index.append(header.last_offset, header.position)
            self.time_index.append_if_later(*self.max_timestamp)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += header.size_in_bytes

    def finish_recovery(self, valid_bytes: int) -> int:
        """Cut the file after its valid batches; the number of bytes that were cut off."""
        truncated = self.size - valid_bytes
        self.size = valid_bytes
        self._files.truncate(self.file, valid_bytes)
        self._close_indexes_with_largest_timestamp()
        return truncated

    # The end

    def close(self) -> None:
        """Cut the files to what they hold and let go of them; ranges that are held keep the segment file open."""
        if self._active:
            self.deactivate()
        self.release()

    def release(self) -> None:
        """Let go of the files as they are."""
        self._open_file = None
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.let_go()
        self._offset_index = self._time_index = self._transaction_index = None

    def let_go(self) -> None:
        """Close the file of the batches, unless it is written to; the next use opens it again."""
        if not self._active:
            self._open_file = None

    def delete(self) -> None:
        """Remove the files; ranges that are held stay readable."""
        self.release()
        for suffix in SEGMENT_SUFFIXES:
            self._files.unlink(self.file_path(suffix))
