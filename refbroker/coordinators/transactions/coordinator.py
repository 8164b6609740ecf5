"""The transaction coordinator of a broker: which partition of `__transaction_state` a transactional id is in, and what
producers, and the brokers that take their records, ask of it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from functools import partial

from kclient.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidRequestError,
    InvalidTxnTimeoutError,
    KafkaError,
    OperationNotAttemptedError,
    ProducerFencedError,
    UnknownTopicOrPartitionError,
)
from refbroker.config import BrokerConfig
from refbroker.coordinators.internal_topic import TRANSACTION_TOPIC, AutoTopicCreationManager, InternalTopic
from refbroker.coordinators.runtime import CoordinatorRuntime
from refbroker.coordinators.transactions.markers import MarkerWriter
from refbroker.coordinators.transactions.metadata import FIRST_WITH_EPOCH_BUMP
from refbroker.coordinators.transactions.shard import Identity, TransactionShard
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.log.producer_state import NO_SEQUENCE
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.partitions import Partitions
from refbroker.metadata.producer_ids import ProducerIds
from refbroker.runtime.clock import Clock

logger = logging.getLogger(__name__)

Answers = dict[TopicPartitionKey, KafkaError | None]


class TransactionCoordinator:
    """The transactional ids that a broker coordinates.

    Parameters:
        config: the broker's settings.
        image: the state of the cluster.
        topic_creation: creates `__transaction_state`.
        partitions: those that the broker leads.
        producer_ids: gives new ones.
        markers: ends transactions in partitions.
        clock: the broker's.

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
        producer_ids: ProducerIds,
        markers: MarkerWriter,
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
            base_sequence=NO_SEQUENCE,
        )

    def shard(self, transactional_id: str) -> TransactionShard:
        """The state of the partition a transactional id is in, to be read.

        Raises:
            CoordinatorLoadInProgressError: it is being loaded.
            NotCoordinatorError: this broker does not have it.
        """
        return self.runtime.shard(self.topic.partition_for(transactional_id))

    # What producers ask for

    def init_producer_id(self, transactional_id: str, timeout_ms: int, expected: Identity | None) -> Identity:
        """Give a producer its identity.

        Parameters:
            timeout_ms: how long its transactions may be open.
            expected: what the producer says it has (KIP-360), None for a new one, which fences others.

        Raises:
            InvalidRequestError: the transactional id is empty.
            InvalidTxnTimeoutError: the timeout is longer than `transaction.max.timeout.ms`, or none.
            ProducerFencedError: another producer has the transactional id.
            ConcurrentTransactionsError: a transaction of it has to be brought to its end first.
            KafkaError: the state cannot be read or written.
        """
        _check_id(transactional_id)
        longest_ms = self._config.integer("transaction.max.timeout.ms")
        if not 0 < timeout_ms <= longest_ms:
            raise InvalidTxnTimeoutError(
                f"a transaction of {transactional_id} is to be open for {timeout_ms} ms, of 1 to {longest_ms} that are "
                "allowed (transaction.max.timeout.ms)"
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
        """Add partitions to a transaction, which begins with the first of them.

        Parameters:
            client_version: of transactions, in which the producer speaks.

        Raises:
            InvalidRequestError: the transactional id is empty.
            InvalidPidMappingError, ProducerFencedError: the transactional id is not this producer's.
            ConcurrentTransactionsError: its last transaction is not complete yet.
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
        """Commit or abort a transaction, and say what the producer goes on with in transactions version 2.

        Raises:
            InvalidRequestError: the transactional id is empty.
            InvalidPidMappingError, ProducerFencedError: the transactional id is not this producer's.
            ConcurrentTransactionsError: its last transaction is not complete yet.
            InvalidTxnStateError: there is nothing that could end so.
            KafkaError: the state cannot be read or written.
        """
        _check_id(transactional_id)
        return self.runtime.write(
            self.topic.partition_for(transactional_id),
            lambda shard: shard.on_end_txn(
                transactional_id, producer_id, producer_epoch, commit=commit, client_version=client_version
            ),
        )

    # What those ask for who take a producer's records

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartitionKey],
        *,
        verify_only: bool,
        client_version: int,
    ) -> Answers:
        """Add partitions to a transaction, all or none of them, or see whether they are in it, each for itself.

        Returns:
            What is wrong with each partition, None for those that are in the transaction now. When one of them does
            not exist, the others are OPERATION_NOT_ATTEMPTED.
        """
        wanted = list(partitions)
        unknown = {partition for partition in wanted if self._image.partition(*partition) is None}
        if unknown:
            return {
                partition: UnknownTopicOrPartitionError() if partition in unknown else OperationNotAttemptedError()
                for partition in wanted
            }
        try:
            if verify_only:
                _check_id(transactional_id)
                shard = self.shard(transactional_id)
                return shard.on_verify_partitions(transactional_id, producer_id, producer_epoch, wanted)
            self.add_partitions(transactional_id, producer_id, producer_epoch, wanted, client_version)
        except KafkaError as error:
            return dict.fromkeys(wanted, error)
        return dict.fromkeys(wanted)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartitionKey],
        *,
        add: bool,
    ) -> Answers:
        """What the leader of partitions asks before it takes records into a transaction (KIP-890).

        Parameters:
            add: whether to add the partitions, for producers of transactions version 2, or to see that they were.

        Returns:
            What is wrong with each partition, None for those that are in the transaction. A producer that is fenced
            gets INVALID_PRODUCER_EPOCH, as the answer to Produce has to say it.
        """
        wanted = list(partitions)
        if TRANSACTION_TOPIC not in self._image.topics:
            return dict.fromkeys(wanted, CoordinatorNotAvailableError(f"there is no {TRANSACTION_TOPIC}"))
        answers = self.add_or_verify(
            transactional_id,
            producer_id,
            producer_epoch,
            wanted,
            verify_only=not add,
            client_version=FIRST_WITH_EPOCH_BUMP,
        )
        return {
            partition: InvalidProducerEpochError(error.message) if isinstance(error, ProducerFencedError) else error
            for partition, error in answers.items()
        }

    # Time

    def abort_timed_out(self) -> None:
        """Abort the transactions that have been open for too long."""
        for shard in self.runtime.shards(complete=False):
            for transactional_id in shard.timed_out():
                try:
                    self.runtime.write(
                        shard.partition,
                        partial(TransactionShard.on_transaction_timeout, transactional_id=transactional_id),
                    )
                except KafkaError as error:
                    logger.warning("could not abort the transaction of %s: %s", transactional_id, error)

    def expire(self) -> None:
        """Let go of the transactional ids that have not been used for long."""
        expiration_ms = self._config.integer("transactional.id.expiration.ms")
        for shard in self.runtime.shards(complete=False):
            try:
                self.runtime.write(shard.partition, lambda shard: shard.expire(expiration_ms))
            except KafkaError as error:
                logger.warning("transactional ids stay in %s-%d: %s", TRANSACTION_TOPIC, shard.partition, error)


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequestError("the transactional id is empty")
