"""Truncation of a log to an offset, and emptying it to start at another one; for a follower whose leader has less.

Nothing that was removed may come back behind newer records, whatever a power failure leaves. So each step is on the
disk before the next one begins, and all are before the next append:

    1. the recovery point is lowered in the checkpoint: a crash from now on checks the segment that is cut; the records
       before the offset are flushed, so that no segment is lost before one whose name the next steps make durable
    2. the segments behind the offset are removed, the last one first, so that what remains is always the start of the
       log; their files are renamed, and removed after `file.delete.delay.ms`
    3. the segment with the offset is cut, with its indexes, and is active again
    4. the producers are loaded from the last snapshot before the offset and the batches after it; later snapshots are
       removed, since a start would take them for those of newer records
    5. the leader epochs that began at or behind the offset are removed
    6. a high watermark that was lowered is written

A log that is emptied to start further on first gets its new log start in the checkpoint: from then on a start removes
all that ends before it, so the segments can be removed together.

A batch that contains the offset is removed completely. The log then ends before the batch, where Kafka's would end at
the offset, with a hole.

Elsewhere: which offset (`refbroker.replication.divergence`). Compaction must be paused. Source: truncateTo and
truncateFullyAndStartAt of Kafka's UnifiedLog and LogManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from refbroker.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from refbroker.log.config import LogConfig
from refbroker.log.files import Files
from refbroker.log.leader_epochs import LeaderEpochCache
from refbroker.log.log_segments import LogSegments
from refbroker.log.producer_loading import ProducerLoader
from refbroker.log.producer_state import ProducerStates
from refbroker.log.segment import Segment
from refbroker.log.segment_changes import SegmentChanges

logger = logging.getLogger(__name__)


class TruncatedLog(Protocol):
    """The parts of a `PartitionLog` that a truncation changes."""

    directory: Path
    config: LogConfig
    segments: LogSegments
    epochs: LeaderEpochCache
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    recovery_point: int
    cleaned_up_to: int | None


class LogTruncation:
    """A truncation of one log.

    Parameters:
        log: the log.
        files: the disk.
        changes: of its segments.
        empty: a state of the log without producers.
        save: writes the checkpoint files with the given names, if the offsets in them have changed.
        now_ms: the time, milliseconds since the epoch.
    """

    def __init__(
        self,
        log: TruncatedLog,
        files: Files,
        changes: SegmentChanges,
        empty: ProducerStates,
        save: Callable[..., None],
        now_ms: int,
    ) -> None:
        self._log = log
        self._files = files
        self._changes = changes
        self._empty = empty
        self._save = save
        self._now_ms = now_ms

    def cut(self, offset: int) -> ProducerStates | None:
        """Remove the records from an offset on.

        Parameters:
            offset: the largest possible log end offset afterwards.

        Returns:
            The producers as of the new log end; None if there was nothing to remove.

        Raises:
            OSError: the disk fails.
        """
        log = self._log
        if offset >= log.log_end_offset:
            # A leader notes its epoch at the log end, and may have been replaced before any record.
            log.epochs.truncate_from_end(log.log_end_offset)
            return None
        if offset < log.segments[0].base_offset:
            return self.restart(offset)
        logger.info("Truncating %s to offset %d", log, offset)
        unflushed = [each for each in log.segments.from_offset(log.recovery_point) if each.base_offset < offset]
        log.recovery_point = min(log.recovery_point, offset)
        self._save(RECOVERY_POINTS)
        for segment in unflushed:
            self._files.fsync(segment.file)
        for segment in reversed([each for each in log.segments if each.base_offset > offset]):
            self._changes.remove([segment])
        end = log.segments.active.truncate_to(offset, self._now_ms)
        self._changes.truncated()
        return self._end_at(min(log.log_start_offset, end), end)

    def restart(self, offset: int) -> ProducerStates:
        """Remove all records, and start the log at an offset.

        Returns:
            The producers: an empty state.

        Raises:
            OSError: the disk fails.
        """
        log = self._log
        logger.info("Removing all records of %s, which starts at offset %d from now on", log, offset)
        log.recovery_point = min(log.recovery_point, offset)
        old = list(log.segments)
        groups: list[Sequence[Segment]] = [[segment] for segment in reversed(old)]
        if offset > log.log_end_offset:
            log.log_start_offset = offset
            self._save(RECOVERY_POINTS, LOG_START_OFFSETS)
            groups = [old]
        else:
            self._save(RECOVERY_POINTS)
        for group in groups:
            self._changes.remove(group)
        log.epochs.clear()
        new = Segment(self._files, log.directory, offset, log.config, created_ms=self._now_ms, create=True)
        log.segments.add(new)
        self._changes.truncated()
        return self._end_at(offset, offset)

    def _end_at(self, start: int, end: int) -> ProducerStates:
        """Take note of the new bounds, and return the producers as of the log end."""
        log = self._log
        log.log_start_offset, log.log_end_offset = start, end
        loader = ProducerLoader(self._files, log.directory, log.segments, self._empty, self._now_ms)
        loader.remove_snapshots([offset for offset in loader.snapshots() if not start < offset <= end])
        # Makes the name of a new segment durable, too.
        self._files.fsync_directory(log.directory)
        producers, snapshot = loader.states_at(start, end)
        self._changes.use_producers(producers, snapshot)
        log.epochs.truncate_from_end(end)
        log.high_watermark = max(min(log.high_watermark, end), start)
        log.recovery_point = end
        if log.cleaned_up_to is not None:
            log.cleaned_up_to = min(log.cleaned_up_to, end)
        self._save(RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)
        return producers
