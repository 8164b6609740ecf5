"""The group coordinator of a broker: which partition of `__consumer_offsets` a group is in, and who may ask for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kclient.errors import CoordinatorLoadInProgressError, KafkaError, NotCoordinatorError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import RemoveTopicRecord
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from refbroker.coordinators.groups.consumer.topics import GroupTopics
from refbroker.coordinators.groups.shard import GroupShard
from refbroker.coordinators.internal_topic import InternalTopic
from refbroker.coordinators.runtime import CoordinatorResult, CoordinatorRuntime, coordinator_error
from refbroker.coordinators.transactions.verification import ClientSupport, verify_partitions
from refbroker.log.producer_state import NO_SEQUENCE

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
        topic: where their state is.
        runtime: keeps the state of each partition.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._topics = GroupTopics(lambda: broker.metadata.image)
        config = broker.config
        self.topic = InternalTopic(
            broker,
            OFFSETS_TOPIC,
            config.integer("offsets.topic.num.partitions"),
            config.integer("offsets.topic.replication.factor"),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
            },
        )
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
            for shard in self.runtime.machines(complete=False):
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

    def shard(self, group_id: str) -> GroupShard:
        """The state of the partition a group is in, to be read.

        Raises:
            CoordinatorLoadInProgressError: it is being loaded.
            NotCoordinatorError: this broker does not have it.
        """
        return self.runtime.machine(self.topic.partition_for(group_id))

    def write(self, group_id: str, operation: Callable[[GroupShard], CoordinatorResult[T]]) -> T:
        """Carry out an operation on the partition a group is in; see `CoordinatorRuntime.write`.

        Raises:
            CoordinatorLoadInProgressError, NotCoordinatorError: as `shard` does.
            KafkaError: the operation's own, or that its records could not be stored.
        """
        return self.runtime.write(self.topic.partition_for(group_id), operation)

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, support: ClientSupport
    ) -> TxnOffsetCommitResponse:
        """Store offsets of a group that count once the transaction is committed.

        Parameters:
            support: what the producer knows of KIP-890.

        Raises:
            InvalidProducerEpochError, InvalidPidMappingError, ConcurrentTransactionsError, TransactionAbortableError,
            InvalidTxnStateError: the partition that the group is in is not part of the transaction.
            KafkaError: the group's coordinator refuses, or the records could not be stored.
        """
        partition = self.topic.partition_for(request.group_id)
        errors = verify_partitions(
            self._broker,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            {(OFFSETS_TOPIC, partition): NO_SEQUENCE},
            support,
        )
        for error in errors.values():
            raise coordinator_error(error)
        return self.runtime.write(
            partition,
            lambda shard: shard.commit_offsets_in_transaction(request),
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        )
