"""The segments of a log in order, found by offset."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from refbroker.log.segment import Segment


class LogSegments:
    """Segments by base offset, ascending. The last one is the active one; once the log is open no other one grows.

    Belongs to who writes to the log; another thread may ask for the size.
    """

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._changes = 0
        # How large all but the active one are together, after how many changes.
        self._settled = (0, 0)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __contains__(self, segment: Segment) -> bool:
        at = bisect_left(self._bases, segment.base_offset)
        return at < len(self._segments) and self._segments[at] is segment

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def base_offsets(self) -> list[int]:
        return list(self._bases)

    def add(self, segment: Segment) -> None:
        """Take in a segment, at the place of its base offset."""
        index = bisect_left(self._bases, segment.base_offset)
        self._bases.insert(index, segment.base_offset)
        self._segments.insert(index, segment)
        self._changes += 1

    def remove(self, segment: Segment) -> None:
        """Let go of a segment; its file stays.

        Raises:
            ValueError: it is not among them.
        """
        index = self._bases.index(segment.base_offset)
        del self._bases[index]
        del self._segments[index]
        self._changes += 1

    def index_of(self, offset: int) -> int:
        """The index of the segment in which the offset would be, 0 when it lies before all of them."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment in which the offset would be, and those after it."""
        return self._segments[self.index_of(offset) :]

    @property
    def size_in_bytes(self) -> int:
        """How large they are together; asked for at each append, so that the segments are not gone through."""
        changes, size = self._settled
        if changes != self._changes:
            changes = self._changes
            size = sum(segment.size for segment in self._segments[:-1])
            self._settled = (changes, size)
        return size + (self._segments[-1].size if self._segments else 0)
