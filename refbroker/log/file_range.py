"""The results of reading a log. Fetch responses send ranges of segment files without decoding them."""

from __future__ import annotations

import enum
from typing import NamedTuple

from kclient.errors import KafkaStorageError
from refbroker.log.files import Files, OpenFile, storage_errors


class FileRange:
    """A range of bytes in a segment file. The file stays open and readable as long as the range is referenced.

    Attributes:
        position: the start of the range in the file, in bytes.
        size: the number of bytes; 0 for an empty range, which has no file.
    """

    __slots__ = ("_files", "_open_file", "position", "size")

    def __init__(self, files: Files, open_file: OpenFile | None, position: int, size: int) -> None:
        self._files = files
        self._open_file = open_file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    @property
    def file(self) -> int:
        """The file's descriptor, for sendfile; -1 for an empty range."""
        return -1 if self._open_file is None else self._open_file.fd

    def part(self, start: int, size: int) -> FileRange:
        """Return a part of the range, from `start` bytes after its beginning, and at most up to its end."""
        return FileRange(self._files, self._open_file, self.position + start, min(size, self.size - start))

    def read(self) -> bytes:
        """Return the bytes of the range.

        Raises:
            KafkaStorageError: the disk fails, or the log was truncated since; the announced size of a response would be
                wrong then.
        """
        if self._open_file is None or not self.size:
            return b""
        with storage_errors(f"read {self._open_file.path}"):
            data = self._files.pread(self._open_file, self.size, self.position)
        if len(data) != self.size:
            raise KafkaStorageError(
                f"{self._open_file.path} has only {len(data)} of {self.size} bytes at {self.position}: it was truncated"
            )
        return data


class Isolation(enum.IntEnum):
    """The isolation level of a read. The numbers are the protocol's; LOG_END is for replicas, which read everything."""

    LOG_END = -1
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class FetchSlice(NamedTuple):
    """The result of a read.

    Attributes:
        records: the batches, beginning with the one that contains the requested offset; the last may be truncated.
        high_watermark, last_stable_offset, log_start_offset: the log's offsets at the time of the read.
        aborted: (producer id, first offset) of aborted transactions in the range, None unless the
            read was READ_COMMITTED.
    """

    records: FileRange
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] | None


class OffsetAndTimestamp(NamedTuple):
    """The offset, timestamp in milliseconds and leader epoch (-1 if unknown) of a record found by timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int
