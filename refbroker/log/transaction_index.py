"""The index of aborted transactions, `<base offset>.txnindex`: which records a committed reader must skip.

Entries of 34 bytes, big-endian, one for each transaction whose abort marker lies in the segment, in the order of
the markers; the transaction may have begun in an earlier segment:

    offset  size  field
         0     2  version, 0
         2     8  producer id
        10     8  first offset of the transaction in this partition
        18     8  last offset: that of the marker
        26     8  last stable offset: the first offset of what was undecided still, else the offset after the marker

The file is made with its first entry and is not preallocated. A fetch with READ_COMMITTED is answered with
the entries that overlap what it reads; the search goes on in later segments until an entry says that
everything read was decided by then. Source: KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from refbroker.log.files import Files, OpenFile

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0
# Read at once.
_BLOCK_BYTES = _ENTRY.size * 240


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted, in one partition.

    Attributes:
        first_offset: of its first record.
        last_offset: of its marker.
        last_stable_offset: before it everything was decided once the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment.

    Parameters:
        files: the disk.
        path: the file; it need not be there.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self.path = path
        self._files = files
        self._file: OpenFile | None = files.open(path) if files.exists(path) else None
        self._size = 0 if self._file is None else files.size(self._file)

    @property
    def file(self) -> OpenFile | None:
        """The file, None while there is none."""
        return self._file

    @property
    def size_in_bytes(self) -> int:
        return self._size

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose marker follows those of all others."""
        if self._file is None:
            self._file = self._files.open(self.path, create=True)
        self._files.pwrite(self._file, [_ENTRY.pack(_VERSION, *aborted)], self._size)
        self._size += _ENTRY.size

    def entries(self) -> Iterator[AbortedTransaction]:
        """All of them, in the order of their markers."""
        for version, *fields in self._rows():
            if version == _VERSION:
                yield AbortedTransaction(*fields)

    def _rows(self) -> Iterator[tuple[int, ...]]:
        for position in range(0, self._size - self._size % _ENTRY.size, _BLOCK_BYTES):
            assert self._file is not None
            block = self._files.pread(self._file, min(_BLOCK_BYTES, self._size - position), position)
            yield from _ENTRY.iter_unpack(block[: len(block) // _ENTRY.size * _ENTRY.size])

    def overlapping(self, first_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The transactions with records from `first_offset` to before `end_offset`, and whether those are all."""
        found = []
        for entry in self.entries():
            if entry.last_offset >= first_offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate_to(self, end_offset: int) -> None:
        """Forget the transactions whose markers are at or after `end_offset`."""
        if self._file is not None:
            kept = sum(1 for entry in self.entries() if entry.last_offset < end_offset)
            self._size = kept * _ENTRY.size
            self._files.truncate(self._file, self._size)

    def is_sane(self, base_offset: int) -> bool:
        """Whether the file can be the index of a segment: whole entries of this version, their markers ascending."""
        if self._size % _ENTRY.size:
            return False
        before = base_offset - 1
        for version, _, first_offset, last_offset, _ in self._rows():
            if version != _VERSION or last_offset <= before or not 0 <= first_offset <= last_offset:
                return False
            before = last_offset
        return True
