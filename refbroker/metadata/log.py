"""`__cluster_metadata-0`: appends records, replays them into the image, and loads the image after a restart.

Records and batches are those of Kafka's controller. Records that belong together are one batch, which is atomic in a
crash; too many records for a batch are enclosed in BeginTransaction and EndTransaction. Each start of the broker begins
a new leader epoch with a LeaderChange control record (KIP-595). The image is written to snapshots, from which a load
starts, so that the log before them can be deleted (KIP-630).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from kclient.errors import InconsistentClusterIdError
from kclient.protocol import Message
from kclient.protocol.log_records import decode_metadata_record
from kclient.protocol.messages.records.control import LeaderChangeMessage, VotersRecord
from kclient.protocol.messages.records.metadata_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kclient.records import BatchBuilder, RecordBatch, read_batches
from refbroker.config import BrokerConfig
from refbroker.log import Files, LogConfig, LogManager, Origin, PartitionLog
from refbroker.log.files import storage_errors
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.metadata.control_records import VoterSet, control_batch, decode_control
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.image_records import image_records
from refbroker.metadata.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from refbroker.metadata.snapshot_file import Snapshot, SnapshotId, encode_snapshot, write_snapshot
from refbroker.metadata.snapshots import Snapshots
from refbroker.metadata.versions import TRANSACTIONS, encode_record
from refbroker.runtime.threads import in_thread

logger = logging.getLogger(__name__)

TOPIC_ID = UUID(int=1)
MOST_RECORDS = 10_000
"""The maximum of records in one batch; more of them become a transaction."""

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


class MetadataLog:
    """The log and the image that is replayed from it.

    Parameters:
        logs: the log manager with the metadata log.
        files: the disk.
        config: the settings of this broker.
        clock: milliseconds since the epoch.

    Attributes:
        image: the state of the cluster.
        epoch: the leader epoch of this node.
        voters: the voters, as far as records contain them.
        listeners: called with the records of each change once they are replayed.
    """

    def __init__(
        self,
        logs: LogManager,
        files: Files,
        config: BrokerConfig,
        clock: Callable[[], int],
    ) -> None:
        self.image = ClusterImage()
        self.epoch = 0
        self.voters = VoterSet()
        self.listeners: list[Callable[[Sequence[Message]], None]] = []
        self._log = _open_log(logs, config)
        self._files = files
        self._node_id = config.node_id
        self._clock = clock
        self._policy = SnapshotPolicy.of(config)
        self._snapshots = Snapshots(files, self._log, logs.metadata_directory.deletions)
        self._transaction: list[Message] | None = None
        self._voters_in_log = False
        self._last_timestamp_ms = 0
        self._bytes_since_snapshot = 0
        self._last_snapshot_ms = clock()

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are committed."""
        return self._log.high_watermark

    # Load

    def load(self) -> None:
        """Replay the latest snapshot and the log after it.

        Raises:
            CorruptRecordError, ProtocolError: a record cannot be read.
            KafkaStorageError: a snapshot cannot be read or is missing, or the disk fails.
            InconsistentClusterIdError: there are other voters.
        """
        self._snapshots.recover()
        offset = self._log.log_start_offset
        latest = self._snapshots.latest
        if latest is not None:
            self._load_snapshot(latest)
            offset = latest.offset
        while offset < self._log.log_end_offset:
            data = self._log.read(offset, _READ_BYTES).records.read()
            for batch in read_batches(data):
                self._load_batch(batch)
                offset = batch.next_offset
        self.image.next_offset = offset
        self._check_voters()

    def _load_snapshot(self, latest: SnapshotId) -> None:
        snapshot = self._snapshots.read(latest)
        for record in snapshot.records:
            self.image.replay(record)
        self.voters = snapshot.voters
        self._voters_in_log = latest.offset > 0
        self._last_timestamp_ms = snapshot.last_contained_log_timestamp
        self.epoch = latest.epoch

    def _load_batch(self, batch: RecordBatch) -> None:
        for record in batch.records():
            if batch.is_control:
                message = decode_control(record)
                self.voters.replay(message)
                self._voters_in_log |= isinstance(message, VotersRecord)
            else:
                self._replay(decode_metadata_record(record.value or b""))
        self._last_timestamp_ms = batch.max_timestamp
        self._bytes_since_snapshot += batch.size_in_bytes
        self.epoch = max(self.epoch, batch.partition_leader_epoch)

    def _check_voters(self) -> None:
        """Check that no other node can be the leader of this log."""
        with storage_errors(f"read the quorum's state in {self._log.directory}"):
            state = read_quorum_state(self._files, self._log.directory)
        known = self.voters.voters
        if known is not None:
            voters = {voter.voter_id for voter in known.voters}
        else:
            voters = set() if state is None else set(state.voters)
        if voters - {self._node_id}:
            raise InconsistentClusterIdError(
                f"the metadata in {self._log.directory} belongs to the controllers {sorted(voters)}; this broker, node "
                f"{self._node_id}, can continue only with the data of a single controller"
            )
        if state is not None:
            self.epoch = max(self.epoch, state.leader_epoch)

    # Append

    def begin_epoch(self) -> None:
        """Become the leader of the log, in an epoch that was never used.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self.epoch += 1
        directory = self._log.directory
        with storage_errors(f"write the quorum's state in {directory}"):
            state = QuorumState(self._node_id, self.epoch, (self._node_id,))
            write_quorum_state(self._files, directory, state, self.voters.kraft_version)
        voter = LeaderChangeMessage.Voter(voter_id=self._node_id)
        first: list[Message] = [LeaderChangeMessage(leader_id=self._node_id, voters=[voter], granting_voters=[voter])]
        if not self._voters_in_log:
            # A new log takes the voters from the snapshot of formatting, which is not replicated.
            first += self.voters.records()
            self._voters_in_log = True
        self._write(control_batch(first, self._clock()))
        if self._transaction is not None:
            self.append([AbortTransactionRecord(reason="the broker stopped before the transaction was complete")])

    def append(self, records: Sequence[Message]) -> None:
        """Store records atomically, and replay them.

        Raises:
            KafkaStorageError: the disk fails; nothing has changed.
        """
        if not records:
            return
        most, level, now = MOST_RECORDS, self.image.metadata_version, self._clock()
        if level < TRANSACTIONS:
            most = len(records)
        if len(records) > most:
            records = [BeginTransactionRecord(), *records, EndTransactionRecord()]
        for first in range(0, len(records), most):
            builder = BatchBuilder(max_bytes=_INT32_MAX)
            for record in records[first : first + most]:
                builder.append(now, None, encode_record(record, level))
            self._write(builder.build())
        self._log.flush()
        for record in records:
            self._replay(record)
        self.image.next_offset = self._log.log_end_offset
        for listener in self.listeners:
            listener(records)

    def _write(self, batch: bytes | memoryview) -> None:
        now = self._clock()
        self._log.append(batch, leader_epoch=self.epoch, origin=Origin.RAFT_LEADER, now_ms=now)
        self._bytes_since_snapshot += len(batch)
        self._last_timestamp_ms = now

    def _replay(self, record: Message) -> None:
        """Replay a record; records of a transaction are replayed when it ends."""
        if isinstance(record, BeginTransactionRecord):
            self._transaction = []
        elif isinstance(record, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(record, EndTransactionRecord):
            complete, self._transaction = self._transaction or [], None
            for held in complete:
                self.image.replay(held)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self.image.replay(record)

    # Snapshots

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The latest snapshot."""
        return self._snapshots.latest

    def is_snapshot_due(self) -> bool:
        """Return whether enough records, or enough time, have passed since the last snapshot."""
        if self._bytes_since_snapshot == 0 or self._transaction is not None:
            return False
        interval = self._policy.max_snapshot_interval_ms
        waited = interval > 0 and self._clock() - self._last_snapshot_ms >= interval
        return waited or self._bytes_since_snapshot >= self._policy.max_record_bytes_between_snapshots

    async def take_snapshot(self) -> SnapshotId:
        """Write the image to a snapshot; its records are created immediately and written in a worker thread.

        Raises:
            KafkaStorageError: the disk fails; no snapshot was written.
        """
        # The log must durably contain everything in the snapshot, or a power failure could leave a log that ends before
        # it.
        self._log.flush()
        snapshot_id = SnapshotId(self._log.log_end_offset, self._log.leader_epoch)
        # Whether it succeeds or not, the next one waits for the whole interval.
        self._bytes_since_snapshot, self._last_snapshot_ms = 0, self._clock()
        if snapshot_id == self._snapshots.latest:
            return snapshot_id
        voters = VoterSet(self.voters.kraft_version, self.voters.voters)
        snapshot = Snapshot(list(image_records(self.image)), self._last_timestamp_ms, voters)
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
