"""A state machine for the transactional ids in one partition of `__transaction_state`.

    requests    on_init_producer_id, on_add_partitions, on_verify_partitions, on_end_txn
    timers      on_transaction_timeout, on_markers_due; expire
    partition   replay, loaded, unloaded

Each change of state is one record. The end of a transaction is two: the first decides the outcome; once it is
replicated, the markers are written (`completion`), and then the second record. With one replica in sync all of this
happens before the response, unless a marker must be retried. Until the second record is written, other requests get
CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import NamedTuple, TypeVar

from kclient.errors import InvalidPidMappingError, KafkaError, ProducerFencedError, TransactionAbortableError
from kclient.protocol import Message
from kclient.protocol.messages.records.transaction_state import TransactionLogKey, TransactionLogValue
from refbroker.coordinators.producer_ids import ProducerIds
from refbroker.coordinators.runtime import CoordinatorResult, ShardContext
from refbroker.coordinators.transactions.completion import MarkerProgress, PendingMarkers
from refbroker.coordinators.transactions.ending import Outcome, check_not_ending, check_producer, decide
from refbroker.coordinators.transactions.markers import MarkerSender
from refbroker.coordinators.transactions.metadata import (
    FIRST_WITH_EPOCH_BUMP,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    TransactionMetadata,
    is_exhausted,
)
from refbroker.coordinators.transactions.states import TransactionEvent, TransactionState
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.metadata.features import TRANSACTION_VERSION
from refbroker.metadata.image import ClusterImage
from refbroker.runtime.eventual import then

logger = logging.getLogger(__name__)

RETRY_MS = 100
"""How long to wait before markers that could not be written are retried, in milliseconds."""

T = TypeVar("T")


class Identity(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TransactionShard:
    """The transactional ids in one partition, with a method for each request and timer.

    Parameters:
        context: the clock and timers of the runtime.
        image: the metadata of the cluster, with the finalized `transaction.version`.
        producer_ids: the source of new producer ids.
        markers: sends markers to the leaders of partitions.

    Attributes:
        partition: the partition of `__transaction_state`.
        transactions: their state by transactional id.
        completion: the markers that are still to be written.
    """

    def __init__(
        self,
        context: ShardContext[TransactionShard],
        image: ClusterImage,
        producer_ids: ProducerIds,
        markers: MarkerSender,
    ) -> None:
        self.partition = context.partition
        self.transactions: dict[str, TransactionMetadata] = {}
        self.completion = PendingMarkers(markers, context.leader_epoch)
        self._context = context
        self._image = image
        self._producer_ids = producer_ids

    @property
    def _transaction_version(self) -> int:
        return self._image.features.get(TRANSACTION_VERSION, 0)

    def store(
        self, metadata: TransactionMetadata, response: T, stored: Callable[[], object] | None = None
    ) -> CoordinatorResult[T]:
        """Return the write of a step of a transactional id.

        Parameters:
            stored: called once the record is in the log.
        """

        def written(error: KafkaError | None) -> None:
            if error is not None:
                return
            replayed = self.transactions[metadata.transactional_id]
            self.transactions[metadata.transactional_id] = replayed.with_unrecorded(metadata)
            if stored is not None:
                stored()

        return CoordinatorResult([metadata.to_record(self._transaction_version)], response, written)

    # Identities

    def on_init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Identity | None
    ) -> CoordinatorResult[Identity | None]:
        """Give a producer its identity; return None if an open transaction must be aborted first.

        Parameters:
            timeout_ms: how long its transactions may be open, in milliseconds.
            expected: the identity in the producer's request (KIP-360); None for a new producer, which fences others.

        Raises:
            ProducerFencedError: another producer has the transactional id.
            ConcurrentTransactionsError: its previous transaction is not complete.
        """
        now, producer_ids = self._context.now(), self._producer_ids
        metadata = self.transactions.get(transactional_id)
        if metadata is None:
            metadata = TransactionMetadata(transactional_id, producer_ids.next(), timeout_ms, now)
        check_not_ending(metadata)
        if expected is not None and not _is_known(metadata, expected):
            raise ProducerFencedError(
                f"the transactional id {transactional_id} has the producer id {metadata.producer_id}, the producer "
                f"{expected.producer_id}"
            )
        if metadata.state is TransactionState.ONGOING:
            return self._fence(metadata, None)
        expected_epoch = None if expected is None else expected.producer_epoch
        if is_exhausted(metadata.producer_epoch) and expected_epoch in (None, metadata.producer_epoch):
            step = metadata.with_new_producer_id(
                producer_ids.next(), timeout_ms, now, keep_last_epoch=expected is not None
            )
        else:
            step = metadata.with_next_epoch(timeout_ms, expected_epoch, now)
        return self.store(step, Identity(step.producer_id, step.producer_epoch))

    def _fence(self, metadata: TransactionMetadata, response: T) -> CoordinatorResult[T]:
        """Fence the producer of an open transaction, and abort the transaction."""
        version = self._transaction_version
        # Without the epoch bump Kafka stores 0 as the client's version, whatever the finalized level is.
        client_version = version if version >= FIRST_WITH_EPOCH_BUMP else 0
        prepared = self._prepare(metadata.fenced(version), commit=False, client_version=client_version)
        return self.store(prepared, response, lambda: self._complete_when_replicated(metadata.transactional_id))

    # Transactions

    def on_add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartitionKey],
        client_version: int,
    ) -> CoordinatorResult[None]:
        """Add partitions to the open transaction, or begin one.

        Raises:
            InvalidPidMappingError, ProducerFencedError: the transactional id belongs to another producer.
            ConcurrentTransactionsError: its previous transaction is not complete.
        """
        metadata = self._find(transactional_id)
        # Before the producer is checked: completing the last transaction may assign a new producer id, which the
        # producer already uses.
        check_not_ending(metadata)
        check_producer(metadata, producer_id, producer_epoch)
        if metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(partitions):
            return CoordinatorResult([], None)
        return self.store(metadata.with_partitions(partitions, self._context.now(), client_version), None)

    def on_verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartitionKey],
    ) -> dict[TopicPartitionKey, KafkaError | None]:
        """Return an error for each partition that is not in the open transaction.

        Raises:
            InvalidPidMappingError, ProducerFencedError: the transactional id belongs to another producer.
            ConcurrentTransactionsError: its previous transaction is not complete.
        """
        metadata = self._find(transactional_id)
        check_producer(metadata, producer_id, producer_epoch)
        check_not_ending(metadata)
        return {
            partition: None
            if partition in metadata.partitions
            else TransactionAbortableError(
                f"the partition is not in the transaction of {transactional_id}",
                topic=partition[0],
                partition=partition[1],
            )
            for partition in partitions
        }

    def on_end_txn(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool, client_version: int
    ) -> CoordinatorResult[Identity]:
        """Commit or abort a transaction, and return the identity that the producer uses next (transactions version 2).

        Raises:
            KafkaError: see `ending.decide`.
        """
        metadata = self._find(transactional_id)
        outcome = decide(metadata, producer_id, producer_epoch, commit=commit, client_version=client_version)
        if outcome is Outcome.DONE:
            return CoordinatorResult([], Identity(metadata.producer_id, metadata.producer_epoch))
        prepared = self._prepare(metadata, commit=commit, client_version=client_version)
        after = prepared.completed(prepared.last_update_timestamp_ms)
        return self.store(
            prepared,
            Identity(after.producer_id, after.producer_epoch),
            lambda: self._complete_when_replicated(transactional_id),
        )

    def _complete_when_replicated(self, transactional_id: str) -> None:
        # Another coordinator that does not have the outcome must not find markers of it.
        self.completion.forget(transactional_id)
        self._context.when_replicated(lambda: self._write_markers(transactional_id))

    def _write_markers(self, transactional_id: str) -> None:
        metadata = self.transactions[transactional_id]
        answer = self.completion.write_markers(metadata)
        then(answer, lambda progress: self._markers_answered(metadata, progress))

    def _markers_answered(self, asked: TransactionMetadata, progress: MarkerProgress) -> None:
        transactional_id = asked.transactional_id
        metadata = self.transactions.get(transactional_id)
        if metadata is None or _outcome(metadata) != _outcome(asked):
            # The answer is about an earlier transaction.
            return
        timer = _marker_timer(transactional_id)
        if progress is MarkerProgress.WRITTEN:
            self._context.carry_out(timer, lambda: self.on_markers_written(transactional_id), retry_after_ms=RETRY_MS)
        elif progress is MarkerProgress.UNFINISHED:
            self._context.schedule(timer, RETRY_MS, lambda: self.on_markers_due(transactional_id), RETRY_MS)

    def on_markers_written(self, transactional_id: str) -> CoordinatorResult[None]:
        """Complete a prepared transaction whose partitions all have their markers."""
        completed = self.transactions[transactional_id].completed(self._context.now())
        return self.store(completed, None, lambda: self.completion.forget(transactional_id))

    def on_markers_due(self, transactional_id: str) -> CoordinatorResult[None]:
        """Write the markers of a prepared transaction again that failed before."""
        self._write_markers(transactional_id)
        return CoordinatorResult([], None)

    def _prepare(self, metadata: TransactionMetadata, *, commit: bool, client_version: int) -> TransactionMetadata:
        next_producer_id = NO_PRODUCER_ID
        if client_version >= FIRST_WITH_EPOCH_BUMP and is_exhausted(metadata.producer_epoch):
            next_producer_id = self._producer_ids.next()
        outcome = TransactionEvent.COMMIT if commit else TransactionEvent.ABORT
        return metadata.prepared(outcome, self._context.now(), client_version, next_producer_id)

    def _find(self, transactional_id: str) -> TransactionMetadata:
        metadata = self.transactions.get(transactional_id)
        if metadata is None:
            raise InvalidPidMappingError(f"no producer has the transactional id {transactional_id}")
        return metadata

    # Time

    def timed_out(self) -> list[str]:
        """Return the transactional ids whose transactions have exceeded their timeout."""
        now = self._context.now()
        return [
            metadata.transactional_id
            for metadata in self.transactions.values()
            if metadata.state is TransactionState.ONGOING
            and metadata.timeout_ms != NO_TIMEOUT_MS
            and metadata.start_timestamp_ms + metadata.timeout_ms < now
        ]

    def on_transaction_timeout(self, transactional_id: str) -> CoordinatorResult[None]:
        """Abort a transaction that has exceeded its timeout, and fence its producer."""
        logger.info("aborting the transaction of %s, which exceeded its timeout", transactional_id)
        return self._fence(self.transactions[transactional_id], None)

    def expire(self, expiration_ms: int) -> CoordinatorResult[None]:
        """Delete the transactional ids that have not been used for `expiration_ms` milliseconds."""
        until = self._context.now() - expiration_ms
        return CoordinatorResult(
            [
                metadata.tombstone()
                for metadata in self.transactions.values()
                if metadata.state.may_expire and metadata.last_update_timestamp_ms <= until
            ],
            None,
            atomic=False,
        )

    # Called by the runtime

    def replay(self, key: Message, value: Message | None, producer_id: int, offset: int) -> None:
        """Apply a record of the log to the state."""
        assert isinstance(key, TransactionLogKey)
        if value is None:
            self.transactions.pop(key.transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        self.transactions[key.transactional_id] = TransactionMetadata.from_record(key.transactional_id, value)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Do nothing: the records of this log are not transactional."""

    def loaded(self) -> None:
        """Complete the transactions whose outcome was decided before the state was loaded."""
        for metadata in list(self.transactions.values()):
            if metadata.state.is_prepared:
                self._complete_when_replicated(metadata.transactional_id)

    def unloaded(self) -> None:
        """Do nothing: no request waits in this state machine."""


def _outcome(metadata: TransactionMetadata) -> tuple[int, int, TransactionState]:
    return metadata.producer_id, metadata.producer_epoch, metadata.state


def _marker_timer(transactional_id: str) -> str:
    return f"markers of {transactional_id}"


def _is_known(metadata: TransactionMetadata, expected: Identity) -> bool:
    """Return whether the producer id belongs to the transactional id. The caller compares the epoch."""
    if metadata.producer_epoch == NO_PRODUCER_EPOCH or metadata.producer_id == expected.producer_id:
        return True
    # The response with the next producer id may have been lost.
    return metadata.previous_producer_id == expected.producer_id and is_exhausted(expected.producer_epoch)
