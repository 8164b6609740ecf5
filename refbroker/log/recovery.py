"""Opens an existing log: which files are trusted, checked or truncated.

After a clean stop the files are trusted: only the data after the last index entry of the last segment is read, to find
the end. Otherwise the segments from the one with the recovery point on are read: every batch must be complete, in order
and have a correct checksum. At the first invalid batch the segment is truncated and later segments are removed. Both
are flushed, so that truncated batches cannot reappear behind newer ones. The indexes of these segments are rebuilt,
with snapshots of the producers at each segment's end.

Missing or invalid indexes and damaged leader epochs are rebuilt after a clean stop, too. A segment with offsets too far
from its first one, which old brokers could write, is split (see `splitting`); unfinished compactions come first
(see `swap_recovery`).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path

from kclient.errors import CorruptRecordError, KafkaStorageError
from refbroker.log.config import LogConfig
from refbroker.log.files import Files
from refbroker.log.leader_epochs import LEADER_EPOCHS, LeaderEpochCache
from refbroker.log.log_segments import LogSegments
from refbroker.log.producer_loading import ProducerLoader, replay_batch
from refbroker.log.producer_snapshot import snapshot_path
from refbroker.log.producer_state import ProducerStates
from refbroker.log.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, Segment, segment_path
from refbroker.log.splitting import OffsetOverflowError, split_segment
from refbroker.log.swap_recovery import finish_swaps

logger = logging.getLogger(__name__)

_TEMPORARY_SUFFIX = ".tmp"


@dataclass
class LoadedLog:
    """A log as found on the disk, after repairs.

    Attributes:
        log_start_offset, log_end_offset: its first offset and the one after its last record.
        recovery_point: before this offset everything is known to be on the disk.
        snapshot_offset: the offset of the last producer snapshot, the log start without one.
        recovered: whether files were rebuilt that may not be on the disk yet.
    """

    segments: LogSegments
    epochs: LeaderEpochCache
    producers: ProducerStates
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    snapshot_offset: int
    recovered: bool


class LogLoader:
    """Opens one partition's directory.

    Parameters:
        files: the disk.
        directory: the partition's directory.
        config: the log's settings.
        producers: an empty state of this log.
        clean: whether the data directory was closed cleanly.
        log_start_offset, recovery_point: from the checkpoints, 0 if missing.
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
        self._clean = clean
        self._log_start_offset = log_start_offset
        self._recovery_point = recovery_point
        self._now_ms = now_ms
        self._segments = LogSegments()
        self._producers = ProducerLoader(files, directory, self._segments, producers, now_ms)
        self._recovered_producers: ProducerStates | None = None
        self._epochs = LeaderEpochCache(files, directory / LEADER_EPOCHS)

    def load(self) -> LoadedLog:
        """Open the log, recover it if necessary, and leave the last segment ready for writes.

        Raises:
            OSError: the disk fails.
        """
        epochs_lost = self._read_epochs()
        self._open_and_recover()
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
        if epochs_lost:
            self._rebuild_epochs()
        self._epochs.truncate_from_end(end)
        self._epochs.truncate_from_start(start)
        producers, snapshot = self._load_producers(start, end)
        recovery_point = end if self._clean else min(self._recovery_point, end)
        recovered = not self._clean
        return LoadedLog(self._segments, self._epochs, producers, start, end, recovery_point, snapshot, recovered)

    def _open_and_recover(self) -> None:
        while True:
            try:
                self._open_segments()
                if not self._clean:
                    self._recover_unflushed()
            except OffsetOverflowError as error:
                for segment in list(self._segments):
                    segment.release()
                    self._segments.remove(segment)
                split_segment(self._files, self._directory, error.segment, self._config)
            else:
                return

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment(self._files, self._directory, base_offset, self._config, created_ms=self._now_ms, create=True)

    # The files

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
        first_unflushed = self._segments.index_of(self._recovery_point)
        for index, segment in enumerate(list(self._segments)):
            # The indexes of unflushed segments are rebuilt in any case.
            if self._clean or index < first_unflushed:
                self._check_indexes(segment, index)

    def _check_indexes(self, segment: Segment, index: int) -> None:
        last = index == len(self._segments) - 1
        end = None if last else self._segments[index + 1].base_offset
        if not segment.has_sane_indexes(end):
            logger.warning("An index of %s is missing or damaged; rebuilding its indexes", segment.path)
            truncated = self._recover(segment, self._states_before(segment))
            for file in segment.open_files():
                self._files.fsync(file)
            if truncated:
                logger.error(
                    "%s was damaged, though it had been flushed: %d bytes are lost", segment.path, truncated
                )  # fmt: skip
        if not last:
            segment.release()

    # Recovery

    def _recover_unflushed(self) -> None:
        unflushed = self._segments.from_offset(self._recovery_point) if len(self._segments) else []
        if not unflushed:
            return
        began = time.monotonic()
        first = unflushed[0].base_offset
        # They were made from data that may not have reached the disk.
        outdated = [offset for offset in self._producers.snapshots() if offset > first]
        self._producers.remove_snapshots(outdated)
        states = self._states_before(unflushed[0])
        truncated = 0
        for index, segment in enumerate(unflushed):
            logger.info("Recovering %s, %d of %d", segment.path, index + 1, len(unflushed))
            truncated = self._recover(segment, states)
            if truncated:
                logger.warning(
                    "%s was damaged; cut %d bytes off, it ends before %d now",
                    segment.path,
                    truncated,
                    states.end_offset,
                )
                self._remove_segments(unflushed[index + 1 :])
                break
        self._recovered_producers = states
        if outdated or truncated or states.end_offset:
            # Not for a log without any records: most logs are, and each line costs milliseconds.
            self._files.fsync_directory(self._directory)
        seconds = time.monotonic() - began
        logger.info("Recovered %s from %d to %d in %.1f s", self._directory, first, states.end_offset, seconds)

    def _states_before(self, segment: Segment) -> ProducerStates:
        """Return the producers as of a segment's start, which its index of aborted transactions needs."""
        start = max(self._log_start_offset, self._segments[0].base_offset)
        return self._producers.states_at(min(start, segment.base_offset), segment.base_offset)[0]

    def _recover(self, segment: Segment, states: ProducerStates) -> int:
        """Check a segment's batches and rebuild its indexes; return the number of truncated bytes.

        Parameters:
            states: the producers before the segment, afterwards those at its end.
        """
        segment.start_recovery()
        epochs = self._epochs.entries
        valid_bytes = 0
        next_offset = segment.base_offset
        try:
            for header in segment.batches():
                if header.base_offset < next_offset or header.last_offset < header.base_offset:
                    break
                if not header.is_valid():
                    break
                if not segment.takes(header.last_offset):
                    raise OffsetOverflowError(segment)
                aborted = replay_batch(states, segment, header)
                if aborted is not None:
                    segment.transaction_index.append(aborted)
                segment.recovered_batch(header)
                valid_bytes = header.position + header.size_in_bytes
                next_offset = header.last_offset + 1
                if header.partition_leader_epoch > self._epochs.latest_epoch:
                    self._epochs.assign(header.partition_leader_epoch, header.base_offset, save=False)
        except CorruptRecordError as error:
            logger.warning("%s: %s", segment.path, error.message)
        if self._epochs.entries != epochs:
            self._epochs.save()
        states.end_offset = next_offset
        truncated = segment.finish_recovery(valid_bytes)
        if truncated:
            # Before anything is written behind it: the truncated part may contain whole batches.
            self._files.fsync(segment.file)
        if states.end_offset:
            self._producers.save(states)
        return truncated

    def _remove_segments(self, segments: list[Segment]) -> None:
        for segment in segments:
            logger.info("Removing %s", segment.path)
            self._segments.remove(segment)
            segment.delete()
            self._files.unlink(snapshot_path(self._directory, segment.base_offset))

    # Leader epochs and producers

    def _read_epochs(self) -> bool:
        """Read the leader epochs; return whether they are damaged, and must be collected from the batches."""
        try:
            self._epochs.read()
        except KafkaStorageError as error:
            logger.warning("%s; rebuilding it", error.message)
            return True
        return False

    def _rebuild_epochs(self) -> None:
        for segment in self._segments:
            for header in segment.headers():
                self._epochs.assign(header.partition_leader_epoch, header.base_offset, save=False)
        self._epochs.save()

    def _load_producers(self, start: int, end: int) -> tuple[ProducerStates, int]:
        """Return the producers at `end`, and the offset of the last snapshot, `start` without one."""
        snapshots = self._producers.snapshots()
        if not snapshots and self._clean:
            # A log that was closed cleanly has one at its end, unless no record was ever written.
            return self._producers.empty_at(end), start
        producers, used = self._producers.states_at(start, end)
        kept = {used, *self._segments.base_offsets}
        strays = [offset for offset in snapshots if offset not in kept or not start < offset <= max(used, start)]
        self._producers.remove_snapshots(strays)
        recovered = self._recovered_producers
        if recovered is not None and recovered.end_offset == end:
            # A snapshot has only the last batch of each, and producers with old records are skipped. After a crash it
            # is unknown which responses have arrived: a producer with batches in flight sends all of them again.
            producers = recovered
        return producers, used
