"""Lookups in the segments of a log: by offset, by timestamp, by the largest timestamp, and of aborted transactions."""

from __future__ import annotations

from refbroker.log.file_range import FileRange, OffsetAndTimestamp
from refbroker.log.log_segments import LogSegments
from refbroker.log.segment import Segment


def find_range(
    segments: LogSegments, offset: int, limit: int | None, max_bytes: int, *, min_one_batch: bool
) -> tuple[Segment, FileRange] | None:
    """Return a segment and the range of its batches from the one with `offset` on; None if there are no such batches.

    Parameters:
        limit: the offset to stop at; None for the end of the segment.
        max_bytes: the most bytes to return; the last batch may be truncated.
        min_one_batch: return the first batch whole even if it is larger than `max_bytes`.
    """
    for segment in segments.from_offset(offset):
        header = segment.find(offset)
        if header is None:
            continue
        end = segment.size
        if limit is not None and (beyond := segment.find(limit)) is not None:
            end = beyond.position
        wanted = max(max_bytes, header.size_in_bytes) if min_one_batch else max_bytes
        return segment, segment.range(header.position, max(min(wanted, end - header.position), 0))
    return None


def find_aborted(
    segments: LogSegments, offset: int, segment: Segment, records: FileRange, log_end_offset: int
) -> tuple[tuple[int, int], ...]:
    """Return producer id and first offset of each aborted transaction with records in a range.

    Parameters:
        offset: the fetch offset.
        segment, records: the result of `find_range` for that offset.
    """
    following = segments.from_offset(segment.base_offset)
    end = segment.offset_index.end_offset_at(records.position + records.size)
    if end is None:
        end = following[1].base_offset if len(following) > 1 else log_end_offset
    found: list[tuple[int, int]] = []
    for candidate in following:
        aborted, complete = candidate.transaction_index.overlapping(offset, end)
        found += [(entry.producer_id, entry.first_offset) for entry in aborted]
        if complete:
            break
    return tuple(found)


def find_timestamp(segments: LogSegments, log_start_offset: int, timestamp_ms: int) -> OffsetAndTimestamp | None:
    """Return the first record from the log start on whose timestamp is at least `timestamp_ms`, or None."""
    for segment in segments.from_offset(log_start_offset):
        if segment.max_timestamp.timestamp >= timestamp_ms:
            found = segment.find_timestamp(timestamp_ms, log_start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: LogSegments, log_start_offset: int) -> OffsetAndTimestamp | None:
    """Return the first record with the largest timestamp, None if no record has a timestamp."""
    candidates = segments.from_offset(log_start_offset)
    return max(candidates, key=lambda segment: segment.max_timestamp.timestamp).find_max_timestamp()
