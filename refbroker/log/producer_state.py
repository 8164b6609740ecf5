"""What a partition remembers of its idempotent producers, so that a retry is stored once and in order.

For each producer id: its epoch, the sequences and offsets of its last five batches, and the first
offset of a transaction that is open. A batch that has been stored already is answered with its
offsets; one that does not follow the last is refused. The state is rebuilt from the log, from the
last snapshot on (see `producer_snapshot`). The verification of transactional appends (KIP-890) is not here.
Source: KIP-98, KIP-360.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kclient.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kclient.records import ABORT, BatchHeader, ControlRecord
from refbroker.log.transaction_index import AbortedTransaction

BATCHES_TO_RETAIN = 5
INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
FIRST_WITH_EPOCH_OF_ITS_OWN = 2
"""The version of transactions from which on each has its own epoch (KIP-890)."""
PRODUCER_ID_EXPIRATION_MS = 86_400_000


class BatchMetadata(NamedTuple):
    """A batch that was stored."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        # Sequences wrap to 0 after 2**31 - 1.
        return (self.last_sequence - self.offset_delta) & INT32_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerEntry:
    """The state of one producer id in one partition.

    Attributes:
        last_timestamp: of its last batch or transaction marker, milliseconds; what expiry goes by.
        current_txn_first_offset: first offset of its open transaction, -1 for none.
    """

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_txn_first_offset: int = -1
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=BATCHES_TO_RETAIN))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of its last record, -1 when it is not known."""
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def set_epoch(self, epoch: int) -> None:
        """A new epoch begins with no batches; its sequences start at 0."""
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches.clear()


class ProducerStates:
    """The producers of one log.

    Parameters:
        topic, partition: for what errors say.
        expiration_ms: a producer that stored nothing for this long is forgotten (`producer.id.expiration.ms`).

    Attributes:
        end_offset: the state is that of the log before this offset.
    """

    def __init__(self, topic: str, partition: int, *, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        self.topic = topic
        self.partition = partition
        self.expiration_ms = expiration_ms
        self.end_offset = 0
        self._entries: dict[int, ProducerEntry] = {}
        self._open_transactions: dict[int, int] = {}

    def without_producers(self) -> ProducerStates:
        """The state of the same log with nothing in it."""
        return ProducerStates(self.topic, self.partition, expiration_ms=self.expiration_ms)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def put(self, entry: ProducerEntry) -> None:
        """Take over an entry of a snapshot."""
        self._entries[entry.producer_id] = entry
        if entry.current_txn_first_offset >= 0:
            self._open_transactions[entry.producer_id] = entry.current_txn_first_offset

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction, None when there is none."""
        return min(self._open_transactions.values()) if self._open_transactions else None

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The stored batch that `header` repeats, among the producer's last five."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        for batch in reversed(entry.batches):
            if batch.last_sequence == header.last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def check(self, header: BatchHeader, offset: int, *, sequences: bool) -> None:
        """See whether a batch of a producer may be appended.

        Parameters:
            offset: where it would be.
            sequences: whether its sequence must follow; it need not for the coordinators' own batches.

        Raises:
            InvalidProducerEpochError: a later epoch of the producer has been seen.
            OutOfOrderSequenceError: batches before it are missing.
            InvalidTxnStateError: it is not transactional, but the producer has a transaction open here.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            # Expired, deleted or never seen: whatever sequence comes is where it goes on from.
            return
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch < entry.producer_epoch:
            raise InvalidProducerEpochError(
                f"Epoch of producer {header.producer_id} is {epoch}, which is smaller than the last seen epoch "
                f"{entry.producer_epoch}",
                **self._where(offset),
            )
        if sequences and entry.producer_epoch != NO_PRODUCER_EPOCH:
            same = epoch == entry.producer_epoch
            expected = (entry.last_sequence + 1) & INT32_MAX if same else 0
            if sequence != expected:
                raise OutOfOrderSequenceError(
                    f"Out of order sequence number for producer {header.producer_id}: {sequence} (incoming sequence "
                    f"number), {expected} (expected in {'its' if same else 'the new'} epoch {epoch})",
                    **self._where(offset),
                )
        if entry.current_txn_first_offset >= 0 and not header.is_transactional:
            raise InvalidTxnStateError(
                f"Expected a transactional write from producer {header.producer_id}", **self._where(offset)
            )

    def check_marker(self, header: BatchHeader, marker: ControlRecord, offset: int, transaction_version: int) -> None:
        """See whether the marker of a transaction may be appended.

        From version 2 of transactions on the coordinator counts the producer's epoch up before it ends a transaction,
        so that a marker which comes late or twice cannot end the next one. The same marker once more, after the
        transaction it was for has ended, changes nothing and is taken, and so is one at the last epoch there is.

        Parameters:
            header: of the marker's batch.
            marker: what it says.
            offset: where it would be.
            transaction_version: of the transaction, as its coordinator says.

        Raises:
            InvalidProducerEpochError: it is for an earlier transaction.
            TransactionCoordinatorFencedError: a later coordinator has ended one of the producer's transactions.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return
        epoch, current = header.producer_epoch, entry.producer_epoch
        late = epoch < current
        if transaction_version >= FIRST_WITH_EPOCH_OF_ITS_OWN and epoch == current:
            late = entry.current_txn_first_offset >= 0 and epoch != INT16_MAX
        if late:
            raise InvalidProducerEpochError(
                f"Epoch of the marker for producer {header.producer_id} is {epoch}, the last seen epoch is {current} "
                f"(transaction version {transaction_version})",
                **self._where(offset),
            )
        if marker.coordinator_epoch is not None and marker.coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"Invalid coordinator epoch for producer {header.producer_id}: {marker.coordinator_epoch} (zombie), "
                f"{entry.coordinator_epoch} (current)",
                **self._where(offset),
            )

    def update(self, header: BatchHeader, base_offset: int, last_offset: int, timestamp: int) -> None:
        """Take note of a batch of records that is in the log.

        Parameters:
            base_offset, last_offset: where it is.
            timestamp: its largest, milliseconds.
        """
        entry = self._entry(header)
        entry.batches.append(BatchMetadata(header.last_sequence, last_offset, last_offset - base_offset, timestamp))
        if header.is_transactional and entry.current_txn_first_offset < 0:
            entry.current_txn_first_offset = base_offset
            self._open_transactions[header.producer_id] = base_offset
        entry.last_timestamp = timestamp

    def end_transaction(self, header: BatchHeader, marker: ControlRecord) -> AbortedTransaction | None:
        """Take note of a marker that is in the log; what the index of aborted transactions must have of it.

        None when it commits, or when the producer had no records in this partition.

        Parameters:
            header: of the marker's batch, as it is in the log.
            marker: what it says.
        """
        entry = self._entry(header)
        first_offset = entry.current_txn_first_offset
        entry.coordinator_epoch = marker.coordinator_epoch or 0
        entry.current_txn_first_offset = -1
        entry.last_timestamp = header.max_timestamp
        self._open_transactions.pop(header.producer_id, None)
        if first_offset < 0 or marker.type != ABORT:
            return None
        undecided = self.first_undecided_offset
        stable = header.last_offset + 1 if undecided is None else undecided
        return AbortedTransaction(header.producer_id, first_offset, header.last_offset, stable)

    def _entry(self, header: BatchHeader) -> ProducerEntry:
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id)
        entry.set_epoch(header.producer_epoch)
        return entry

    def remove_expired(self, now_ms: int) -> int:
        """Forget the producers that have been idle for too long, and say how many; open transactions stay."""
        expired = [entry.producer_id for entry in self if self.is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms

    def _where(self, offset: int) -> dict[str, Any]:
        return {"topic": self.topic, "partition": self.partition, "offset": offset}
