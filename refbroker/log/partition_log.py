"""The log of one partition, and what changes it: appends, rolled and deleted segments, flushes, truncation.

The role of this replica moves the high watermark (`refbroker.replication`); an append alone does not. Everything here
runs on the broker's event loop; appending writes to the page cache and does not wait for the disk, and a flush can run
in another thread (`begin_flush`). After a failure of the disk every call raises KafkaStorageError.

Elsewhere: reading, and what each offset means (`readable_log`), checking and stamping batches (`appending`), what
retention may delete (`retention`), adding and removing segments (`segment_changes`), the steps of a truncation and why
they are safe (`truncation`).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from kclient.errors import (
    IllegalStateError,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
)
from refbroker.log.appending import (
    AppendResult,
    check_producers,
    find_duplicate,
    stamp_batches,
    update_producers,
)
from refbroker.log.checkpoints import PARTITION_METADATA, write_topic_id
from refbroker.log.config import LogConfig
from refbroker.log.deletions import Deletions
from refbroker.log.files import BytesLike, Files
from refbroker.log.flush import DiskHealth, Flush, Unsynced
from refbroker.log.log_names import LogKind, log_name
from refbroker.log.producer_state import ProducerStates
from refbroker.log.readable_log import ReadableLog
from refbroker.log.recovery import LoadedLog
from refbroker.log.segment import Segment
from refbroker.log.segment_changes import SegmentChanges
from refbroker.log.truncation import LogTruncation
from refbroker.log.validation import Origin, StampedBatch, Stamper, check_records
from refbroker.log.verification import VerificationState, Verified

logger = logging.getLogger(__name__)


class PartitionLog(ReadableLog):
    """The log of one partition. Made by `LogManager`.

    Parameters:
        files: the disk.
        directory: the partition's directory.
        topic, partition, topic_id: the partition.
        config: its settings.
        loaded: the log as found on the disk.
        clock: milliseconds since the epoch.
        roll_jitter: a number from 0 to 1 for each new segment, for `segment.jitter.ms`.
        health: the state of the data directory.
        deletions: removes files after a delay.

    Attributes:
        on_append: called with the log after each append, so that its role and waiting followers notice.
        on_high_watermark: called with the log whenever the high watermark has moved, so that waiting readers, and
            writers with acks=all, notice.
        being_cleaned: whether compaction is reading the segments, which must not be deleted meanwhile.
        cleaned_up_to: the offset up to which the log is compacted, None if it has never been.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        config: LogConfig,
        loaded: LoadedLog,
        *,
        clock: Callable[[], int],
        roll_jitter: Callable[[], float] = lambda: 0.0,
        health: DiskHealth | None = None,
        deletions: Deletions | None = None,
    ) -> None:
        super().__init__(files, directory, topic, partition, topic_id, config, loaded, health or DiskHealth(), clock())
        self.on_append: list[Callable[[PartitionLog], None]] = []
        self.on_high_watermark: list[Callable[[PartitionLog], None]] = []
        self.recovery_point = loaded.recovery_point
        self.being_cleaned = False
        self.cleaned_up_to: int | None = None
        self._deletions = Deletions(clock) if deletions is None else deletions
        self._unsynced = Unsynced(files, directory)
        self._changes = SegmentChanges(
            files,
            directory,
            loaded,
            config,
            unsynced=self._unsynced,
            deletions=self._deletions,
            clock=clock,
            roll_jitter=roll_jitter,
        )
        self._written = loaded.recovered
        self._clock = clock
        self._last_flush_ms = clock()

    def update_config(self, config: LogConfig) -> None:
        """Use other settings from now on; see `SegmentChanges.use` for those of the next segment."""
        self.config = config
        self.segments.active.index_interval_bytes = config.index_interval_bytes
        self._changes.use(config)

    def set_topic_id(self, topic_id: uuid.UUID, *, sync: bool = True) -> None:
        """Set the topic id of the log, also in `partition.metadata`.

        Parameters:
            sync: whether to wait for the disk; for a log without records the next flush does, or the first append.
        """
        with self._guard("write partition.metadata", can_repeat=True):
            write_topic_id(self._files, self.directory, topic_id, sync=sync)
        self.topic_id = topic_id
        if not sync:
            self._unsynced.add_topic_id(self.directory / PARTITION_METADATA)

    # Append

    def append(
        self,
        records: BytesLike,
        *,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        now_ms: int,
        verified: Verified = False,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Store record batches at the end.

        Parameters:
            records: whole batches in format 2; of a client exactly one.
            leader_epoch: of the partition's leader, which is written into the batches.
            origin: who appends; REPLICATION keeps the offsets and epochs the batches have.
            now_ms: the time, milliseconds since the epoch.
            verified: why the first batch of a transaction may be appended; see `verification`.
            transaction_version: of the transactions that markers among the batches end; see `producer_state`.

        Raises:
            CorruptRecordError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError: see `validation`.
            RecordBatchTooLargeError: all together they are larger than a segment.
            OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError, TransactionCoordinatorFencedError:
                see `producer_state`.
            KafkaStorageError: the disk fails.
        """
        self._check_usable()
        headers = check_records(records, self.config, origin, self.topic, self.partition)
        if origin is Origin.CLIENT:
            duplicate = find_duplicate(self._producers, headers[0], self.log_start_offset)
            if duplicate is not None:
                return duplicate
        stamper = Stamper(self.config, self.topic, self.partition, leader_epoch, now_ms, origin)
        batches = stamp_batches(headers, origin, self.log_end_offset, stamper)
        size = sum(batch.size for batch in batches)
        if size > self.config.segment_bytes:
            raise RecordBatchTooLargeError(
                f"The records have {size} bytes, which is more than the {self.config.segment_bytes} of a segment",
                topic=self.topic,
                partition=self.partition,
            )
        first, last = batches[0], batches[-1]
        if origin is not Origin.REPLICATION:
            check_producers(
                self._producers, batches, origin, verified=verified, transaction_version=transaction_version
            )
        try:
            self._make_ready(batches, size, now_ms)
        except OSError:
            with self._guard("append", can_repeat=True):
                raise
        with self._guard("append"):
            self._write(batches, size)
        append_time = last.max_timestamp if self.config.log_append_time else -1
        for callback in self.on_append:
            callback(self)
        return AppendResult(first.base_offset, last.last_offset, append_time, self.log_start_offset)

    def _make_ready(self, batches: Sequence[StampedBatch], size: int, now_ms: int) -> None:
        """Do what precedes the write, and open all necessary files: there may be too many."""
        self._unsynced.sync_topic_id()
        for batch in batches:
            if batch.leader_epoch != self.epochs.latest_epoch or not self.epochs.saved:
                self.epochs.assign(batch.leader_epoch, batch.base_offset)
        if self._changes.is_due(batches, size, now_ms):
            self._roll_at(batches[0].base_offset)
        self.segments.active.files_to_append(size)

    def _write(self, batches: Sequence[StampedBatch], size: int) -> None:
        self._written = True
        segment = self.segments.active
        segment.append(batches)
        self.log_end_offset = batches[-1].last_offset + 1
        update_producers(self._producers, batches, segment, segment.size - size)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, *, supports_epoch_bump: bool
    ) -> VerificationState | None:
        """Return the guard of a question to a transaction's coordinator before a batch is appended; None if no
        question is necessary.

        Raises:
            InvalidProducerEpochError: a later epoch of the producer has been seen.
        """
        return self._producers.begin_verification(
            producer_id, producer_epoch, sequence, self._clock(), supports_epoch_bump=supports_epoch_bump
        )

    # Roll

    def roll(self) -> None:
        """Start a new segment at the log end, unless the active one is empty and starts there.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self._roll_at(self.log_end_offset)

    def _roll_at(self, offset: int) -> None:
        if self.segments.active.base_offset != offset:
            with self._guard("roll", can_repeat=True):
                self._written = True
                self._changes.roll(offset)

    # Log start and high watermark

    def begin_leader_epoch(self, leader_epoch: int, *, save: bool = True) -> None:
        """Record that the leader of an epoch leads from the log end on; the epoch may have no records.

        Parameters:
            save: False leaves the file to the first append in the epoch. An epoch without records need not survive a
                crash.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self._check_usable()
        with self._guard("write the leader epochs", can_repeat=True):
            self.epochs.assign(leader_epoch, self.log_end_offset, save=save)

    def delete_records(self, before_offset: int) -> int:
        """Move the log start to `before_offset` (-1: the high watermark), and return the new log start.

        Raises:
            OffsetOutOfRangeError: beyond the high watermark.
            KafkaStorageError: the disk fails.
        """
        self._check_usable()
        target = self.high_watermark if before_offset == -1 else before_offset
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRangeError(
                f"Cannot increment the log start offset to {target}, since it is not from 0 to the high watermark "
                f"{self.high_watermark}",
                topic=self.topic,
                partition=self.partition,
                offset=target,
            )
        self._advance_log_start(target)
        return self.log_start_offset

    def _advance_log_start(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            with self._guard("write the leader epochs", can_repeat=True):
                self.epochs.truncate_from_start(offset)
            # A follower deletes what its leader has deleted, replicated or not.
            self.update_high_watermark(offset)

    def delete_segments(self, segments: Sequence[Segment], reason: str) -> int:
        """Remove the oldest segments from the log, after adding a new one if none would be left.

        Their files are renamed, and removed after `file.delete.delay.ms`, so that readers can finish.

        Parameters:
            segments: the first ones of the log, in order.
            reason: for the log line.

        Returns:
            Their number.

        Raises:
            KafkaStorageError: the disk fails.
        """
        if not segments:
            return 0
        self._check_usable()
        bases = [segment.base_offset for segment in segments]
        logger.info("Deleting the segments %s of %s-%d, since %s", bases, self.topic, self.partition, reason)
        if len(segments) == len(self.segments):
            self.roll()
        self._advance_log_start(self.segments[len(segments)].base_offset)
        with self._guard("delete segments", can_repeat=True):
            self._changes.remove(segments)
        return len(segments)

    def replace_segments(self, new: Segment, old: Sequence[Segment]) -> None:
        """Replace segments by the compacted segment that was made of them.

        Parameters:
            new: the new segment; its files are `.swap`, and durable. The caller removes that suffix once the new names
                of the old files are durable.
            old: neighbouring segments, the first of which has the base offset of `new`.

        Raises:
            KafkaStorageError: the disk fails; the next start completes the replacement.
        """
        self._check_usable()
        with self._guard("replace segments"):
            self._changes.replace(new, old)

    def update_high_watermark(self, offset: int) -> None:
        """Move the high watermark forward to an offset, at most to the log end; it never moves back."""
        reached = min(offset, self.log_end_offset)
        if reached <= self.high_watermark:
            return
        self.high_watermark = reached
        unstable = self._producers.first_unstable_offset(reached)
        if unstable != self._unstable_offset:
            self._unstable_offset, self._unstable_since_ms = unstable, self._clock()
        for callback in list(self.on_high_watermark):
            callback(self)

    def move_high_watermark_to_end(self) -> None:
        """Move the high watermark to the log end; in `on_append`, while no other replica is in sync."""
        self.update_high_watermark(self.log_end_offset)

    # Truncation

    def truncate_to(self, offset: int, save: Callable[..., None]) -> bool:
        """Remove the records from an offset on, durably, and return whether there were any; see `truncation`.

        Parameters:
            offset: the largest possible log end offset afterwards.
            save: writes the checkpoint files with the given names.

        Raises:
            IllegalStateError: the log is being compacted.
            KafkaStorageError: the disk fails.
        """
        return self._truncate(lambda steps: steps.cut(offset), save)

    def truncate_fully_and_start_at(self, offset: int, save: Callable[..., None]) -> None:
        """Remove all records, durably, and start the log at an offset; otherwise as `truncate_to`."""
        self._truncate(lambda steps: steps.restart(offset), save)

    def _truncate(self, run: Callable[[LogTruncation], ProducerStates | None], save: Callable[..., None]) -> bool:
        self._check_usable()
        if self.being_cleaned:
            raise IllegalStateError(f"{self.topic}-{self.partition} is being compacted; pause that before a truncation")
        self._written = True
        empty = self._producers.without_producers()
        steps = LogTruncation(self, self._files, self._changes, empty, save, self._clock())
        with self._guard("truncate"):
            producers = run(steps)
        if producers is not None:
            self._producers = producers
            self._unstable_offset = producers.first_unstable_offset(self.high_watermark)
        return producers is not None

    def remove_expired_producers(self, now_ms: int) -> int:
        """Drop producers that have been idle for too long, and return their number."""
        return self._producers.remove_expired(now_ms)

    # Flush and close

    @property
    def unflushed_records(self) -> int:
        """The number of offsets beyond the recovery point, which a power failure may lose."""
        return self.log_end_offset - self.recovery_point

    @property
    def recovery_start(self) -> int:
        """The recovery point for the checkpoint: after a crash the segments from this offset on are checked.

        The segments before it must be complete, with their indexes. A recovery point at the end of the active segment
        may become the base offset of the next one before the indexes of the former are on the disk; until they are, the
        result is one less.
        """
        if self._closed or not self._written:
            return self.recovery_point
        return self._unsynced.recovery_start(self.segments, self.recovery_point, self.log_end_offset)

    @property
    def last_flush_ms(self) -> int:
        """When it was last flushed, by the clock."""
        return self._last_flush_ms

    def begin_flush(self, *, up_to_active: bool = False) -> Flush | None:
        """Return a flush of everything, or of everything before the active segment; None if there is nothing to do.

        Run its `sync` in any thread, then pass it to `finish_flush`.

        Raises:
            KafkaStorageError: the disk fails.
        """
        offset = self.segments.active.base_offset if up_to_active else self.log_end_offset
        with self._guard("flush", can_repeat=True):
            return self._unsynced.begin(self.segments, self.recovery_point, offset)

    def finish_flush(self, flush: Flush) -> None:
        """Record a finished flush."""
        if self._unsynced.is_outdated(flush):
            return
        self.recovery_point = max(self.recovery_point, flush.offset)
        self._last_flush_ms = self._clock()
        self._unsynced.finish(flush)
        self.health.flushes.observe(flush.took_ns)

    def flush(self) -> None:
        """Wait until everything is on the disk.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self._check_usable()
        with self._guard("flush", can_repeat=True):
            flush = self.begin_flush()
            if flush is not None:
                flush.sync()
                self.finish_flush(flush)

    def close(self) -> None:
        """Flush, write the producer snapshot and close the files; existing ranges stay readable.

        Raises:
            KafkaStorageError: the disk fails, now or before; the files are still closed.
        """
        if self._closed:
            return
        try:
            self._check_usable()
            with self._guard("close"):
                self._changes.take_snapshot(sync=True)
                self.segments.active.deactivate()
                if self._written:
                    self._unsynced.add_rolled(self.segments.active)
                self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the files as they are, as in a crash."""
        self._closed = True
        for segment in self.segments:
            segment.release()

    def delete(self) -> None:
        """Delete the log: its directory is renamed immediately, and removed after `file.delete.delay.ms`.

        Raises:
            KafkaStorageError: the disk fails.
        """
        doomed = self.directory.with_name(log_name(self.topic, self.partition, LogKind.DELETE))
        self.abandon()
        with self._guard("delete"):
            self._files.rename(self.directory, doomed)
        self.directory = doomed
        self._deletions.schedule([doomed], self.config.file_delete_delay_ms)
