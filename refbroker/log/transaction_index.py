"""The index of aborted transactions, `<base offset>.txnindex`, whose records a READ_COMMITTED reader must skip.

Entries of 34 bytes, big-endian, one for each transaction whose abort marker is in the segment, in the order of
the markers; the transaction may have begun in an earlier segment:

    offset  size  field
         0     2  version, 0
         2     8  producer id
        10     8  first offset of the transaction in this partition
        18     8  last offset: the offset of the marker
        26     8  last stable offset: the first offset of a transaction still open, else the offset after the marker

The file is created with its first entry and is not preallocated. The response to a READ_COMMITTED fetch contains the
entries that overlap the records read; the search continues in later segments until the last stable offset of an entry
is past those records. Source: KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from refbroker.log.files import Files, OpenFile

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0
# The bytes that one read returns.
_BLOCK_BYTES = _ENTRY.size * 240


class AbortedTransaction(NamedTuple):
    """An aborted transaction in one partition.

    Attributes:
        first_offset: the offset of its first record.
        last_offset: the offset of its marker.
        last_stable_offset: the last stable offset of the log after the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment.

    Parameters:
        files: the disk.
        path: the file; the first entry creates it.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self.path = path
        self._files = files
        self._file: OpenFile | None = files.open(path) if files.exists(path) else None
        self._size = 0 if self._file is None else files.size(self._file)

    @property
    def file(self) -> OpenFile | None:
        """The file, None until it has an entry."""
        return self._file

    @property
    def size_in_bytes(self) -> int:
        return self._size

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose marker is after the markers of all others."""
        if self._file is None:
            self._file = self._files.open(self.path, create=True)
        self._files.pwrite(self._file, [_ENTRY.pack(_VERSION, *aborted)], self._size)
        self._size += _ENTRY.size

    def entries(self) -> Iterator[AbortedTransaction]:
        """Yield all transactions, in the order of their markers."""
        for version, *fields in self._rows():
            if version == _VERSION:
                yield AbortedTransaction(*fields)

    def _rows(self) -> Iterator[tuple[int, ...]]:
        for position in range(0, self._size - self._size % _ENTRY.size, _BLOCK_BYTES):
            assert self._file is not None
            block = self._files.pread(self._file, min(_BLOCK_BYTES, self._size - position), position)
            yield from _ENTRY.iter_unpack(block[: len(block) // _ENTRY.size * _ENTRY.size])

    def overlapping(self, first_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions with records in [`first_offset`, `end_offset`), and whether that is all of them."""
        found = []
        for entry in self.entries():
            if entry.last_offset >= first_offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate_to(self, end_offset: int) -> None:
        """Remove the transactions whose markers are at or after `end_offset`."""
        if self._file is not None:
            kept = sum(1 for entry in self.entries() if entry.last_offset < end_offset)
            self._size = kept * _ENTRY.size
            self._files.truncate(self._file, self._size)

    def is_sane(self, base_offset: int) -> bool:
        """Return whether the file can be this segment's: complete entries of this version, with ascending markers."""
        if self._size % _ENTRY.size:
            return False
        before = base_offset - 1
        for version, _, first_offset, last_offset, _ in self._rows():
            if version != _VERSION or last_offset <= before or not 0 <= first_offset <= last_offset:
                return False
            before = last_offset
        return True
