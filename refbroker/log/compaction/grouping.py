"""Which segments are rewritten into one: neighbours that together stay within the size of a segment.

Without grouping a log that is compacted again and again would end as a long row of tiny segments.
The limits hold for what goes in, not for what comes out: segments of 0.5, 0.4, 0.7 and 0.2 GB with
`segment.bytes` of 1 GB become two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

INT32_MAX = 2**31 - 1


class Measured(Protocol):
    """What grouping looks at of a segment; sizes are in bytes."""

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
        max_size: the most bytes of records in a group of several.
        max_index_size: the most bytes of either index.
        first_uncleanable_offset: where the last of the segments ends at the latest.

    Returns:
        The groups in order; a segment that is too large for any company is alone.
    """
    groups: list[list[Segments]] = []
    ends = [*(segment.base_offset for segment in segments), first_uncleanable_offset][1:]
    size = offset_index = time_index = 0
    for segment, end in zip(segments, ends, strict=True):
        size += segment.size
        offset_index += segment.offset_index_bytes
        time_index += segment.time_index_bytes
        # Offsets in an index are relative to the group's first and have 31 bits. Only what holds records counts,
        # or else an empty segment would be left behind for every 2**31 offsets that were compacted away.
        reachable = bool(groups) and (not segment.size or end - 1 - groups[-1][0].base_offset <= INT32_MAX)
        if reachable and size <= max_size and max(offset_index, time_index) <= max_index_size:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, offset_index, time_index = segment.size, segment.offset_index_bytes, segment.time_index_bytes
    return groups
