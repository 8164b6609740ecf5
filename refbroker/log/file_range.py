"""What a read of the log gives: a range of a segment file, which the response sends without looking inside."""

from __future__ import annotations

import enum
from typing import NamedTuple

from refbroker.log.files import Files, OpenFile, storage_errors


class FileRange:
    """Bytes in a segment file. The file stays open, and its bytes there, as long as the range is held.

    Attributes:
        position: where in the file it starts, in bytes.
        size: how many bytes; 0 for an empty answer, which has no file.
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

    def read(self) -> bytes:
        """The bytes.

        Raises:
            KafkaStorageError: the disk fails.
        """
        if self._open_file is None or not self.size:
            return b""
        with storage_errors(f"read {self._open_file.path}"):
            return self._files.pread(self._open_file, self.size, self.position)


class Isolation(enum.IntEnum):
    """What a reader sees: everything replicated, or only what is decided. The numbers are the protocol's."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class FetchSlice(NamedTuple):
    """The answer to a read.

    Attributes:
        records: the batches, the first of which has the offset asked for; the last may be cut off.
        high_watermark, last_stable_offset, log_start_offset: of the log at the time of the read.
        aborted: (producer id, first offset) of aborted transactions in the range, None unless the
            read was READ_COMMITTED.
    """

    records: FileRange
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] | None


class OffsetAndTimestamp(NamedTuple):
    """A record found by time: its offset, timestamp in milliseconds and leader epoch (-1 when unknown)."""

    offset: int
    timestamp: int
    leader_epoch: int
