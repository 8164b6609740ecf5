"""Finding things in the segments of a log: by offset, by time, by the largest time."""

from __future__ import annotations

from refbroker.log.file_range import FileRange, OffsetAndTimestamp
from refbroker.log.log_segments import LogSegments


def find_range(
    segments: LogSegments, offset: int, limit: int | None, max_bytes: int, *, min_one_batch: bool
) -> FileRange | None:
    """The batches from the one that holds `offset` on, within one segment; None when there are none.

    Parameters:
        limit: the offset to stop at; None for the end.
        max_bytes: how many bytes at most; the last batch may be cut off.
        min_one_batch: give the first batch whole even when it is larger than `max_bytes`.
    """
    for segment in segments.from_offset(offset):
        header = segment.find(offset)
        if header is None:
            continue
        end = segment.size
        if limit is not None and (beyond := segment.find(limit)) is not None:
            end = beyond.position
        wanted = max(max_bytes, header.size_in_bytes) if min_one_batch else max_bytes
        return segment.range(header.position, max(min(wanted, end - header.position), 0))
    return None


def find_timestamp(segments: LogSegments, log_start_offset: int, timestamp_ms: int) -> OffsetAndTimestamp | None:
    """The first record from the log start on that is not older than a time, None when all are older."""
    for segment in segments.from_offset(log_start_offset):
        if segment.max_timestamp.timestamp >= timestamp_ms:
            found = segment.find_timestamp(timestamp_ms, log_start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: LogSegments, log_start_offset: int) -> OffsetAndTimestamp | None:
    """The first record with the largest timestamp, None when no record has one."""
    candidates = segments.from_offset(log_start_offset)
    return max(candidates, key=lambda segment: segment.max_timestamp.timestamp).find_max_timestamp()
