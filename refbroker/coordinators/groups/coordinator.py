"""The group coordinator of a broker: which partition of `__consumer_offsets` a group is in, and who may ask for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from kclient.errors import CoordinatorLoadInProgressError, InvalidGroupIdError, KafkaError, NotCoordinatorError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import RemoveTopicRecord
from refbroker.coordinators.groups.consumer.topics import GroupTopics
from refbroker.coordinators.groups.shard import GroupShard
from refbroker.coordinators.internal_topic import ensure_topic
from refbroker.coordinators.records import partition_for
from refbroker.coordinators.runtime import CoordinatorResult, CoordinatorRuntime

if TYPE_CHECKING:
    from refbroker.broker import Broker

logger = logging.getLogger(__name__)

T = TypeVar("T")

OFFSETS_TOPIC = "__consumer_offsets"
_CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


class GroupCoordinator:
    """The groups that a broker coordinates.

    Parameters:
        broker: whose.

    Attributes:
        runtime: keeps the state of each partition.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._counted: tuple[UUID, int] | None = None
        self._topics = GroupTopics(lambda: broker.metadata.image)
        config = broker.config
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            broker,
            OFFSETS_TOPIC,
            lambda context: GroupShard(context, broker, self._topics),
            load_buffer_bytes=config.integer("offsets.load.buffer.size"),
            compression_type=_CODECS.get(config.integer("offsets.topic.compression.codec"), "none"),
        )

    def follow(self, records: Sequence[Message]) -> None:
        """Take note of a change of the metadata; a listener of the metadata log."""
        if self._topics.follow(records):
            for shard in self.shards(complete=False):
                for group in shard.consumers.values():
                    group.topics_changed()
        self.runtime.follow(records)
        if not any(isinstance(record, RemoveTopicRecord) for record in records):
            return
        for partition in self.runtime.partitions():
            try:
                self.runtime.write(partition, lambda shard: shard.forget_deleted_topics())
            except (CoordinatorLoadInProgressError, NotCoordinatorError):
                # Whoever loads the partition does it then.
                continue
            except KafkaError as error:
                logger.error("the offsets of deleted topics stay in %s-%d: %s", OFFSETS_TOPIC, partition, error)

    def shards(self, *, complete: bool = True) -> list[GroupShard]:
        """The state of every partition that this broker coordinates, to be read.

        Parameters:
            complete: False to leave out what is being loaded.

        Raises:
            CoordinatorLoadInProgressError: one of them is being loaded.
        """
        found = []
        for partition in self.runtime.partitions():
            try:
                found.append(self.runtime.machine(partition))
            except NotCoordinatorError:
                # Its log could not be read; what it has nobody knows.
                continue
            except CoordinatorLoadInProgressError:
                if complete:
                    raise
        return found

    def ensure_topic(self) -> bool:
        """Make `__consumer_offsets` unless it exists, and say whether it does then."""
        config = self._broker.config
        return ensure_topic(
            self._broker,
            OFFSETS_TOPIC,
            config.integer("offsets.topic.num.partitions"),
            config.integer("offsets.topic.replication.factor"),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
            },
        )

    def partition_for(self, group_id: str) -> int:
        """The partition a group is in."""
        topic = self._broker.metadata.image.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return partition_for(group_id, self._broker.config.integer("offsets.topic.num.partitions"))
        if self._counted is None or self._counted[0] != topic.topic_id:
            # More partitions would move the groups away from their state; Kafka counts them at its start as well.
            self._counted = topic.topic_id, len(topic.partitions)
        return partition_for(group_id, self._counted[1])

    def shard(self, group_id: str) -> GroupShard:
        """The state of the partition a group is in, to be read.

        Raises:
            CoordinatorLoadInProgressError: it is being loaded.
            NotCoordinatorError: this broker does not have it.
        """
        return self.runtime.machine(self.partition_for(group_id))

    def write(self, group_id: str, operation: Callable[[GroupShard], CoordinatorResult[T]]) -> T:
        """Carry out an operation on the partition a group is in; see `CoordinatorRuntime.write`.

        Raises:
            CoordinatorLoadInProgressError, NotCoordinatorError: as `shard` does.
            KafkaError: the operation's own, or that its records could not be stored.
        """
        return self.runtime.write(self.partition_for(group_id), operation)


def check_group_id(group_id: str | None) -> None:
    """See that a group that has members can have this id.

    Raises:
        InvalidGroupIdError: it is empty.
    """
    if not group_id:
        raise InvalidGroupIdError
