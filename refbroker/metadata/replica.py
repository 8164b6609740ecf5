"""The local copy of `__cluster_metadata-0`, and the image that is replayed from what is committed of it.

The active controller appends batches of its own, other nodes the batches that they fetch. What is below the high
watermark is committed: it is replayed into the image, and the listeners are called with the records that took effect.
What is above it may be truncated. The image is written to snapshots, from which a load starts, so that the log before
them can be deleted (KIP-630); a node whose log ends before a snapshot of the leader continues from that snapshot.

Elsewhere: who may append, and how far the log is committed (`refbroker.controller.active`); the effect of a batch
(`replay`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from kclient.errors import IllegalStateError, KafkaStorageError, OffsetOutOfRangeError
from kclient.protocol import Message
from kclient.records import read_batches
from refbroker.config import BrokerConfig
from refbroker.log import Files, LogConfig, LogManager, Origin, PartitionLog
from refbroker.log.files import BytesLike, storage_errors
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.metadata.control_records import VoterSet
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.image_records import image_records
from refbroker.metadata.removals import removal_records
from refbroker.metadata.replay import MetadataBatch, Replay
from refbroker.metadata.snapshot_file import Snapshot, SnapshotId, encode_snapshot, write_snapshot
from refbroker.metadata.snapshots import Snapshots
from refbroker.runtime.threads import in_thread

logger = logging.getLogger(__name__)

TOPIC_ID = UUID(int=1)

_INT32_MAX = 2**31 - 1
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When snapshots are taken and deleted, with the names of the settings.

    Attributes:
        max_record_bytes_between_snapshots: of records since the last one.
        max_snapshot_interval_ms: since the last one, if there are records since; 0 for never.
        max_retention_bytes, max_retention_ms: see `snapshots`; negative for no limit.
    """

    max_record_bytes_between_snapshots: int
    max_snapshot_interval_ms: int
    max_retention_bytes: int
    max_retention_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> SnapshotPolicy:
        """Return the policy of a broker's settings."""
        return cls(
            config.integer("metadata.log.max.record.bytes.between.snapshots"),
            config.integer("metadata.log.max.snapshot.interval.ms"),
            config.integer("metadata.max.retention.bytes"),
            config.integer("metadata.max.retention.ms"),
        )


def _open_log(logs: LogManager, config: BrokerConfig) -> PartitionLog:
    """Return the metadata log, created if necessary; settings of other logs do not apply to it."""
    own = LogConfig(
        max_message_bytes=_INT32_MAX,
        segment_bytes=config.integer("metadata.log.segment.bytes"),
        segment_ms=config.integer("metadata.log.segment.ms"),
        retention_ms=-1,
        retention_bytes=-1,
    )
    log = logs.get(METADATA_TOPIC, 0)
    if log is None:
        log = logs.create(METADATA_TOPIC, 0, TOPIC_ID, own, directory=logs.metadata_directory)
    log.update_config(own)
    return log


def _nothing_to_save(*names: str) -> None:
    """Write no checkpoint file: those of the data directory do not have the metadata log."""


class MetadataReplica:
    """The metadata log of this node, and the image of what is committed.

    Parameters:
        logs: the log manager with the metadata log.
        files: the disk.
        config: the settings of this node.
        clock: milliseconds since the epoch.

    Attributes:
        image: the state of the cluster below the high watermark; always the same object.
        listeners: called with the records that have just taken effect.
    """

    def __init__(
        self,
        logs: LogManager,
        files: Files,
        config: BrokerConfig,
        clock: Callable[[], int],
    ) -> None:
        self.image = ClusterImage()
        self.listeners: list[Callable[[Sequence[Message]], None]] = []
        self._log = _open_log(logs, config)
        self._files = files
        self._clock = clock
        self._policy = SnapshotPolicy.of(config)
        self._snapshots = Snapshots(files, self._log, logs.metadata_directory.deletions)
        self._replay = Replay(self.image)
        # Batches of this node by base offset, which need not be read and decoded to be replayed.
        self._own: dict[int, MetadataBatch] = {}
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = clock()

    @property
    def directory(self) -> Path:
        """The directory of the log."""
        return self._log.directory

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are committed."""
        return self._log.high_watermark

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last record in the log or the snapshot before it; 0 without records."""
        return max(self._log.leader_epoch, self._replay.epoch)

    @property
    def voters(self) -> VoterSet:
        """The voters, as far as records contain them."""
        return self._replay.voters

    @property
    def has_voters(self) -> bool:
        """Whether records have the voters, beside the snapshot of formatting, which other nodes do not get."""
        return self._replay.has_voters

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction of records is committed in part, so that the image does not have its records."""
        return self._replay.in_transaction

    def load(self, *, can_fetch: bool = False) -> None:
        """Load the latest snapshot into the image; the log after it counts as not committed.

        Parameters:
            can_fetch: whether other nodes have the log, so that one that ends before the snapshot is replaced by it.

        Raises:
            KafkaStorageError: a snapshot cannot be read or is missing, or the disk fails.
        """
        if can_fetch:
            self._snapshots.find()
            latest = self._snapshots.latest
            if latest is not None and (latest.epoch, latest.offset) > (self._log.leader_epoch, self.end_offset):
                # A crash came after the snapshot was fetched, and before the log started with it.
                self._log.truncate_fully_and_start_at(latest.offset, _nothing_to_save)
        self._snapshots.recover()
        latest = self._snapshots.latest
        if latest is not None:
            snapshot = self._snapshots.read(latest)
            for record in snapshot.records:
                self.image.replay(record)
            self._continue_from(latest, snapshot)
        self._log.update_high_watermark(self._replay.next_offset)

    def _continue_from(self, snapshot_id: SnapshotId, snapshot: Snapshot) -> None:
        self._replay.begin(
            snapshot_id.offset, snapshot_id.epoch, snapshot.last_contained_log_timestamp, snapshot.voters
        )

    # Append

    def append(
        self, batch: BytesLike, leader_epoch: int, records: Sequence[Message], control: Sequence[Message] = ()
    ) -> None:
        """Append a batch of this node as the leader.

        Parameters:
            batch: the batch, which gets its offsets here.
            leader_epoch: the epoch of this leader.
            records, control: the records in the batch.

        Raises:
            KafkaStorageError: the disk fails.
        """
        now = self._clock()
        result = self._log.append(batch, leader_epoch=leader_epoch, origin=Origin.RAFT_LEADER, now_ms=now)
        self._own[result.base_offset] = MetadataBatch(
            result.last_offset + 1, leader_epoch, now, len(batch), records, control
        )

    def append_fetched(self, batches: BytesLike, leader_epoch: int) -> None:
        """Append batches of the leader, up to the first one of a later epoch or that is incomplete.

        Parameters:
            batches: batches with their offsets, as fetched.
            leader_epoch: the epoch of the leader that sent them.

        Raises:
            CorruptRecordError: a batch is damaged.
            OffsetOutOfRangeError: they do not begin at the log end.
            KafkaStorageError: the disk fails.
        """
        size = 0
        offset = self.end_offset
        for batch in read_batches(batches):
            # A batch of a later epoch is not from this leader (KAFKA-18723).
            if batch.partition_leader_epoch > leader_epoch:
                break
            if batch.base_offset != offset:
                raise OffsetOutOfRangeError(
                    f"the fetched batch of the metadata log begins at offset {batch.base_offset}, not at {offset}"
                )
            offset = batch.next_offset
            size += batch.size_in_bytes
        if size:
            fetched = memoryview(batches)[:size]
            self._log.append(fetched, leader_epoch=leader_epoch, origin=Origin.REPLICATION, now_ms=self._clock())

    def flush(self) -> None:
        """Wait until the log is on the disk.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self._log.flush()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch at or below this one in the log, and the offset after its last record; (-1, -1)
        without one.
        """
        if epoch >= self.last_epoch:
            return self.last_epoch, self.end_offset
        return self._log.end_offset_for_epoch(epoch)

    def truncate(self, offset: int) -> None:
        """Remove the records from an offset on, which must not be committed.

        Raises:
            IllegalStateError: some of them are committed.
            KafkaStorageError: the disk fails.
        """
        if offset < self.high_watermark:
            raise IllegalStateError(
                f"the metadata log is committed up to {self.high_watermark} and cannot be truncated to {offset}"
            )
        self._log.truncate_to(offset, _nothing_to_save)

    def fail(self, error: KafkaStorageError) -> None:
        """Take the directory of the log offline, which stops the node: the log has records that must not be replayed.

        Parameters:
            error: the reason.
        """
        self._log.health.fail(error)

    # Commit

    def advance(self, high_watermark: int) -> None:
        """Commit the log up to an offset: replay it into the image, and call the listeners.

        Parameters:
            high_watermark: of the leader; the log may end before it.

        Raises:
            CorruptRecordError, ProtocolError: a record cannot be read.
            KafkaStorageError: the disk fails.
        """
        if high_watermark > self.high_watermark:
            self._log.update_high_watermark(high_watermark)
        before = -1
        # A batch that the high watermark cuts is not committed, so its records are not read.
        while before < self._replay.next_offset < self.high_watermark:
            before = self._replay.next_offset
            effective: list[Message] = []
            for batch in self._committed():
                effective += self._replay.apply(batch)
                self._bytes_since_snapshot += batch.size
            self._notify(effective)

    def _committed(self) -> Iterator[MetadataBatch]:
        """Yield the next committed batches."""
        own = self._own.pop(self._replay.next_offset, None)
        if own is not None:
            yield own
            return
        for batch in read_batches(self._log.read(self._replay.next_offset, _READ_BYTES).records.read()):
            self._own.pop(batch.base_offset, None)
            yield MetadataBatch.decode(batch)

    def _notify(self, records: Sequence[Message]) -> None:
        if records:
            for listener in self.listeners:
                listener(records)

    # Snapshots

    def has_snapshot(self, snapshot_id: SnapshotId) -> bool:
        """Return whether a snapshot is stored."""
        return snapshot_id in self._snapshots.ids

    def start_from_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Continue from a snapshot whose complete file is in the directory of the log: remove all records, let the log
        start after it, and make the image that of the snapshot.

        Raises:
            KafkaStorageError: the snapshot cannot be read, or the disk fails.
        """
        snapshot = self._snapshots.read(snapshot_id)
        self._log.truncate_fully_and_start_at(snapshot_id.offset, _nothing_to_save)
        self._snapshots.start_with(snapshot_id)
        records = [*removal_records(self.image, snapshot.records), *snapshot.records]
        for record in records:
            self.image.replay(record)
        self._continue_from(snapshot_id, snapshot)
        self._log.update_high_watermark(snapshot_id.offset)
        self._bytes_since_snapshot, self._last_snapshot_ms = 0, self._clock()
        self._notify(records)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The latest snapshot."""
        return self._snapshots.latest

    def is_snapshot_due(self) -> bool:
        """Return whether enough records, or enough time, have passed since the last snapshot."""
        if self._bytes_since_snapshot == 0 or self.in_transaction:
            return False
        interval = self._policy.max_snapshot_interval_ms
        waited = interval > 0 and self._clock() - self._last_snapshot_ms >= interval
        return waited or self._bytes_since_snapshot >= self._policy.max_record_bytes_between_snapshots

    async def take_snapshot(self) -> SnapshotId:
        """Write the image to a snapshot; its records are created immediately and written in a worker thread.

        The image must not be behind the log because of an incomplete transaction, see `is_snapshot_due`.

        Raises:
            KafkaStorageError: the disk fails; no snapshot was written.
        """
        # The log must durably contain everything in the snapshot, or a power failure could leave a log that ends before
        # it.
        self._log.flush()
        snapshot_id = SnapshotId(self._replay.next_offset, self._replay.epoch)
        # Whether it succeeds or not, the next one waits for the whole interval.
        self._bytes_since_snapshot, self._last_snapshot_ms = 0, self._clock()
        if snapshot_id == self._snapshots.latest:
            return snapshot_id
        voters = VoterSet(self.voters.kraft_version, self.voters.voters)
        snapshot = Snapshot(list(image_records(self.image)), self._replay.timestamp_ms, voters)
        batches = encode_snapshot(snapshot, snapshot_id.epoch, self.image.metadata_version, self._last_snapshot_ms)
        path = self._snapshots.path(snapshot_id)
        with storage_errors(f"write the snapshot {path}"):
            size = await in_thread(write_snapshot, self._files, path, batches)
        self._snapshots.add(snapshot_id, size)
        logger.info("wrote the snapshot %s, %d bytes", path, size)
        return snapshot_id

    async def take_snapshot_if_due(self) -> None:
        """Write a snapshot if it is due.

        Raises:
            KafkaStorageError: the disk fails.
        """
        if self.is_snapshot_due():
            await self.take_snapshot()

    def clean_snapshots(self) -> None:
        """Delete old snapshots, and the part of the log that later snapshots cover.

        Raises:
            KafkaStorageError: the disk fails.
        """
        policy = self._policy
        self._snapshots.clean(policy.max_retention_bytes, policy.max_retention_ms, self._clock())
