"""Finding things in the segments of a log: by offset, by time, by the largest time, and what was aborted there."""

from __future__ import annotations

from refbroker.log.file_range import FileRange, OffsetAndTimestamp
from refbroker.log.log_segments import LogSegments
from refbroker.log.segment import Segment


def find_range(
    segments: LogSegments, offset: int, limit: int | None, max_bytes: int, *, min_one_batch: bool
) -> tuple[Segment, FileRange] | None:
    """The batches from the one that holds `offset` on, within one segment, and which; None when there are none.

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
        return segment, segment.range(header.position, max(min(wanted, end - header.position), 0))
    return None


def find_aborted(
    segments: LogSegments, offset: int, segment: Segment, records: FileRange, log_end_offset: int
) -> tuple[tuple[int, int], ...]:
    """Producer id and first offset of the aborted transactions that a reader of a range must skip records of.

    Parameters:
        offset: what the reader asked for.
        segment, records: the range that was found for it.
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
