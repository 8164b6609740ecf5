"""Metadata logs for tests: random batches of a leader, what they amount to, and a replica that follows them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kclient.records import BatchBuilder
from refbroker.config import BrokerConfig
from refbroker.log import Files, LogManager
from refbroker.metadata import ClusterImage, MetadataReplica
from refbroker.metadata.snapshot_file import Snapshot, SnapshotId, encode_snapshot, write_snapshot
from refbroker.metadata.versions import LATEST, encode_record

NOW_MS = 1_700_000_000_000


class Batch(NamedTuple):
    """A batch of a metadata log, which begins at `offset`."""

    offset: int
    epoch: int
    records: tuple[Message, ...]

    @property
    def next_offset(self) -> int:
        return self.offset + len(self.records)

    @property
    def data(self) -> bytes:
        builder = BatchBuilder()
        for record in self.records:
            builder.append(NOW_MS + self.offset, None, encode_record(record, LATEST))
        return bytes(builder.build(base_offset=self.offset, partition_leader_epoch=self.epoch))


class LeaderLog:
    """The log of a leader, which makes up changes.

    Attributes:
        batches: the log.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.epoch = 1
        self.batches: list[Batch] = []
        self._in_transaction = False
        self._topics: list[UUID] = []

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def grow(self, batches: int) -> None:
        """Append random batches."""
        for _ in range(batches):
            self.append(*(self._record() for _ in range(self.rng.randint(1, 4))))

    def append(self, *records: Message) -> None:
        self.batches.append(Batch(self.end_offset, self.epoch, records))

    def elect(self, keep: int) -> None:
        """Replace this leader by one that has only the first batches of the log."""
        del self.batches[keep:]
        self.epoch += 1
        self._in_transaction = in_transaction(self.records_below(self.end_offset))
        if self._in_transaction:
            self.append(AbortTransactionRecord())
            self._in_transaction = False

    def data(self, offset: int, batches: int) -> bytes:
        """Return the bytes of some batches from an offset on."""
        return b"".join(batch.data for batch in [one for one in self.batches if one.offset >= offset][:batches])

    def records_below(self, offset: int) -> list[Message]:
        return [record for batch in self.batches if batch.next_offset <= offset for record in batch.records]

    def _record(self) -> Message:
        kind = self.rng.random()
        if kind < 0.15:
            self._in_transaction = not self._in_transaction
            if self._in_transaction:
                return BeginTransactionRecord()
            return EndTransactionRecord() if self.rng.random() < 0.7 else AbortTransactionRecord()
        if kind < 0.35 or not self._topics:
            self._topics.append(UUID(int=self.rng.randrange(100, 130)))
            return TopicRecord(name=f"t{self._topics[-1].int}", topic_id=self._topics[-1])
        topic_id = self.rng.choice(self._topics)
        return self.rng.choice(
            [
                PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1, 2], isr=[1], leader=1, leader_epoch=0),
                PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=self.rng.randint(1, 2)),
                RemoveTopicRecord(topic_id=topic_id),
                ConfigRecord(resource_type=2, resource_name=f"t{topic_id.int}", name="a", value=str(kind)),
                ConfigRecord(resource_type=4, resource_name="", name="b", value=None if kind < 0.6 else str(kind)),
                ProducerIdsRecord(next_producer_id=1000 * self.end_offset),
                NoOpRecord(),
            ]
        )


def effective(records: Sequence[Message]) -> list[Message]:
    """Return the records that have taken effect after these ones."""
    found: list[Message] = []
    pending: list[Message] | None = None
    for record in records:
        if isinstance(record, BeginTransactionRecord):
            pending = []
        elif isinstance(record, AbortTransactionRecord):
            pending = None
        elif isinstance(record, EndTransactionRecord):
            found, pending = [*found, *(pending or [])], None
        else:
            (found if pending is None else pending).append(record)
    return found


def in_transaction(records: Sequence[Message]) -> bool:
    """Return whether a log of these records ends within a transaction."""
    states = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
    last = next((record for record in reversed(records) if isinstance(record, states)), None)
    return isinstance(last, BeginTransactionRecord)


def image_of(records: Sequence[Message]) -> ClusterImage:
    """Return the image of records that have taken effect."""
    image = ClusterImage()
    for record in records:
        image.replay(record)
    return image


def state_of(image: ClusterImage) -> dict[str, Any]:
    """Return everything that the image has; of registrations what a snapshot keeps."""
    state = {name: value for name, value in vars(image).items() if name not in ("brokers", "next_offset")}
    state["brokers"] = {
        number: [
            *(broker.endpoints, broker.fenced, broker.in_controlled_shutdown, broker.rack, broker.broker_epoch),
            *(broker.record.features, broker.record.log_dirs, broker.record.cordoned_log_dirs),
        ]
        for number, broker in image.brokers.items()
    }
    return state


class Replica:
    """A replica of the metadata log in a directory of its own.

    Attributes:
        replica: the replica.
        heard: the records with which its listener was called.
        can_fetch: whether other nodes have the log.
    """

    can_fetch = False

    def __init__(self, directory: Path, files: Files | None = None) -> None:
        self._directory = directory
        self._files = files or Files(durable=False)
        self.open()

    def open(self) -> None:
        settings = {"log.dirs": str(self._directory), "listeners": "PLAINTEXT://127.0.0.1:9092"}
        config = BrokerConfig(settings)
        self.logs = LogManager.open([self._directory], "cluster", 1, clock=lambda: NOW_MS, files=self._files)
        self.replica = MetadataReplica(self.logs, self._files, config, lambda: NOW_MS)
        self.heard: list[Message] = []
        self.replica.load(can_fetch=self.can_fetch)
        self.replica.listeners.append(self.heard.extend)

    def store_snapshot(self, snapshot_id: SnapshotId, records: Sequence[Message]) -> None:
        """Write the file of a snapshot, as when it was fetched completely."""
        batches = encode_snapshot(Snapshot(list(records), NOW_MS), snapshot_id.epoch, LATEST, NOW_MS)
        write_snapshot(self._files, self.replica.directory / snapshot_id.file_name, batches)

    def restart(self, *, clean: bool = True) -> None:
        self.close(clean=clean)
        self.open()

    def close(self, *, clean: bool = False) -> None:
        self.logs.close() if clean else self.logs.abandon()
