"""The choice of segments to delete: before the log start offset, by size, and by time.

Segments are deleted from the oldest on, up to the first that must stay or that extends beyond the high watermark.
Elsewhere: `PartitionLog` deletes them. Source: `deleteOldSegments` of Kafka's UnifiedLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from refbroker.log.segment import Segment

if TYPE_CHECKING:
    from refbroker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

Condition = Callable[[Segment, Segment | None], bool]


def delete_old_segments(log: PartitionLog, now_ms: int, *, at_most: int | None = None) -> int:
    """Delete the segments that retention permits to delete, and return their number.

    Parameters:
        now_ms: the time, milliseconds since the epoch.
        at_most: the most segments to delete for each reason; None for no limit.

    Raises:
        KafkaStorageError: the disk fails.
    """
    deleted = log.delete_segments(before_log_start(log)[:at_most], "they are before the log start offset")
    if log.config.deletes:
        reason = f"the log has more than {log.config.retention_bytes} bytes"
        deleted += log.delete_segments(beyond_size(log)[:at_most], reason)
        reason = f"they are older than {log.config.retention_ms} ms"
        with log.health.guard(f"read {log.directory}", log.topic, log.partition, can_repeat=True):
            too_old = expired(log, now_ms)
        deleted += log.delete_segments(too_old[:at_most], reason)
    return deleted


def before_log_start(log: PartitionLog) -> list[Segment]:
    """Return the segments that end before the log start offset, which DeleteRecords advances."""
    return _oldest(log, lambda segment, follower: follower is not None and follower.base_offset <= log.log_start_offset)


def beyond_size(log: PartitionLog) -> list[Segment]:
    """Return the oldest segments whose removal leaves at least `retention.bytes`."""
    limit = log.config.retention_bytes
    if limit < 0:
        return []
    excess = log.size_in_bytes() - limit

    def covered(segment: Segment, follower: Segment | None) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return _oldest(log, covered)


def expired(log: PartitionLog, now_ms: int) -> list[Segment]:
    """Return the oldest segments whose largest timestamp is older than `retention.ms`."""
    limit = log.config.retention_ms
    if limit < 0:
        return []

    def too_old(segment: Segment, follower: Segment | None) -> bool:
        largest = segment.largest_timestamp()
        if largest > now_ms:
            logger.warning("%s has timestamps in the future and is kept until they have passed", segment.path)
        return now_ms - largest > limit

    return _oldest(log, too_old)


def _oldest(log: PartitionLog, condition: Condition) -> list[Segment]:
    """Return the segments from the oldest on that fulfil the condition, including the active one if it has records."""
    found: list[Segment] = []
    segments: Sequence[Segment] = list(log.segments)
    for segment, follower in zip(segments, [*segments[1:], None], strict=True):
        end = log.log_end_offset if follower is None else follower.base_offset
        empty_active = follower is None and not segment.size
        if end > log.high_watermark or empty_active or not condition(segment, follower):
            break
        found.append(segment)
    return found
