"""The segments of a log in order, found by offset."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from refbroker.log.segment import Segment


class LogSegments:
    """Segments in ascending order of base offset. The last is active; once the log is open, the others do not grow.

    Only the writer of the log may use it, except for `size_in_bytes`, which any thread may read.
    """

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._changes = 0
        # The number of changes, and the size of all inactive segments after that many changes.
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
        """Insert a segment in the order of base offsets."""
        index = bisect_left(self._bases, segment.base_offset)
        self._bases.insert(index, segment.base_offset)
        self._segments.insert(index, segment)
        self._changes += 1

    def remove(self, segment: Segment) -> None:
        """Remove a segment from the list, without removing its files.

        Raises:
            ValueError: the segment is not in the list.
        """
        index = self._bases.index(segment.base_offset)
        del self._bases[index]
        del self._segments[index]
        self._changes += 1

    def index_of(self, offset: int) -> int:
        """Return the index of the segment that covers the offset, 0 if the offset is before all segments."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def from_offset(self, offset: int) -> list[Segment]:
        """Return the segment that covers the offset, and those after it."""
        return self._segments[self.index_of(offset) :]

    @property
    def size_in_bytes(self) -> int:
        """The total size in bytes. It is read at each append, so the size of inactive segments is cached."""
        changes, size = self._settled
        if changes != self._changes:
            changes = self._changes
            size = sum(segment.size for segment in self._segments[:-1])
            self._settled = (changes, size)
        return size + (self._segments[-1].size if self._segments else 0)
