"""The choice of the next log to compact, and of the end of the pass.

A compacted log has two parts, divided by its first dirty offset (the `cleaner-offset-checkpoint`): the clean part
before it, where a key has one record at most, and the dirty part. The dirty part can be cleaned up to the first segment
that is active, extends beyond the last stable offset, or is too recent (`min.compaction.lag.ms`). The log with the
largest ratio of dirty bytes comes first, once that is above its `min.cleanable.dirty.ratio`, or at any ratio when a
dirty segment is older than `max.compaction.lag.ms`. This module only decides; it changes no log.

Source: `cleanableOffsets` and `grabFilthiestCompactedLog` of Kafka's LogCleanerManager, and LogToClean.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from refbroker.log.config import INT64_MAX
from refbroker.log.partition_log import PartitionLog
from refbroker.log.segment import Segment

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogToClean:
    """A log, and its part that can be cleaned.

    Attributes:
        first_dirty_offset: the start of the dirty part.
        first_uncleanable_offset: the end of the part that can be cleaned.
        clean_bytes, cleanable_bytes: the sizes of both parts.
        overdue_ms: for how long a dirty segment has been older than `max.compaction.lag.ms`, 0 for none.
    """

    log: PartitionLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        """Its dirty fraction, from 0 to 1."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether it must be cleaned now."""
        overdue = self.overdue_ms > 0 and self.cleanable_bytes > 0
        return overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def measure(log: PartitionLog, now_ms: int) -> LogToClean:
    """Return what can be cleaned of a log now.

    Raises:
        OSError: the disk fails.
        CorruptRecordError: a dirty segment does not begin with a batch.
    """
    segments = log.segments
    first_dirty = first_dirty_offset(log)
    # Only whole segments are cleaned, so the part ends at the end of a segment.
    end = segments.index_of(max(first_dirty, _first_uncleanable_offset(log, first_dirty, now_ms)))
    dirty = segments.index_of(first_dirty)
    return LogToClean(
        log,
        first_dirty,
        segments[end].base_offset,
        clean_bytes=sum(segments[index].size for index in range(min(dirty, end))),
        cleanable_bytes=sum(segments[index].size for index in range(dirty, end)),
        overdue_ms=_overdue_ms(log, first_dirty, now_ms),
    )


def first_dirty_offset(log: PartitionLog) -> int:
    """Return the start of the dirty part of a log; a checkpoint outside of the log is ignored."""
    start, checkpoint = log.log_start_offset, log.cleaned_up_to
    if checkpoint is None:
        return start
    if checkpoint < start:
        if not log.config.deletes:
            logger.warning(
                "%s-%d was clean up to %d, which is before its start; all of it from %d on counts as dirty",
                log.topic, log.partition, checkpoint, start,
            )  # fmt: skip
        return start
    if checkpoint > log.log_end_offset:
        logger.warning(
            "%s-%d was clean up to %d, which is behind its end %d; all of it counts as dirty",
            log.topic, log.partition, checkpoint, log.log_end_offset,
        )  # fmt: skip
        return start
    return checkpoint


def _dirty_segments(log: PartitionLog, first_dirty: int) -> list[Segment]:
    """Return the segments of the dirty part without the active one."""
    return [segment for segment in log.segments.from_offset(first_dirty) if segment is not log.segments.active]


def _first_uncleanable_offset(log: PartitionLog, first_dirty: int, now_ms: int) -> int:
    limit = min(log.last_stable_offset, log.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in _dirty_segments(log, first_dirty):
            if segment.max_timestamp.timestamp > now_ms - lag_ms:
                return min(limit, segment.base_offset)
    return limit


def _overdue_ms(log: PartitionLog, first_dirty: int, now_ms: int) -> int:
    """Return for how long the oldest dirty segment, by the first batch of each, has been due whatever the ratio."""
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == INT64_MAX:
        return 0
    firsts = (next(segment.headers(), None) for segment in _dirty_segments(log, first_dirty))
    timestamps = [header.max_timestamp for header in firsts if header is not None and header.max_timestamp > 0]
    return max(now_ms - lag_ms - min(timestamps), 0) if timestamps else 0


def choose(candidates: Iterable[LogToClean]) -> LogToClean | None:
    """Return the dirtiest of the due logs; None without one."""
    return max((log for log in candidates if log.is_due), key=lambda log: log.dirty_ratio, default=None)
