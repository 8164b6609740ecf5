"""The group coordinator of a broker: which partition of `__consumer_offsets` a group is in, and who may ask for it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from kclient.errors import CoordinatorLoadInProgressError, KafkaError, NotCoordinatorError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import RemoveTopicRecord
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kclient.records.codecs import NAMES
from refbroker.config import BrokerConfig
from refbroker.coordinators.groups.consumer.topics import GroupTopics
from refbroker.coordinators.groups.shard import GroupShard
from refbroker.coordinators.internal_topic import OFFSETS_TOPIC, AutoTopicCreationManager, InternalTopic
from refbroker.coordinators.runtime import CoordinatorResult, CoordinatorRuntime, coordinator_error
from refbroker.coordinators.transactions.verification import ClientSupport, PartitionVerifier
from refbroker.log.producer_state import NO_SEQUENCE
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.partitions import Partitions
from refbroker.metrics.counters import GroupStats
from refbroker.runtime.clock import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T")


class GroupCoordinator:
    """The groups that a broker coordinates.

    Parameters:
        config: the broker's settings.
        image: the state of the cluster.
        topic_creation: creates `__consumer_offsets`.
        partitions: those that the broker leads.
        clock: the broker's.
        rng: for the ids of members.
        stats: what is counted.

    Attributes:
        topic: where their state is.
        runtime: keeps the state of each partition.
    """

    def __init__(
        self,
        config: BrokerConfig,
        image: ClusterImage,
        topic_creation: AutoTopicCreationManager,
        partitions: Partitions,
        clock: Clock,
        rng: random.Random,
        stats: GroupStats,
    ) -> None:
        self._topics = GroupTopics(lambda: image)
        self.topic = InternalTopic(
            image,
            topic_creation,
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
            partitions,
            clock,
            OFFSETS_TOPIC,
            lambda context: GroupShard(context, config, image, self._topics, rng, stats),
            load_buffer_bytes=config.integer("offsets.load.buffer.size"),
            compression_type=dict(enumerate(NAMES)).get(config.integer("offsets.topic.compression.codec"), "none"),
        )

    def follow(self, records: Sequence[Message]) -> None:
        """Take note of a change of the metadata; a listener of the metadata log."""
        if self._topics.follow(records):
            for shard in self.runtime.shards(complete=False):
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
        return self.runtime.shard(self.topic.partition_for(group_id))

    def write(self, group_id: str, operation: Callable[[GroupShard], CoordinatorResult[T]]) -> T:
        """Carry out an operation on the partition a group is in; see `CoordinatorRuntime.write`.

        Raises:
            CoordinatorLoadInProgressError, NotCoordinatorError: as `shard` does.
            KafkaError: the operation's own, or that its records could not be stored.
        """
        return self.runtime.write(self.topic.partition_for(group_id), operation)

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, verifier: PartitionVerifier, support: ClientSupport
    ) -> TxnOffsetCommitResponse:
        """Store offsets of a group that count once the transaction is committed.

        Parameters:
            verifier: confirms that the group's partition is part of the transaction.
            support: what the producer knows of KIP-890.

        Raises:
            InvalidProducerEpochError, InvalidPidMappingError, ConcurrentTransactionsError, TransactionAbortableError,
            InvalidTxnStateError: the partition that the group is in is not part of the transaction.
            KafkaError: the group's coordinator refuses, or the records could not be stored.
        """
        partition = self.topic.partition_for(request.group_id)
        errors = verifier.verify(
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
