"""The transaction coordinator of a broker.

It finds the partition of `__transaction_state` that has a transactional id, and serves the requests of producers and of
the leaders of partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Set
from functools import partial
from typing import TypeVar

from kclient.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidRequestError,
    InvalidTxnTimeoutError,
    KafkaError,
    OperationNotAttemptedError,
    ProducerFencedError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from refbroker.config import BrokerConfig
from refbroker.coordinators.internal_topic import TRANSACTION_TOPIC, AutoTopicCreationManager, InternalTopic
from refbroker.coordinators.producer_ids import ProducerIds
from refbroker.coordinators.runtime import CoordinatorRuntime
from refbroker.coordinators.transactions.markers import MarkerSender
from refbroker.coordinators.transactions.metadata import FIRST_WITH_EPOCH_BUMP
from refbroker.coordinators.transactions.shard import Identity, TransactionShard
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.log.producer_state import NO_SEQUENCE
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.partitions import Partitions
from refbroker.runtime.clock import Clock
from refbroker.runtime.eventual import then

logger = logging.getLogger(__name__)

T = TypeVar("T")
Answers = dict[TopicPartitionKey, KafkaError | None]


class TransactionCoordinator:
    """The transaction coordinator of one broker.

    Parameters:
        config: the broker's settings.
        image: the metadata of the cluster.
        topic_creation: creates `__transaction_state` when it is first needed.
        partitions: the partitions that this broker leads.
        producer_ids: the source of new producer ids.
        markers: sends markers to the leaders of partitions.
        clock: the clock of the broker.

    Attributes:
        topic: the topic that stores the state.
        runtime: the state machines, one for each partition of the topic.
    """

    def __init__(
        self,
        config: BrokerConfig,
        image: ClusterImage,
        topic_creation: AutoTopicCreationManager,
        partitions: Partitions,
        producer_ids: ProducerIds,
        markers: MarkerSender,
        clock: Clock,
    ) -> None:
        self._config = config
        self._image = image
        self.topic = InternalTopic(
            image,
            topic_creation,
            TRANSACTION_TOPIC,
            config.integer("transaction.state.log.num.partitions"),
            config.integer("transaction.state.log.replication.factor"),
            {
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
                "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
            },
        )
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            partitions,
            clock,
            TRANSACTION_TOPIC,
            lambda context: TransactionShard(context, image, producer_ids, markers),
            load_buffer_bytes=config.integer("transaction.state.log.load.buffer.size"),
            timeout_ms=partial(config.integer, "request.timeout.ms"),
            base_sequence=NO_SEQUENCE,
        )

    def shard(self, transactional_id: str) -> TransactionShard:
        """Return the state machine of a transactional id, for reading.

        Raises:
            CoordinatorLoadInProgressError: its state is being loaded.
            NotCoordinatorError: this broker does not coordinate the transactional id.
        """
        return self.runtime.shard(self.topic.partition_for(transactional_id))

    def answer(
        self, transactional_id: str, ask: Callable[[], T], failed: Callable[[KafkaError], T]
    ) -> T | asyncio.Future[T]:
        """Return an answer about a transactional id when it is replicated; see `CoordinatorRuntime.answer`."""
        return self.runtime.answer(self.topic.partition_for(transactional_id), ask, failed)

    # Requests of producers

    def init_producer_id(self, transactional_id: str, timeout_ms: int, expected: Identity | None) -> Identity:
        """Give a producer its identity.

        Parameters:
            timeout_ms: how long its transactions may be open, in milliseconds.
            expected: the identity in the producer's request (KIP-360); None for a new producer, which fences others.

        Raises:
            InvalidRequestError: the transactional id is empty.
            InvalidTxnTimeoutError: the timeout exceeds `transaction.max.timeout.ms`, or is not positive.
            ProducerFencedError: another producer has the transactional id.
            ConcurrentTransactionsError: its previous transaction must complete first.
            KafkaError: the state cannot be read or written.
        """
        _check_id(transactional_id)
        longest_ms = self._config.integer("transaction.max.timeout.ms")
        if not 0 < timeout_ms <= longest_ms:
            raise InvalidTxnTimeoutError(
                f"the transaction timeout of {transactional_id} is {timeout_ms} ms; it must be between 1 and "
                f"{longest_ms} ms (transaction.max.timeout.ms)"
            )
        identity = self.runtime.write(
            self.topic.partition_for(transactional_id),
            lambda shard: shard.on_init_producer_id(transactional_id, timeout_ms, expected),
        )
        if identity is None:
            raise ConcurrentTransactionsError(f"the open transaction of {transactional_id} is being aborted")
        return identity

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartitionKey],
        client_version: int,
    ) -> None:
        """Add partitions to a transaction. The first ones begin it.

        Parameters:
            client_version: the transactions version of the producer.

        Raises:
            InvalidRequestError: the transactional id is empty.
            InvalidPidMappingError, ProducerFencedError: the transactional id belongs to another producer.
            ConcurrentTransactionsError: its previous transaction is not complete.
            KafkaError: the state cannot be read or written.
        """
        _check_id(transactional_id)
        self.runtime.write(
            self.topic.partition_for(transactional_id),
            lambda shard: shard.on_add_partitions(
                transactional_id, producer_id, producer_epoch, partitions, client_version
            ),
        )

    def end(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool, client_version: int
    ) -> Identity:
        """Commit or abort a transaction, and return the identity that the producer uses next (transactions version 2).

        Raises:
            InvalidRequestError: the transactional id is empty.
            InvalidPidMappingError, ProducerFencedError: the transactional id belongs to another producer.
            ConcurrentTransactionsError: its previous transaction is not complete.
            InvalidTxnStateError: no transaction can end in this way.
            KafkaError: the state cannot be read or written.
        """
        _check_id(transactional_id)
        return self.runtime.write(
            self.topic.partition_for(transactional_id),
            lambda shard: shard.on_end_txn(
                transactional_id, producer_id, producer_epoch, commit=commit, client_version=client_version
            ),
        )

    # Verification by the leaders of partitions

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartitionKey],
        *,
        verify_only: bool,
        client_version: int,
        refused: Set[str] = frozenset(),
    ) -> Answers | asyncio.Future[Answers]:
        """Add all partitions to a transaction or none of them, or verify each of them by itself.

        Parameters:
            refused: topics that the client may not write to.

        Returns:
            The error of each partition, None for those that are in the transaction. If a partition does not exist,
            or the client may not write to its topic, the others get OPERATION_NOT_ATTEMPTED.
        """
        wanted = list(partitions)
        errors: dict[TopicPartitionKey, KafkaError] = {
            partition: UnknownTopicOrPartitionError()
            for partition in wanted
            if self._image.partition(*partition) is None
        }
        errors |= {partition: TopicAuthorizationError() for partition in wanted if partition[0] in refused}
        if errors:
            return {partition: errors.get(partition) or OperationNotAttemptedError() for partition in wanted}

        def ask() -> Answers:
            if verify_only:
                _check_id(transactional_id)
                shard = self.shard(transactional_id)
                return shard.on_verify_partitions(transactional_id, producer_id, producer_epoch, wanted)
            self.add_partitions(transactional_id, producer_id, producer_epoch, wanted, client_version)
            return dict.fromkeys(wanted)

        return self.answer(transactional_id, ask, lambda error: dict.fromkeys(wanted, error))

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartitionKey],
        *,
        add: bool,
    ) -> Answers | asyncio.Future[Answers]:
        """Verify partitions for a leader that is about to append transactional records (KIP-890).

        Parameters:
            add: whether to add the partitions (transactions version 2) or to verify that they were added.

        Returns:
            The error of each partition, None for those that are in the transaction. A fenced producer gets
            INVALID_PRODUCER_EPOCH, the error that the response to Produce needs.
        """
        wanted = list(partitions)
        if TRANSACTION_TOPIC not in self._image.topics:
            return dict.fromkeys(wanted, CoordinatorNotAvailableError(f"the topic {TRANSACTION_TOPIC} does not exist"))
        answers = self.add_or_verify(
            transactional_id,
            producer_id,
            producer_epoch,
            wanted,
            verify_only=not add,
            client_version=FIRST_WITH_EPOCH_BUMP,
        )
        return then(answers, _as_known_to_producers)

    # Time

    def abort_timed_out(self) -> None:
        """Abort the transactions that have exceeded their timeout."""
        for shard in self.runtime.shards(complete=False):
            for transactional_id in shard.timed_out():
                try:
                    self.runtime.write(
                        shard.partition,
                        partial(TransactionShard.on_transaction_timeout, transactional_id=transactional_id),
                    )
                except KafkaError as error:
                    logger.warning(
                        "could not abort the transaction of %s, which exceeded its timeout: %s", transactional_id, error
                    )

    def expire(self) -> None:
        """Delete the transactional ids that have not been used for `transactional.id.expiration.ms`."""
        expiration_ms = self._config.integer("transactional.id.expiration.ms")
        for shard in self.runtime.shards(complete=False):
            try:
                self.runtime.write(shard.partition, lambda shard: shard.expire(expiration_ms))
            except KafkaError as error:
                logger.warning(
                    "could not expire transactional ids in %s-%d: %s", TRANSACTION_TOPIC, shard.partition, error
                )


def _as_known_to_producers(answers: Answers) -> Answers:
    return {
        partition: InvalidProducerEpochError(error.message) if isinstance(error, ProducerFencedError) else error
        for partition, error in answers.items()
    }


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequestError("the transactional id is empty")
