"""Brings transactions whose outcome is decided to their end: markers into every partition, then the complete record.

Whether it is the first time, a repetition after an error, or a start after a crash makes no difference: a marker that
is there already does no harm, and nothing but the complete record ends the work. What may go wrong with a marker:

    the partition is gone                       it needs none
    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED
                                                another coordinator has the transactional id; nothing is done any more
                                                until this one loads its state anew
    UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION
                                                nothing can have been written there; it needs none
    anything else                               again after a while

The partitions that still need one are kept in memory; after a crash every partition gets its marker once more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kclient.errors import (
    InvalidProducerEpochError,
    KafkaError,
    TransactionCoordinatorFencedError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
)
from refbroker.coordinators.runtime import CoordinatorResult, ShardContext
from refbroker.coordinators.transactions.markers import write_markers
from refbroker.coordinators.transactions.metadata import TransactionMetadata
from refbroker.coordinators.transactions.states import TransactionState
from refbroker.log import TransactionMarker
from refbroker.log.checkpoints import TopicPartitionKey

if TYPE_CHECKING:
    from refbroker.broker import Broker
    from refbroker.coordinators.transactions.shard import TransactionShard

logger = logging.getLogger(__name__)

RETRY_MS = 100

_NEEDS_NONE = (UnsupportedForMessageFormatError, UnsupportedVersionError)
_NOT_OURS = (InvalidProducerEpochError, TransactionCoordinatorFencedError)


class Completion:
    """The ends of the transactions in one partition of `__transaction_state`.

    Parameters:
        shard: whose transactions they are.
        context: time and timers.
        broker: whose partitions get the markers.
    """

    def __init__(self, shard: TransactionShard, context: ShardContext[TransactionShard], broker: Broker) -> None:
        self._shard = shard
        self._context = context
        self._broker = broker
        self._unmarked: dict[str, frozenset[TopicPartitionKey]] = {}

    def unmarked(self, metadata: TransactionMetadata) -> frozenset[TopicPartitionKey]:
        """The partitions of a transaction that have no marker yet."""
        return self._unmarked.get(metadata.transactional_id, metadata.partitions)

    def begin(self, transactional_id: str) -> None:
        """Write the markers of a prepared transaction, and complete it when all are there."""
        self._unmarked.pop(transactional_id, None)
        self._context.carry_out(
            f"markers of {transactional_id}", lambda: self._go_on(transactional_id), retry_after_ms=RETRY_MS
        )

    def _go_on(self, transactional_id: str) -> CoordinatorResult[None]:
        metadata = self._shard.transactions[transactional_id]
        answers = self._write(metadata)
        rest = frozenset(
            partition
            for partition, error in answers.items()
            if error is not None and not isinstance(error, _NEEDS_NONE)
        )
        if rest != self._unmarked.get(transactional_id):
            for partition in rest:
                logger.info("no marker of %s in %s-%d yet: %s", transactional_id, *partition, answers[partition])
        self._unmarked[transactional_id] = rest
        if not rest:
            return self._shard.store(
                metadata.completed(self._context.now()), None, lambda: self._unmarked.pop(transactional_id, None)
            )
        lost = next((answers[partition] for partition in rest if isinstance(answers[partition], _NOT_OURS)), None)
        if lost is None:
            self._context.schedule(
                f"markers of {transactional_id}", RETRY_MS, lambda: self._go_on(transactional_id), RETRY_MS
            )
        else:
            logger.error("the transaction of %s cannot be completed here: %s", transactional_id, lost)
        return CoordinatorResult([], None)

    def _write(self, metadata: TransactionMetadata) -> dict[TopicPartitionKey, KafkaError | None]:
        marker = TransactionMarker(
            metadata.producer_id,
            metadata.producer_epoch,
            self._context.leader_epoch,
            commit=metadata.state is TransactionState.PREPARE_COMMIT,
            transaction_version=metadata.client_version,
        )
        there = self._broker.partitions.state
        return write_markers(
            self._broker,
            marker,
            [partition for partition in sorted(self.unmarked(metadata)) if there(*partition) is not None],
        )
