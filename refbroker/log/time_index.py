"""The time index, `<base offset>.timeindex`, which maps timestamps to offsets.

Entries of 12 bytes, big-endian, the time strictly ascending:

    offset  size  field
         0     8  the largest timestamp of the segment so far, milliseconds since the epoch
         8     4  last offset of the batch with that timestamp, minus the segment's base offset

An entry means that no record up to its offset has a later timestamp. It is written together with an entry of the
offset index if the largest timestamp has grown since the last entry. Rolling or closing the segment adds an entry for
the largest timestamp, so the last entry of a closed segment holds the segment's largest timestamp.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import NamedTuple

from refbroker.log.index_file import IndexFile

INT32_MAX = 2**31 - 1


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds and an offset; the timestamp is -1 if no record has one."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """The time index of one segment. Parameters as for `IndexFile`."""

    entry_size = 12
    _entry = struct.Struct(">qi")
    _last: TimestampOffset | None = None

    @property
    def is_full(self) -> bool:
        # One entry is reserved for the largest timestamp when the segment is closed.
        return self.entries >= self.max_entries - 1

    @property
    def last(self) -> TimestampOffset:
        """The last entry; (-1, base offset) if the index is empty."""
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
        """Return the last entry at or below `timestamp`; (-1, base offset) if all entries are later."""
        slot = -1 if timestamp < 0 else self.slot_at_or_below(timestamp.to_bytes(8, "big"))
        return TimestampOffset(-1, self.base_offset) if slot < 0 else self.entry(slot)

    def clear(self) -> None:
        super().clear()
        self._last = None

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or after an offset, and be the index of an active segment."""
        self._last = None
        self.keep_entries(bisect_left(range(self.entries), offset, key=lambda number: self.entry(number).offset))

    def is_sane(self, end_offset: int | None) -> bool:
        """Return whether the file can be this segment's index: complete entries with plausible first and last values.

        Parameters:
            end_offset: the base offset of the next segment, None for the last segment.
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
