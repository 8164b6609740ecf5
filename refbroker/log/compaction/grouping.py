"""Groups of segments to rewrite into one: neighbours that together fit the size of a segment.

Without groups a log that is often compacted would become a long sequence of tiny segments. The limits apply to the
input, not to the result: segments of 0.5, 0.4, 0.7 and 0.2 GB with `segment.bytes` of 1 GB become two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

INT32_MAX = 2**31 - 1


class Measured(Protocol):
    """A segment as grouping sees it; sizes are in bytes."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def offset_index_bytes(self) -> int: ...
    @property
    def time_index_bytes(self) -> int: ...


Segments = TypeVar("Segments", bound=Measured)


def group_segments(
    segments: Sequence[Segments], max_size: int, max_index_size: int, first_uncleanable_offset: int
) -> list[list[Segments]]:
    """Divide segments, ascending by offset, into groups of neighbours.

    Parameters:
        max_size: the maximum bytes of records in a group of several segments.
        max_index_size: the maximum bytes of each index.
        first_uncleanable_offset: an upper bound of the last segment's end.

    Returns:
        The groups in order; a segment that is too large for a group is alone.
    """
    groups: list[list[Segments]] = []
    ends = [*(segment.base_offset for segment in segments), first_uncleanable_offset][1:]
    size = offset_index = time_index = 0
    for segment, end in zip(segments, ends, strict=True):
        size += segment.size
        offset_index += segment.offset_index_bytes
        time_index += segment.time_index_bytes
        # Offsets in an index are relative to the group's first and have 31 bits. Only segments with records count, or
        # an empty segment would remain for every 2**31 offsets that were compacted away.
        reachable = bool(groups) and (not segment.size or end - 1 - groups[-1][0].base_offset <= INT32_MAX)
        if reachable and size <= max_size and max(offset_index, time_index) <= max_index_size:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, offset_index, time_index = segment.size, segment.offset_index_bytes, segment.time_index_bytes
    return groups
