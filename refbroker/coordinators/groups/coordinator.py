"""The group coordinator of a broker: finds the partition of `__consumer_offsets` of a group, and runs operations on
it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
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
from refbroker.coordinators.replication_waits import Complete
from refbroker.coordinators.runtime import CoordinatorResult, CoordinatorRuntime, coordinator_error
from refbroker.coordinators.transactions.verification import ClientSupport, PartitionVerifier, Verification
from refbroker.log.producer_state import NO_SEQUENCE
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.partitions import Partitions
from refbroker.metrics.counters import GroupStats
from refbroker.runtime.clock import Clock
from refbroker.runtime.eventual import then

logger = logging.getLogger(__name__)

T = TypeVar("T")


class GroupCoordinator:
    """The groups that a broker coordinates.

    Parameters:
        config: the broker's settings.
        image: the state of the cluster.
        topic_creation: creates `__consumer_offsets`.
        partitions: the partitions that the broker leads.
        clock: the broker's clock.
        rng: random numbers for member ids.
        stats: the counters for metrics.

    Attributes:
        topic: the topic with their state.
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
            timeout_ms=partial(config.integer, "offsets.commit.timeout.ms"),
            compression_type=dict(enumerate(NAMES)).get(config.integer("offsets.topic.compression.codec"), "none"),
        )

    def follow(self, records: Sequence[Message]) -> None:
        """Apply a change of the metadata; a listener of the metadata log."""
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
                # The next load of the partition removes them.
                continue
            except KafkaError as error:
                logger.error("the offsets of deleted topics stay in %s-%d: %s", OFFSETS_TOPIC, partition, error)

    def shard(self, group_id: str) -> GroupShard:
        """Return the state of the partition of a group, for reading.

        Raises:
            CoordinatorLoadInProgressError: the partition is being loaded.
            NotCoordinatorError: another broker coordinates the group.
        """
        return self.runtime.shard(self.topic.partition_for(group_id))

    def write(self, group_id: str, operation: Callable[[GroupShard], CoordinatorResult[T]]) -> T:
        """Run an operation on the partition of a group; see `CoordinatorRuntime.write`.

        Raises:
            CoordinatorLoadInProgressError, NotCoordinatorError: as `shard` does.
            KafkaError: the error of the operation, or of storing its records.
        """
        return self.runtime.write(self.topic.partition_for(group_id), operation)

    def answer(self, group_id: str, ask: Callable[[], T], failed: Callable[[KafkaError], T]) -> T | asyncio.Future[T]:
        """Return an answer about a group when it is replicated; see `CoordinatorRuntime.answer`."""
        return self.runtime.answer(self.topic.partition_for(group_id), ask, failed)

    def hold(self, group_id: str, complete: Complete) -> None:
        """Complete an answer about a group when it is replicated; see `CoordinatorRuntime.hold`."""
        self.runtime.hold(self.topic.partition_for(group_id), complete)

    def commit_offsets_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        verifier: PartitionVerifier,
        support: ClientSupport,
        failed: Callable[[KafkaError], TxnOffsetCommitResponse],
    ) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
        """Store offsets of a group that become valid when the transaction is committed.

        Parameters:
            verifier: verifies that the partition of the group belongs to the transaction.
            support: the support of the producer for KIP-890.
            failed: returns the response for an error: INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING,
                CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE, INVALID_TXN_STATE if the partition of the group does
                not belong to the transaction; another one if the coordinator refuses, or the offsets could not be
                stored.
        """
        partition = self.topic.partition_for(request.group_id)
        verification = verifier.verify(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            {(OFFSETS_TOPIC, partition): NO_SEQUENCE},
            support,
        )

        def store(verification: Verification) -> TxnOffsetCommitResponse:
            for error in verification.errors.values():
                raise coordinator_error(error)
            return self.runtime.write(
                partition,
                lambda shard: shard.commit_offsets_in_transaction(request),
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                verified=verification.of((OFFSETS_TOPIC, partition)),
            )

        return then(verification, lambda result: self.runtime.answer(partition, lambda: store(result), failed))
