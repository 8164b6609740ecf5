"""Readers of offset, time and transaction indexes, which compare the entries with the segment.

The index of an active segment is preallocated, so zeros follow its entries: except for the first entry, a relative
offset of 0 marks the end. Indexes are read in chunks, so memory does not depend on their size.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from kclient.errors import CorruptRecordError
from kclient.records import BatchHeader, read_batches
from refbroker.dump.entries import DamagedFileError, DumpOptions, Entry, Findings, base_offset
from refbroker.log import Files
from refbroker.log.batches import read_batch, scan_headers
from refbroker.log.files import OpenFile

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")
_ENTRIES_AT_ONCE = 4096
_NO_OFFSET = -1


def read_offset_index(path: Path, options: DumpOptions, findings: Findings) -> Iterator[Entry]:
    """Yield the entries of an offset index; each must point to a batch that ends with the entry's offset.

    Raises:
        DamagedFileError: the sanity check fails, an entry does not point to a batch, or the segment is missing.
    """
    base = base_offset(path)
    files = Files()
    index = files.open(path, writable=False)
    size = files.size(index)
    if size < _OFFSET_ENTRY.size:
        yield Entry({"entries": 0}, text=f"{path} is empty.")
        return
    if options.index_sanity_check:
        last, _ = _entry_at(files, index, _OFFSET_ENTRY, size // _OFFSET_ENTRY.size - 1)
        if last < 0:
            raise DamagedFileError(
                f"Corrupt index found, index file {path.absolute()} has non-zero size but the last offset is "
                f"{base + last} which is less than the base offset {base}"
            )
        _check_size("Index", path, size, _OFFSET_ENTRY.size)
        yield _passed(path)
        return
    segment = _Segment(files, path)
    for number, (relative, position) in enumerate(_entries(files, index, _OFFSET_ENTRY)):
        if number and not relative:
            return
        damage = None
        try:
            found = segment.first_batch(position, options.max_message_size)
        except DamagedFileError as error:
            damage = error
        else:
            if found.last_offset != base + relative:
                findings.index_mismatches.setdefault(path.absolute(), {})[base + relative] = found.last_offset
        if not options.verify_index_only:
            yield Entry({"offset": base + relative, "position": position})
        if damage is not None:
            raise damage


def read_time_index(path: Path, options: DumpOptions, findings: Findings) -> Iterator[Entry]:
    """Yield the entries of a time index; each must hold the last offset of a batch and its largest timestamp.

    Raises:
        DamagedFileError: the index fails the sanity check, or the segment is missing or cannot be read.
    """
    base = base_offset(path)
    files = Files()
    index = files.open(path, writable=False)
    if options.index_sanity_check:
        _check_time_index(files, index, path, base)
        yield _passed(path)
        return
    batches = _Segment(files, path).batches()
    previous = _NO_OFFSET
    for number, (timestamp, relative) in enumerate(_entries(files, index, _TIME_ENTRY)):
        if number and not relative:
            return
        batch = batches.find(base + relative)
        if batch is None or batch.last_offset != base + relative:
            missing = _NO_OFFSET if batch is None else batch.last_offset
            findings.offsets_not_found.setdefault(path.absolute(), []).append((base + relative, missing))
        else:
            largest = batches.largest_timestamp(batch)
            if largest != timestamp:
                findings.timestamp_mismatches.setdefault(path.absolute(), []).append((timestamp, largest))
            if previous >= timestamp:
                findings.out_of_order_timestamps.setdefault(path.absolute(), []).append((timestamp, previous))
        if not options.verify_index_only:
            yield Entry({"timestamp": timestamp, "offset": base + relative})
        previous = timestamp


def _check_time_index(files: Files, index: OpenFile, path: Path, base: int) -> None:
    size = files.size(index)
    count = size // _TIME_ENTRY.size
    start = f"Corrupt time index found, time index file ({path.absolute()}) has non-zero size but the last"
    if count:
        first, _ = _entry_at(files, index, _TIME_ENTRY, 0)
        last, relative = _entry_at(files, index, _TIME_ENTRY, count - 1)
        if last < first:
            raise DamagedFileError(f"{start} timestamp is {last} which is less than the first timestamp {first}")
        if relative < 0:
            raise DamagedFileError(f"{start} offset is {base + relative} which is less than the first offset {base}")
    _check_size("Time index", path, size, _TIME_ENTRY.size)


def read_transaction_index(path: Path, options: DumpOptions, findings: Findings) -> Iterator[Entry]:
    """Yield the aborted transactions of a segment.

    Raises:
        DamagedFileError: an entry has an unknown version, or the last one is truncated.
    """
    files = Files()
    index = files.open(path, writable=False)
    for version, producer_id, first, last, stable in _entries(files, index, _ABORTED_ENTRY):
        if version > 0:
            raise DamagedFileError(
                f"Unexpected aborted transaction version {version} in transaction index {path.absolute()}, "
                "current version is 0"
            )
        yield Entry(
            {
                "version": version,
                "producerId": producer_id,
                "firstOffset": first,
                "lastOffset": last,
                "lastStableOffset": stable,
            }
        )
    _check_size("Transaction index", path, files.size(index), _ABORTED_ENTRY.size)


def _check_size(what: str, path: Path, size: int, entry_size: int) -> None:
    if size % entry_size:
        raise DamagedFileError(
            f"{what} file {path.absolute()} is corrupt, found {size} bytes which is neither positive "
            f"nor a multiple of {entry_size}"
        )


def _passed(path: Path) -> Entry:
    return Entry({"sanityCheck": "passed"}, text=f"{path} passed sanity check.")


def _entries(files: Files, index: OpenFile, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    position = 0
    while data := files.pread(index, _ENTRIES_AT_ONCE * entry.size, position):
        yield from entry.iter_unpack(data[: len(data) - len(data) % entry.size])
        position += len(data)


def _entry_at(files: Files, index: OpenFile, entry: struct.Struct, number: int) -> tuple[int, ...]:
    return entry.unpack(files.pread(index, entry.size, number * entry.size))


class _Segment:
    """The segment that an index belongs to: in the same folder, with the same suffix (such as `.deleted`) or without.

    Raises:
        DamagedFileError: the segment does not exist.
    """

    def __init__(self, files: Files, index: Path) -> None:
        stem, _, endings = index.name.partition(".")
        ending = endings.partition(".")[2]
        names = [f"{stem}.log.{ending}", f"{stem}.log"] if ending else [f"{stem}.log"]
        paths = [index.with_name(name) for name in names]
        self.path = next((path for path in paths if path.exists()), None)
        if self.path is None:
            raise DamagedFileError(
                f"the segment {paths[0].name} that the index belongs to does not exist; put it into the same folder"
            )
        self.files = files
        self.file = files.open(self.path, writable=False)
        self.size = files.size(self.file)

    def first_batch(self, position: int, max_bytes: int) -> BatchHeader:
        """Return the header of the batch at a position.

        Raises:
            DamagedFileError: no complete batch of at most `max_bytes` bytes begins there.
        """
        if not 0 <= position <= self.size:
            raise DamagedFileError(f"position {position} is not in the {self.size} bytes of {self.path}")
        end = min(self.size, position + max_bytes)
        try:
            header = next(scan_headers(self.files, self.file, position, end), None)
        except CorruptRecordError as error:
            raise DamagedFileError(error.message) from error
        if header is None:
            raise DamagedFileError(
                f"no record batch of at most {max_bytes} bytes is at position {position} of {self.path}"
            )
        return header

    def batches(self) -> _Batches:
        """Return the position and last offset of each batch up to the first incomplete batch."""
        offsets, positions = array("q"), array("q")
        try:
            for header in scan_headers(self.files, self.file, 0, self.size):
                offsets.append(header.last_offset)
                positions.append(header.position)
        except CorruptRecordError as error:
            raise DamagedFileError(error.message) from error
        return _Batches(self, offsets, positions)


class _Batches:
    """The batches of a segment, searchable by offset."""

    def __init__(self, segment: _Segment, offsets: array[int], positions: array[int]) -> None:
        self._segment = segment
        self._offsets = offsets
        self._positions = positions

    def find(self, offset: int) -> BatchHeader | None:
        """Return the header of the first batch that ends at or after `offset`; None if all end before it."""
        slot = bisect_left(self._offsets, offset)
        if slot == len(self._offsets):
            return None
        return self._segment.first_batch(self._positions[slot], self._segment.size)

    def largest_timestamp(self, header: BatchHeader) -> int:
        """Return the largest timestamp of a batch's records, in milliseconds; -1 if it has no records.

        Raises:
            DamagedFileError: the batch cannot be decoded.
        """
        try:
            [batch] = read_batches(read_batch(self._segment.files, self._segment.file, header), verify_checksum=False)
            return max((record.timestamp for record in batch.records()), default=-1)
        except CorruptRecordError as error:
            raise DamagedFileError(error.message) from error
