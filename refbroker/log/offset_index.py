"""The offset index, `<base offset>.index`, which maps offsets to positions in the segment file.

Entries of 8 bytes, big-endian, ascending in both fields, one for about every
`index.interval.bytes` of records:

    offset  size  field
         0     4  offset of the last record of a batch, minus the segment's base offset
         4     4  position of that batch in the segment file

A lookup finds the last entry at or below the offset; the batch is at that position or after it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import NamedTuple

from refbroker.log.index_file import IndexFile

INT32_MAX = 2**31 - 1


class OffsetPosition(NamedTuple):
    """An offset, and the position in the segment file to search for it from."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """The offset index of one segment. Parameters as for `IndexFile`."""

    entry_size = 8
    _entry = struct.Struct(">ii")

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries

    @property
    def last(self) -> OffsetPosition:
        """The last entry; (base offset, 0) if the index is empty."""
        return self.entry(self.entries - 1) if self.entries else OffsetPosition(self.base_offset, 0)

    def entry(self, number: int) -> OffsetPosition:
        relative, position = self._entry.unpack(self.read_entries(number, 1))
        return OffsetPosition(self.base_offset + relative, position)

    def takes(self, offset: int) -> bool:
        """Return whether the offset relative to the base offset fits an entry."""
        return 0 <= offset - self.base_offset <= INT32_MAX

    def append(self, offset: int, position: int) -> None:
        """Add the batch whose last record has `offset` and which starts at `position`."""
        self.append_entry(self._entry.pack(offset - self.base_offset, position))

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below `offset`; (base offset, 0) if all entries are later."""
        slot = self._slot(offset)
        return OffsetPosition(self.base_offset, 0) if slot < 0 else self.entry(slot)

    def _slot(self, offset: int) -> int:
        if offset < self.base_offset:
            return -1
        return self.slot_at_or_below(min(offset - self.base_offset, INT32_MAX).to_bytes(4, "big"))

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or after an offset, and be the index of an active segment."""
        self.keep_entries(self._slot(offset - 1) + 1)

    def end_offset_at(self, position: int) -> int | None:
        """Return an offset that all batches before `position` end before, None for the end of the segment."""
        slot = bisect_left(range(self.entries), position, key=lambda number: self.entry(number).position)
        return None if slot == self.entries else self.entry(slot).offset

    def is_sane(self, segment_bytes: int, end_offset: int | None) -> bool:
        """Return whether the file can be this segment's index: complete entries with plausible first and last values.

        Parameters:
            segment_bytes: the size of the segment file.
            end_offset: the base offset of the next segment, None for the last segment.
        """
        if self.misaligned:
            return False
        if not self.entries:
            return True
        first, last = self.entry(0), self.last
        in_order = self.entries == 1 or (first.offset < last.offset and first.position < last.position)
        return (
            in_order
            and first.offset >= self.base_offset
            and 0 <= first.position <= last.position < segment_bytes
            and (end_offset is None or last.offset < end_offset)
        )
