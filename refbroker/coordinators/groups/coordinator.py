"""The group coordinator of a broker: which partition of `__consumer_offsets` a group is in, and who may ask for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kclient.errors import InvalidGroupIdError
from refbroker.coordinators.groups.shard import GroupShard
from refbroker.coordinators.internal_topic import ensure_topic
from refbroker.coordinators.records import partition_for
from refbroker.coordinators.runtime import CoordinatorResult, CoordinatorRuntime

if TYPE_CHECKING:
    from refbroker.broker import Broker

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
        config = broker.config
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            broker,
            OFFSETS_TOPIC,
            lambda context: GroupShard(context, broker),
            load_buffer_bytes=config.integer("offsets.load.buffer.size"),
            compression_type=_CODECS.get(config.integer("offsets.topic.compression.codec"), "none"),
        )

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
        partitions = 0 if topic is None else len(topic.partitions)
        return partition_for(group_id, partitions or self._broker.config.integer("offsets.topic.num.partitions"))

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
