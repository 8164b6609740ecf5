"""The readable side of a partition's log: where it starts and ends, its batches by offset, and look-ups by time.

Offsets, ascending: log start (the first one that DeleteRecords and retention left), last stable (every transaction
before it has ended), high watermark (the end of what is replicated, and of what consumers see), log end (the offset of
the next record).

Elsewhere: what changes a log (`partition_log`), the search in its segments (`reading`).
"""

from __future__ import annotations

import uuid
from contextlib import AbstractContextManager
from pathlib import Path

from kclient.errors import KafkaStorageError, OffsetOutOfRangeError
from refbroker.log.config import LogConfig
from refbroker.log.file_range import FetchSlice, FileRange, Isolation, OffsetAndTimestamp
from refbroker.log.files import Files
from refbroker.log.flush import DiskHealth
from refbroker.log.leader_epochs import EpochEntry
from refbroker.log.producer_state import ProducerEntry, ProducerStates
from refbroker.log.reading import find_aborted, find_max_timestamp, find_range, find_timestamp
from refbroker.log.recovery import LoadedLog


class ReadableLog:
    """What a log has, and how it is read.

    Parameters:
        files: the disk.
        directory: the partition's directory.
        topic, partition, topic_id: the partition.
        config: its settings.
        loaded: the log as found on the disk.
        health: the state of the data directory.
        now_ms: the time, milliseconds since the epoch.

    Attributes:
        high_watermark: the offset up to which records are replicated; it only increases, except for truncation.
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
        health: DiskHealth,
        now_ms: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.directory = directory
        self.config = config
        self.health = health
        self.segments = loaded.segments
        self.epochs = loaded.epochs
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self._files = files
        self._producers: ProducerStates = loaded.producers
        self._unstable_offset = loaded.producers.first_undecided_offset
        self._unstable_since_ms = now_ms
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def last_stable_offset(self) -> int:
        """The offset before which every transaction is decided; READ_COMMITTED readers see records up to it."""
        unstable = self._producers.first_unstable_offset(self.high_watermark)
        # The first records of an open transaction may be deleted.
        return (
            self.high_watermark if unstable is None else min(max(unstable, self.log_start_offset), self.high_watermark)
        )

    def unstable_for_ms(self, now_ms: int) -> int:
        """Return for how long a transaction has held back the last stable offset; 0 without one."""
        return 0 if self._unstable_offset is None else max(now_ms - self._unstable_since_ms, 0)

    def has_late_transaction(self, now_ms: int, after_ms: int) -> bool:
        """Return whether the producer of the oldest open transaction has been silent for so long that it may hang."""
        timestamp = self._producers.oldest_transaction_timestamp
        return timestamp is not None and now_ms - timestamp > after_ms

    @property
    def closed(self) -> bool:
        """Whether it is closed or deleted."""
        return self._closed

    @property
    def leader_epoch(self) -> int:
        """The epoch of the last records, -1 without records."""
        return self.epochs.latest_epoch

    def size_in_bytes(self) -> int:
        return self.segments.size_in_bytes

    @property
    def number_of_producers(self) -> int:
        """The number of known producers."""
        return len(self._producers)

    def producers(self) -> list[ProducerEntry]:
        """Return the known producers."""
        return list(self._producers)

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        min_one_batch: bool = True,
    ) -> FetchSlice:
        """Return the batches from the one that contains `offset` on, within one segment.

        Parameters:
            max_bytes: the maximum number of bytes; the last batch may be incomplete.
            isolation: whether to stop at the high watermark, the last stable offset or the log end.
            min_one_batch: whether to return the first batch completely even if it is larger than `max_bytes`.

        Raises:
            OffsetOutOfRangeError: the offset is before the log start or beyond the log end.
            KafkaStorageError: the disk fails.
        """
        self._check_usable()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"Received request for offset {offset}, but the log has offsets {self.log_start_offset} to "
                f"{self.log_end_offset}",
                topic=self.topic,
                partition=self.partition,
                offset=offset,
            )
        committed = isolation is Isolation.READ_COMMITTED
        stable = self.last_stable_offset
        limit = self.high_watermark
        if isolation is not Isolation.READ_UNCOMMITTED:
            limit = stable if committed else self.log_end_offset
        records = FileRange(self._files, None, 0, 0)
        aborted: tuple[tuple[int, int], ...] = ()
        if offset < limit:
            stop = limit if limit < self.log_end_offset else None
            with self._guard("read", can_repeat=True):
                found = find_range(self.segments, offset, stop, max_bytes, min_one_batch=min_one_batch)
                if found is not None:
                    segment, records = found
                    if committed:
                        aborted = find_aborted(self.segments, offset, segment, records, self.log_end_offset)
        return FetchSlice(records, self.high_watermark, stable, self.log_start_offset, aborted if committed else None)

    def readable_end(self, isolation: Isolation) -> int:
        """Return the offset up to which a reader may read."""
        if isolation is Isolation.LOG_END:
            return self.log_end_offset
        return self.last_stable_offset if isolation is Isolation.READ_COMMITTED else self.high_watermark

    def offset_for_timestamp(self, timestamp_ms: int) -> OffsetAndTimestamp | None:
        """Return the first record that is not older than `timestamp_ms`; None if all are older.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self._check_usable()
        with self._guard("search by time", can_repeat=True):
            return find_timestamp(self.segments, self.log_start_offset, timestamp_ms)

    def offset_of_max_timestamp(self) -> OffsetAndTimestamp | None:
        """Return the first record with the largest timestamp of the log; None if no record has one.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self._check_usable()
        with self._guard("search by time", can_repeat=True):
            return find_max_timestamp(self.segments, self.log_start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEntry:
        """Return the largest epoch at or below `leader_epoch`, and the offset after its last record; (-1, -1) if
        unknown.
        """
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def _check_usable(self) -> None:
        if self._closed:
            raise KafkaStorageError("the log is closed", topic=self.topic, partition=self.partition)
        self.health.check()

    def _guard(self, doing: str, *, can_repeat: bool = False) -> AbstractContextManager[None]:
        return self.health.guard(f"{doing} {self.directory}", self.topic, self.partition, can_repeat=can_repeat)
