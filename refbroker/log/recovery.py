"""Opening a log that is already on disk: what is trusted, what is checked, what is cut off.

After a clean stop the files are taken as they are. After anything else, the segments from the
recovery point on are read: every batch must be whole, in order and have the right checksum; at the
first that is not, the segment is cut and those after it are removed; the indexes of what was read
are made anew. The producers come from the last snapshot and the headers behind it.

What compaction left behind is dealt with first, see `swap_recovery`. Left out: splitting segments whose offsets overflow.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from kclient.errors import CorruptRecordError
from kclient.records import BatchHeader, parse_control_record, read_batches
from refbroker.log.config import LogConfig
from refbroker.log.files import Files
from refbroker.log.leader_epochs import LEADER_EPOCHS, LeaderEpochCache
from refbroker.log.log_segments import LogSegments
from refbroker.log.producer_snapshot import (
    CorruptSnapshotError,
    read_snapshot,
    snapshot_offsets,
    snapshot_path,
)
from refbroker.log.producer_state import ProducerStates
from refbroker.log.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, Segment, segment_path
from refbroker.log.swap_recovery import finish_swaps

logger = logging.getLogger(__name__)

_TEMPORARY_SUFFIX = ".tmp"


@dataclass
class LoadedLog:
    """A log as it was found, and mended.

    Attributes:
        log_start_offset, log_end_offset: its first offset and the one after its last.
        recovery_point: before this offset everything is known to be on the disk.
        snapshot_offset: where the last producer snapshot is, the log start for none.
    """

    segments: LogSegments
    epochs: LeaderEpochCache
    producers: ProducerStates
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    snapshot_offset: int


class LogLoader:
    """Opens one partition's directory.

    Parameters:
        files: the disk.
        directory: the partition's.
        config: the log's settings.
        producers: empty; filled here.
        clean: whether the data directory was closed cleanly.
        log_start_offset, recovery_point: from the checkpoints, 0 when they say nothing.
        now_ms: the clock.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        config: LogConfig,
        producers: ProducerStates,
        *,
        clean: bool,
        log_start_offset: int,
        recovery_point: int,
        now_ms: int,
    ) -> None:
        self._files = files
        self._directory = directory
        self._config = config
        self._producers = producers
        self._clean = clean
        self._log_start_offset = log_start_offset
        self._recovery_point = recovery_point
        self._now_ms = now_ms
        self._segments = LogSegments()
        self._epochs = LeaderEpochCache(files, directory / LEADER_EPOCHS)

    def load(self) -> LoadedLog:
        """Open, recover what must be, and leave the last segment ready to be written to.

        Raises:
            OSError: the disk fails.
            KafkaStorageError: the leader epochs are damaged.
        """
        self._open_segments()
        if not self._clean:
            self._recover_unflushed()
        if len(self._segments) and self._segments.active.next_offset() < self._log_start_offset:
            logger.warning(
                "%s ends before its log start offset %d; starting there", self._directory, self._log_start_offset
            )
            self._remove_segments(list(self._segments))
            self._epochs.clear()
        if not len(self._segments):
            self._segments.add(self._new_segment(self._log_start_offset))
        else:
            self._segments.active.activate()
        end = self._segments.active.next_offset()
        start = max(self._log_start_offset, self._segments[0].base_offset)
        self._epochs.truncate_from_end(end)
        self._epochs.truncate_from_start(start)
        snapshot = self._load_producers(start, end)
        recovery_point = end if self._clean else min(self._recovery_point, end)
        return LoadedLog(self._segments, self._epochs, self._producers, start, end, recovery_point, snapshot)

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment(self._files, self._directory, base_offset, self._config, created_ms=self._now_ms, create=True)

    def _open_segments(self) -> None:
        finish_swaps(self._files, self._directory)
        names = self._files.names(self._directory)
        logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
        for name in names:
            stem, _, suffix = name.partition(".")
            orphan = f".{suffix}" in SEGMENT_SUFFIXES and stem not in logs
            if orphan or name.endswith(_TEMPORARY_SUFFIX):
                logger.info("Removing %s, which belongs to no segment", self._directory / name)
                self._files.unlink(self._directory / name)
        for stem in sorted(stem for stem in logs if stem.isdecimal()):
            path = segment_path(self._directory, int(stem), LOG_SUFFIX)
            created_ms = self._files.modified_ms(path)
            segment = Segment(self._files, self._directory, int(stem), self._config, created_ms=created_ms)
            self._segments.add(segment)
        for segment in list(self._segments):
            if not self._indexes_usable(segment):
                logger.warning("The index of %s is missing or damaged; making it anew", segment.path)
                self._recover(segment)

    def _indexes_usable(self, segment: Segment) -> bool:
        if not segment.has_indexes():
            return False
        if segment is not self._segments.active or not self._clean:
            # What is before the recovery point was closed properly, what is after it is rebuilt anyway.
            return True
        return segment.offset_index.is_sane() and segment.time_index.is_sane()

    def _recover_unflushed(self) -> None:
        if not len(self._segments):
            return
        unflushed = self._segments.from_offset(self._recovery_point)
        for index, segment in enumerate(unflushed):
            truncated = self._recover(segment)
            if truncated:
                end = segment.next_offset()
                logger.warning("%s was damaged; cut %d bytes off, it ends before %d now", segment.path, truncated, end)
                self._remove_segments(unflushed[index + 1 :])
                return

    def _recover(self, segment: Segment) -> int:
        """Check a segment's batches and make its indexes anew; the number of bytes that were cut off."""
        segment.start_recovery()
        epochs = self._epochs.entries
        valid_bytes = 0
        next_offset = segment.base_offset
        try:
            for header in segment.batches():
                if not header.is_valid() or header.last_offset < next_offset or not segment.takes(header.last_offset):
                    break
                segment.recovered_batch(header)
                valid_bytes = header.position + header.size_in_bytes
                next_offset = header.last_offset + 1
                if header.partition_leader_epoch > self._epochs.latest_epoch:
                    self._epochs.assign(header.partition_leader_epoch, header.base_offset, save=False)
        except CorruptRecordError as error:
            logger.warning("%s: %s", segment.path, error.message)
        if self._epochs.entries != epochs:
            self._epochs.save()
        return segment.finish_recovery(valid_bytes)

    def _remove_segments(self, segments: list[Segment]) -> None:
        for segment in segments:
            logger.info("Removing %s", segment.path)
            self._segments.remove(segment)
            segment.delete()
            self._files.unlink(snapshot_path(self._directory, segment.base_offset))

    def _load_producers(self, start: int, end: int) -> int:
        """Rebuild the producers as of `end`; the offset of the snapshot that was used, `start` for none."""
        found = -1
        snapshots = snapshot_offsets(self._files, self._directory)
        for offset in reversed(snapshots):
            if start < offset <= end and self._read_snapshot(offset):
                found = offset
                break
        kept = {found, *self._segments.base_offsets}
        for offset in snapshots:
            if offset not in kept or not start < offset <= max(found, start):
                self._files.unlink(snapshot_path(self._directory, offset))
        self._producers.end_offset = found if found >= 0 else start
        # A log that was closed cleanly has a snapshot at its end, unless no record was ever written to it.
        if snapshots or not self._clean:
            self._replay(self._producers.end_offset, end)
        self._producers.end_offset = end
        return found if found >= 0 else start

    def _read_snapshot(self, offset: int) -> bool:
        """Take the producers of a snapshot over; False when it is damaged."""
        try:
            entries = read_snapshot(self._files, self._directory, offset)
        except CorruptSnapshotError as error:
            logger.warning("%s: %s", snapshot_path(self._directory, offset), error)
            return False
        for entry in entries:
            if not self._producers.is_expired(entry, self._now_ms):
                self._producers.put(entry)
        return True

    def _replay(self, start: int, end: int) -> None:
        for segment in self._segments.from_offset(start) if start < end else ():
            first = segment.find(start)
            for header in segment.headers(first.position) if first is not None else ():
                if header.has_producer_id:
                    replay_batch(self._producers, segment, header)


def replay_batch(producers: ProducerStates, segment: Segment, header: BatchHeader) -> None:
    """Take a batch that is in the log into the producers' state."""
    coordinator_epoch = -1
    if header.is_control:
        records = [record for batch in read_batches(segment.read_batch(header)) for record in batch.records()]
        if not records:
            return
        coordinator_epoch = parse_control_record(records[0]).coordinator_epoch or 0
    producers.update(header, header.base_offset, header.last_offset, header.max_timestamp, coordinator_epoch)
