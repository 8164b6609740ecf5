"""The time index, `<base offset>.timeindex`: from which offset on records may be as young as a time.

Entries of 12 bytes, big-endian, the time strictly ascending:

    offset  size  field
         0     8  the largest timestamp of the segment so far, milliseconds since the epoch
         8     4  last offset of the batch that has it, minus the segment's base offset

An entry says: no record up to that offset is younger than the timestamp. It is written together
with an entry of the offset index if the timestamp grew, and once more for the largest timestamp when
the segment is rolled or closed, so the last entry of a closed segment tells how young it is.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from refbroker.log.index_file import IndexFile

INT32_MAX = 2**31 - 1


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds and an offset; the timestamp is -1 for none."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """The time index of one segment. Parameters as for `IndexFile`."""

    entry_size = 12
    _entry = struct.Struct(">qi")
    _last: TimestampOffset | None = None

    @property
    def is_full(self) -> bool:
        # One place stays free for the entry that closes the segment.
        return self.entries >= self.max_entries - 1

    @property
    def last(self) -> TimestampOffset:
        """The last entry; (-1, base offset) when there is none."""
        if self._last is None:
            self._last = self.entry(self.entries - 1) if self.entries else TimestampOffset(-1, self.base_offset)
        return self._last

    def entry(self, number: int) -> TimestampOffset:
        timestamp, relative = self._entry.unpack(self.read_entries(number, 1))
        return TimestampOffset(timestamp, self.base_offset + relative)

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is later than that of the last one."""
        if timestamp > self.last.timestamp:
            self.append_entry(self._entry.pack(timestamp, offset - self.base_offset))
            self._last = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or below `timestamp`; (-1, base offset) when there is none."""
        slot = -1 if timestamp < 0 else self.slot_at_or_below(timestamp.to_bytes(8, "big"))
        return TimestampOffset(-1, self.base_offset) if slot < 0 else self.entry(slot)

    def clear(self) -> None:
        super().clear()
        self._last = None

    def is_sane(self, end_offset: int | None) -> bool:
        """Whether the file can be a time index of this segment: whole entries that begin and end where they may.

        Parameters:
            end_offset: where the next segment begins, None when there is none.
        """
        if self.misaligned:
            return False
        if not self.entries:
            return True
        first, last = self.entry(0), self.last
        return (
            (self.entries == 1 or first.timestamp < last.timestamp)
            and self.base_offset <= first.offset <= last.offset
            and (end_offset is None or last.offset < end_offset)
        )
