"""The segments of a log in order, found by offset."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from refbroker.log.segment import Segment


class LogSegments:
    """Segments by base offset, ascending. The last one is the active one."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._bases: list[int] = []

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

    def remove(self, segment: Segment) -> None:
        """Let go of a segment; its file stays.

        Raises:
            ValueError: it is not among them.
        """
        index = self._bases.index(segment.base_offset)
        del self._bases[index]
        del self._segments[index]

    def index_of(self, offset: int) -> int:
        """The index of the segment in which the offset would be, 0 when it lies before all of them."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment in which the offset would be, and those after it."""
        return self._segments[self.index_of(offset) :]

    @property
    def size_in_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)
