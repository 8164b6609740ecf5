"""The transactional ids in one partition of `__transaction_state`, as one machine: a method for each request and timer.

    requests    on_init_producer_id, on_add_partitions, on_verify_partitions, on_end_txn
    timers      on_transaction_timeout, on_markers_due; expire
    partition   replay, loaded, unloaded

Each request that changes something is one record. The end of a transaction is two: once the first, which decides the
outcome, is in the log, the markers are written (`completion`), and then the second. Both happen before the request is
answered, unless a marker has to wait; until the second is there other requests get CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import NamedTuple, TypeVar

from kclient.errors import InvalidPidMappingError, KafkaError, ProducerFencedError, TransactionAbortableError
from kclient.protocol import Message
from kclient.protocol.messages.records.transaction_state import TransactionLogKey, TransactionLogValue
from refbroker.coordinators.runtime import CoordinatorResult, ShardContext
from refbroker.coordinators.transactions.completion import MarkerProgress, PendingMarkers
from refbroker.coordinators.transactions.ending import Outcome, check_not_ending, check_producer, decide
from refbroker.coordinators.transactions.markers import MarkerWriter
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
from refbroker.metadata.producer_ids import ProducerIds

logger = logging.getLogger(__name__)

RETRY_MS = 100
"""After how long markers that could not be written are written again."""

T = TypeVar("T")


class Identity(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TransactionShard:
    """The transactional ids in one partition; a state machine of the runtime.

    Parameters:
        context: time and timers.
        image: the state of the cluster, for the version of transactions.
        producer_ids: gives new ones.
        markers: writes them.

    Attributes:
        partition: of `__transaction_state`.
        transactions: by transactional id.
        completion: the markers that are missing.
    """

    def __init__(
        self,
        context: ShardContext[TransactionShard],
        image: ClusterImage,
        producer_ids: ProducerIds,
        markers: MarkerWriter,
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
        self, metadata: TransactionMetadata, response: T, then: Callable[[], object] | None = None
    ) -> CoordinatorResult[T]:
        """The write of a step of a transactional id.

        Parameters:
            then: what to do once it is stored.
        """

        def written(error: KafkaError | None) -> None:
            if error is not None:
                return
            replayed = self.transactions[metadata.transactional_id]
            self.transactions[metadata.transactional_id] = replayed.with_unrecorded(metadata)
            if then is not None:
                then()

        return CoordinatorResult([metadata.to_record(self._transaction_version)], response, written)

    # Identities

    def on_init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Identity | None
    ) -> CoordinatorResult[Identity | None]:
        """Give a producer its identity; None when an open transaction had to be aborted first.

        Parameters:
            timeout_ms: of its transactions.
            expected: what the producer says it has (KIP-360), None for a new one, which fences others.

        Raises:
            ProducerFencedError: another producer has the transactional id.
            ConcurrentTransactionsError: its last transaction is not complete yet.
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
        """Shut out the producer of an open transaction, and abort that."""
        version = self._transaction_version
        prepared = self._prepare(metadata.fenced(version), commit=False, client_version=version)
        return self.store(prepared, response, lambda: self._begin_completion(metadata.transactional_id))

    # Transactions

    def on_add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartitionKey],
        client_version: int,
    ) -> CoordinatorResult[None]:
        """Add partitions to the open transaction, or begin one with them.

        Raises:
            InvalidPidMappingError, ProducerFencedError: the transactional id is not this producer's.
            ConcurrentTransactionsError: its last transaction is not complete yet.
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
        """Whether partitions are in the open transaction.

        Raises:
            InvalidPidMappingError, ProducerFencedError: the transactional id is not this producer's.
            ConcurrentTransactionsError: its last transaction is not complete yet.
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
        """Commit or abort a transaction; the answer is what the producer goes on with (of transactions version 2).

        Raises:
            KafkaError: what `ending.decide` raises.
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
            lambda: self._begin_completion(transactional_id),
        )

    def _begin_completion(self, transactional_id: str) -> None:
        self.completion.forget(transactional_id)
        self._context.carry_out(
            _marker_timer(transactional_id), lambda: self.on_markers_due(transactional_id), retry_after_ms=RETRY_MS
        )

    def on_markers_due(self, transactional_id: str) -> CoordinatorResult[None]:
        """Write the markers of a prepared transaction that are missing, and complete it when all are there."""
        metadata = self.transactions[transactional_id]
        progress = self.completion.write_markers(metadata)
        if progress is MarkerProgress.WRITTEN:
            completed = metadata.completed(self._context.now())
            return self.store(completed, None, lambda: self.completion.forget(transactional_id))
        if progress is MarkerProgress.UNFINISHED:
            self._context.schedule(
                _marker_timer(transactional_id), RETRY_MS, lambda: self.on_markers_due(transactional_id), RETRY_MS
            )
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
        """The transactional ids whose transactions have been open for too long."""
        now = self._context.now()
        return [
            metadata.transactional_id
            for metadata in self.transactions.values()
            if metadata.state is TransactionState.ONGOING
            and metadata.timeout_ms != NO_TIMEOUT_MS
            and metadata.start_timestamp_ms + metadata.timeout_ms < now
        ]

    def on_transaction_timeout(self, transactional_id: str) -> CoordinatorResult[None]:
        """Abort a transaction that has been open for too long; its producer is fenced."""
        logger.info("aborting the transaction of %s, whose time is up", transactional_id)
        return self._fence(self.transactions[transactional_id], None)

    def expire(self, expiration_ms: int) -> CoordinatorResult[None]:
        """Let go of the transactional ids that have not been used for so long."""
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

    # What the runtime asks for

    def replay(self, key: Message, value: Message | None, producer_id: int, offset: int) -> None:
        """Take over what a record says."""
        assert isinstance(key, TransactionLogKey)
        if value is None:
            self.transactions.pop(key.transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        self.transactions[key.transactional_id] = TransactionMetadata.from_record(key.transactional_id, value)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Nothing: this log's records are in no transaction."""

    def loaded(self) -> None:
        """Begin: what was decided before is brought to its end."""
        for metadata in list(self.transactions.values()):
            if metadata.state.is_prepared:
                self._begin_completion(metadata.transactional_id)

    def unloaded(self) -> None:
        """End: nobody waits here."""


def _marker_timer(transactional_id: str) -> str:
    return f"markers of {transactional_id}"


def _is_known(metadata: TransactionMetadata, expected: Identity) -> bool:
    """Whether a producer may be the one that has a transactional id; its epoch is looked at later."""
    if metadata.producer_epoch == NO_PRODUCER_EPOCH or metadata.producer_id == expected.producer_id:
        return True
    # The answer that gave it the next producer id may have been lost.
    return metadata.previous_producer_id == expected.producer_id and is_exhausted(expected.producer_epoch)
