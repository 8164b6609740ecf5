"""`__cluster_metadata-0`: appends records, replays them into the image, and reads them again after a restart.

The records and the batches around them are those of Kafka's controller: what belongs together is one
batch, which a crash leaves whole or not at all; what is too much for a batch goes between
BeginTransaction and EndTransaction. Each start of the broker is a new epoch of the log's leader and
begins with a LeaderChange control record (KIP-595). Snapshots are left out.
"""

from __future__ import annotations

import dataclasses
import logging
import struct
from collections.abc import Callable, Sequence
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.log_records import decode_metadata_record, encode_metadata_record
from kclient.protocol.messages.records.metadata_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kclient.records import BatchBuilder, read_batches
from refbroker.log import LogManager, Origin, PartitionLog
from refbroker.metadata.image import ClusterImage

logger = logging.getLogger(__name__)

TOPIC = "__cluster_metadata"
TOPIC_ID = UUID(int=1)
MOST_RECORDS = 10_000
"""Records in one batch; more of them become a transaction."""

VERSIONS = {"PartitionRecord": 1, "PartitionChangeRecord": 1, "BrokerRegistrationChangeRecord": 0}
"""Versions to write; of other records the last one. These are those without eligible leader replicas."""

_INT32_MAX = 2**31 - 1
_READ_BYTES = 1 << 20
_LEADER_CHANGE_KEY = struct.pack(">hh", 0, 2)


class MetadataLog:
    """The log and the image that is replayed from it.

    Parameters:
        logs: where the log lives.
        node_id: who appends.
        clock: milliseconds since the epoch.

    Attributes:
        image: the state of the cluster.
        listeners: called with the records of each change once they are replayed.
    """

    def __init__(self, logs: LogManager, node_id: int, clock: Callable[[], int]) -> None:
        self.image = ClusterImage()
        self.listeners: list[Callable[[Sequence[Message]], None]] = []
        self._node_id = node_id
        self._clock = clock
        config = dataclasses.replace(logs.defaults, max_message_bytes=_INT32_MAX)
        log = logs.get(TOPIC, 0)
        if log is None:
            log = logs.create(TOPIC, 0, TOPIC_ID, config)
        log.update_config(config)
        self._log: PartitionLog = log
        self._epoch = max(log.leader_epoch, 0)
        self._transaction: list[Message] | None = None

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        return self._log.log_end_offset

    def load(self) -> None:
        """Replay what is in the log.

        Raises:
            CorruptRecordError, ProtocolError: a record cannot be read.
            KafkaStorageError: the disk fails.
        """
        offset = self._log.log_start_offset
        while offset < self._log.log_end_offset:
            data = self._log.read(offset, _READ_BYTES).records.read()
            for batch in read_batches(data):
                if not batch.is_control:
                    for record in batch.records():
                        self._replay(decode_metadata_record(record.value))
                offset = batch.next_offset
        self.image.next_offset = offset

    def begin_epoch(self) -> None:
        """Become the leader of the log.

        Raises:
            KafkaStorageError: the disk fails.
        """
        from kclient.protocol.messages.records.control import LeaderChangeMessage

        self._epoch += 1
        voter = LeaderChangeMessage.Voter(voter_id=self._node_id)
        change = LeaderChangeMessage(leader_id=self._node_id, voters=[voter], granting_voters=[voter])
        builder = BatchBuilder()
        builder.append(self._clock(), _LEADER_CHANGE_KEY, change.encode(0))
        self._write(builder.build(is_control=True))
        if self._transaction is not None:
            self.append([AbortTransactionRecord(reason="the broker stopped before the transaction was complete")])

    def append(self, records: Sequence[Message]) -> None:
        """Store records, all or none of them, and replay them.

        Raises:
            KafkaStorageError: the disk fails; nothing has changed.
        """
        if not records:
            return
        if len(records) > MOST_RECORDS:
            records = [BeginTransactionRecord(), *records, EndTransactionRecord()]
        now = self._clock()
        for first in range(0, len(records), MOST_RECORDS):
            builder = BatchBuilder(max_bytes=_INT32_MAX)
            for record in records[first : first + MOST_RECORDS]:
                version = VERSIONS.get(record.message_name, record.max_version)
                builder.append(now, None, encode_metadata_record(record, version))
            self._write(builder.build())
        self._log.flush()
        for record in records:
            self._replay(record)
        self.image.next_offset = self._log.log_end_offset
        for listener in self.listeners:
            listener(records)

    def _write(self, batch: bytes | memoryview) -> None:
        self._log.append(batch, leader_epoch=self._epoch, origin=Origin.RAFT_LEADER, now_ms=self._clock())

    def _replay(self, record: Message) -> None:
        """Replay a record; those of a transaction once it ends."""
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
