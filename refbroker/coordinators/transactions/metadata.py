"""The state of a transactional id: Kafka's TransactionMetadata, as an immutable value.

Each step returns a new value, which becomes the state once its record is in the log. A record contains everything but
the following, which the coordinator keeps in memory, as in Kafka:

    last_producer_epoch     distinguishes a retried InitProducerId (KIP-360) from that of a fenced producer
    previous_producer_id    the same after a change of producer id; records contain it from version 1

The last epoch of a producer is 32766. Only the coordinator uses 32767, to fence the producer of an exhausted epoch, and
then assigns a new producer id: InitProducerId at once, EndTxn of transactions version 2 with the complete record. Until
that record `next_producer_id` holds the new id.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from kclient.errors import CorruptRecordError, ProducerFencedError
from kclient.protocol.messages.records.transaction_state import TransactionLogKey, TransactionLogValue
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.coordinators.transactions.states import STATES, TransactionEvent, TransactionState
from refbroker.log.checkpoints import TopicPartitionKey

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
LARGEST_EPOCH = 2**15 - 1
NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a transaction that is coordinated by another system and has no timeout here (KIP-939)."""

FIRST_WITH_EPOCH_BUMP = 2
"""The first `transaction.version` in which each end of a transaction increments the epoch (KIP-890)."""


def is_exhausted(epoch: int) -> bool:
    """Return whether this is the last epoch that a producer can have."""
    return epoch >= LARGEST_EPOCH - 1


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """The state of a transactional id.

    Attributes:
        producer_id, producer_epoch: those of the current producer.
        previous_producer_id: the producer id before the last step.
        next_producer_id: the producer id after a prepared transaction completes, -1 for the same one.
        last_producer_epoch: the epoch before the producer itself requested the next one, -1 for none.
        timeout_ms: how long a transaction may be open, in milliseconds.
        partitions: the partitions of the open transaction.
        start_timestamp_ms: when the first partition was added, in milliseconds since the epoch, -1 for none.
        last_update_timestamp_ms: the time of the last step, in milliseconds since the epoch.
        client_version: the transactions version of the client.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    last_update_timestamp_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartitionKey] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    client_version: int = 0

    # Records

    @classmethod
    def from_record(cls, transactional_id: str, value: TransactionLogValue) -> Self:
        """Return the metadata in a record.

        Raises:
            CorruptRecordError: the record's state is unknown.
        """
        try:
            state = TransactionState(value.transaction_status)
        except ValueError as error:
            raise CorruptRecordError(
                f"the transactional id {transactional_id} has the unknown state {value.transaction_status}"
            ) from error
        topics = () if state is TransactionState.EMPTY else value.transaction_partitions or ()
        return cls(
            transactional_id,
            value.producer_id,
            value.transaction_timeout_ms,
            value.transaction_last_update_timestamp_ms,
            producer_epoch=value.producer_epoch,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            state=state,
            partitions=frozenset((topic.topic, number) for topic in topics for number in topic.partition_ids),
            start_timestamp_ms=value.transaction_start_timestamp_ms,
            client_version=value.client_transaction_version,
        )

    def to_record(self, transaction_version: int) -> CoordinatorRecord:
        """Return the record of the metadata.

        Parameters:
            transaction_version: the finalized level of `transaction.version`. From level 1 the record has tagged
                fields. A transaction that began at level 2 has them at every level, because its end needs them.
        """
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None if self.state is TransactionState.EMPTY else self._topics(),
            transaction_last_update_timestamp_ms=self.last_update_timestamp_ms,
            transaction_start_timestamp_ms=self.start_timestamp_ms,
        )
        version = 1 if transaction_version or self.client_version else 0
        if version:
            value.previous_producer_id = self.previous_producer_id
            value.next_producer_id = self.next_producer_id
            value.client_transaction_version = self.client_version
        return CoordinatorRecord(TransactionLogKey(transactional_id=self.transactional_id), value, version)

    def tombstone(self) -> CoordinatorRecord:
        """Return the record that deletes the transactional id."""
        STATES.next_state(self.state, TransactionEvent.EXPIRE, self.transactional_id)
        return CoordinatorRecord(TransactionLogKey(transactional_id=self.transactional_id))

    def _topics(self) -> list[TransactionLogValue.PartitionsSchema]:
        return [
            TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=[number for _, number in partitions])
            for topic, partitions in itertools.groupby(sorted(self.partitions), lambda partition: partition[0])
        ]

    def with_unrecorded(self, source: TransactionMetadata) -> Self:
        """Return a copy with the fields that a record does not contain, taken from `source`."""
        return dataclasses.replace(
            self,
            last_producer_epoch=source.last_producer_epoch,
            previous_producer_id=source.previous_producer_id,
        )

    # Steps

    def _after(self, event: TransactionEvent, **changes: Any) -> Self:
        state = STATES.next_state(self.state, event, self.transactional_id)
        return dataclasses.replace(self, state=state, previous_producer_id=self.producer_id, **changes)

    def with_next_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Self:
        """Return the metadata after InitProducerId with the next epoch, which must not be exhausted.

        Parameters:
            timeout_ms: the transaction timeout, in milliseconds.
            expected_epoch: the epoch in the producer's request; None for a new producer.
            now_ms: the time, in milliseconds.

        Raises:
            ProducerFencedError: another producer uses the transactional id.
        """
        if expected_epoch is None:
            epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        elif self.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
            epoch, last_epoch = self.producer_epoch + 1, self.producer_epoch
        elif expected_epoch == self.last_producer_epoch:
            # A retry after a lost response. A new producer would have reset the last epoch.
            epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        else:
            raise ProducerFencedError(
                f"the transactional id {self.transactional_id} is at epoch {self.producer_epoch}; the producer has "
                f"{expected_epoch}"
            )
        return self._initialized(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def with_new_producer_id(self, producer_id: int, timeout_ms: int, now_ms: int, *, keep_last_epoch: bool) -> Self:
        """Return the metadata after InitProducerId with a new producer id, for one whose epochs are exhausted."""
        last_epoch = self.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH
        return self._initialized(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _initialized(self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Self:
        return self._after(
            TransactionEvent.INITIALIZE,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_timestamp_ms=NO_TIMESTAMP,
            last_update_timestamp_ms=now_ms,
        )

    def with_partitions(self, added: Iterable[TopicPartitionKey], now_ms: int, client_version: int) -> Self:
        """Return the metadata with partitions added; the first ones begin the transaction."""
        is_open = self.state is TransactionState.ONGOING
        return self._after(
            TransactionEvent.ADD_PARTITIONS,
            partitions=self.partitions.union(added),
            start_timestamp_ms=self.start_timestamp_ms if is_open else now_ms,
            last_update_timestamp_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, transaction_version: int) -> Self:
        """Return the metadata with the producer fenced; the abort of the transaction follows.

        Transactions version 2 increment the epoch at each end of a transaction, and therefore at this abort.
        """
        bump = transaction_version < FIRST_WITH_EPOCH_BUMP
        return self._after(
            TransactionEvent.FENCE,
            producer_epoch=min(self.producer_epoch + bump, LARGEST_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def prepared(
        self, outcome: TransactionEvent, now_ms: int, client_version: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> Self:
        """Return the metadata with the outcome of the transaction decided.

        Parameters:
            outcome: COMMIT or ABORT.
            next_producer_id: the producer id after completion, if the epoch is exhausted.
        """
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_version >= FIRST_WITH_EPOCH_BUMP:
            epoch, last_epoch = min(epoch + 1, LARGEST_EPOCH), epoch
        is_open = self.state in (TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE)
        return self._after(
            outcome,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            # A transaction that is aborted without having begun still needs a start time.
            start_timestamp_ms=self.start_timestamp_ms if is_open else now_ms,
            last_update_timestamp_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Self:
        """Return the metadata after all markers were written."""
        identity = {}
        if self.client_version >= FIRST_WITH_EPOCH_BUMP and self.next_producer_id != NO_PRODUCER_ID:
            identity = {"producer_id": self.next_producer_id, "producer_epoch": 0}
        return self._after(
            TransactionEvent.COMPLETE,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            last_update_timestamp_ms=now_ms,
            **identity,
        )
