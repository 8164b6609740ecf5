"""The changes of a log's segments: rolling, deleting the oldest ones, and replacing them by compacted ones.

A new segment begins with a snapshot of the producers, so that a start need not read the earlier ones. The files of a
deleted segment are renamed immediately, and removed after `file.delete.delay.ms`, so that readers can finish; the
snapshot at its first offset is deleted with it, unless another segment begins there.

Elsewhere: when that happens (`PartitionLog`, `retention`, `compaction`). Failures are OSErrors here, which the log
handles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from refbroker.log.config import LogConfig
from refbroker.log.deletions import Deletions
from refbroker.log.files import Files
from refbroker.log.flush import Unsynced
from refbroker.log.producer_snapshot import snapshot_path, write_snapshot
from refbroker.log.producer_state import ProducerStates
from refbroker.log.recovery import LoadedLog
from refbroker.log.segment import DELETED_SUFFIX, SEGMENT_SUFFIXES, Segment
from refbroker.log.validation import StampedBatch


class SegmentChanges:
    """Changes the segments of one log, and its files with them.

    Parameters:
        files: the disk.
        directory: the partition's directory.
        loaded: the log as found on the disk.
        config: the log's settings.
        unsynced: receives what a flush has to write.
        deletions: takes the files that are to be removed.
        clock: milliseconds since the epoch.
        roll_jitter: a number from 0 to 1 for each new segment, for `segment.jitter.ms`.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        loaded: LoadedLog,
        config: LogConfig,
        *,
        unsynced: Unsynced,
        deletions: Deletions,
        clock: Callable[[], int],
        roll_jitter: Callable[[], float],
    ) -> None:
        self._files = files
        self._directory = directory
        self._segments = loaded.segments
        self._producers = loaded.producers
        self._snapshot_offset = loaded.snapshot_offset
        self._unsynced = unsynced
        self._deletions = deletions
        self._clock = clock
        self._roll_jitter = roll_jitter
        self.use(config)

    def use(self, config: LogConfig) -> None:
        """Use other settings from now on; index sizes and preallocation apply from the next segment."""
        self._config = config
        self._jitter_ms = int(self._roll_jitter() * min(config.segment_jitter_ms, config.segment_ms))

    def is_due(self, batches: Sequence[StampedBatch], size: int, now_ms: int) -> bool:
        """Return whether batches need a new segment, because the active one is full or old.

        Parameters:
            size: the bytes of the batches.
            now_ms: the time, milliseconds since the epoch.
        """
        active, config = self._segments.active, self._config
        timestamp = max(batch.max_timestamp for batch in batches)
        waited = active.size > 0 and active.time_waited_ms(now_ms, timestamp) > config.segment_ms - self._jitter_ms
        # Replicated batches may be further beyond the log end than a segment can reach.
        too_far = not active.takes(batches[-1].last_offset)
        return waited or active.size > config.segment_bytes - size or active.is_full or too_far

    def roll(self, offset: int) -> None:
        """Begin a new segment at an offset; the log ends there or, before replicated batches, earlier."""
        self._producers.end_offset = offset
        self.take_snapshot(sync=False)
        active = self._segments.active
        # All its files are opened before anything changes: if too many are open, the log continues unchanged.
        new = Segment(self._files, self._directory, offset, self._config, created_ms=self._clock(), create=True)
        try:
            active.deactivate()
        except OSError:
            new.delete()
            raise
        self._unsynced.add_rolled(active)
        self._segments.add(new)
        self.use(self._config)

    def take_snapshot(self, *, sync: bool) -> None:
        """Write a snapshot of the producers, unless one of this offset exists."""
        offset = self._producers.end_offset
        if offset > self._snapshot_offset:
            write_snapshot(self._files, self._directory, offset, self._producers, sync=sync)
            self._unsynced.add_snapshot(snapshot_path(self._directory, offset))
            self._snapshot_offset = offset

    def remove(self, segments: Sequence[Segment]) -> None:
        """Remove segments from the log permanently: they do not return after a crash."""
        for segment in segments:
            self._segments.remove(segment)
        self._retire(segments)
        self._files.fsync_directory(self._directory)

    def truncated(self) -> None:
        """Take note that the end of the log was removed: flushes that have begun are without effect."""
        self._unsynced.truncated(self._segments)

    def use_producers(self, producers: ProducerStates, snapshot_offset: int) -> None:
        """Take snapshots of other producers from now on.

        Parameters:
            producers: those of the log.
            snapshot_offset: the offset of their last snapshot, the log start without one.
        """
        self._producers = producers
        self._snapshot_offset = snapshot_offset

    def replace(self, new: Segment, old: Sequence[Segment]) -> None:
        """Replace segments by the one that was made of them, as far as they still exist."""
        replaced = [segment for segment in old if segment in self._segments]
        for segment in replaced:
            self._segments.remove(segment)
        self._segments.add(new)
        self._retire(replaced)

    def _retire(self, segments: Iterable[Segment]) -> None:
        """Rename the files of removed segments, and schedule their deletion."""
        doomed: list[Path] = []
        bases = set(self._segments.base_offsets)
        for segment in segments:
            segment.change_suffix(DELETED_SUFFIX, sync=False)
            doomed += [segment.file_path(kind) for kind in SEGMENT_SUFFIXES]
            snapshot = snapshot_path(self._directory, segment.base_offset)
            if segment.base_offset not in bases and self._files.exists(snapshot):
                deleted = snapshot.with_name(snapshot.name + DELETED_SUFFIX)
                self._files.rename(snapshot, deleted, sync=False)
                doomed.append(deleted)
        self._deletions.schedule(doomed, self._config.file_delete_delay_ms)
