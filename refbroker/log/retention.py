"""Which segments of a log may go: by its start, by size, by time. Decides only; `PartitionLog` deletes.

Always the oldest ones, up to the first that must stay, and none that reaches beyond the high watermark. Source: the
`deleteOldSegments` of Kafka's UnifiedLog.
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
    """Delete what the settings of a log let go, and say how many segments that were.

    Parameters:
        now_ms: the time, milliseconds since the epoch.
        at_most: leave more than so many segments of each kind to the next call.

    Raises:
        KafkaStorageError: the disk fails.
    """
    deleted = log.delete_segments(before_log_start(log)[:at_most], "they lie before the log start")
    if log.config.deletes:
        reason = f"the log has more than {log.config.retention_bytes} bytes"
        deleted += log.delete_segments(beyond_size(log)[:at_most], reason)
        reason = f"they are older than {log.config.retention_ms} ms"
        with log.health.guard(f"look at {log.directory}", log.topic, log.partition, can_repeat=True):
            too_old = expired(log, now_ms)
        deleted += log.delete_segments(too_old[:at_most], reason)
    return deleted


def before_log_start(log: PartitionLog) -> list[Segment]:
    """The segments that end before the log start, as DeleteRecords leaves them."""
    return _oldest(log, lambda segment, follower: follower is not None and follower.base_offset <= log.log_start_offset)


def beyond_size(log: PartitionLog) -> list[Segment]:
    """The oldest segments as long as what is over the limit covers a whole one."""
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
    """The oldest segments whose youngest record is too old."""
    limit = log.config.retention_ms
    if limit < 0:
        return []

    def too_old(segment: Segment, follower: Segment | None) -> bool:
        largest = segment.largest_timestamp()
        if largest > now_ms:
            logger.warning("%s has timestamps in the future, and stays until these are past", segment.path)
        return now_ms - largest > limit

    return _oldest(log, too_old)


def _oldest(log: PartitionLog, condition: Condition) -> list[Segment]:
    """The segments from the first on that fulfil the condition; an active one only if it has records."""
    found: list[Segment] = []
    segments: Sequence[Segment] = list(log.segments)
    for segment, follower in zip(segments, [*segments[1:], None], strict=True):
        end = log.log_end_offset if follower is None else follower.base_offset
        empty_active = follower is None and not segment.size
        if end > log.high_watermark or empty_active or not condition(segment, follower):
            break
        found.append(segment)
    return found
