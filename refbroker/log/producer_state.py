"""The state of a partition's idempotent producers, so that retried batches are stored once and in order.

For each producer id: its epoch, the sequences and offsets of its last five batches, and the first offset of a
transaction that is open. For a batch that was stored before, the response has its offsets. The others:

    epoch of the batch   its first sequence                                  what happens
    older                any                                                 INVALID_PRODUCER_EPOCH
    the same             follows the last; 0 follows 2**31 - 1               appended
    the same             any other                                           OUT_OF_ORDER_SEQUENCE_NUMBER
    newer                0                                                   appended, the epoch has begun
    newer                any other                                           OUT_OF_ORDER_SEQUENCE_NUMBER
    producer not known   any: its state has expired, or its records are gone appended
    the same, in a transaction of version 2 of which nothing is known here: 0, else OUT_OF_ORDER_SEQUENCE_NUMBER

The first batch of a transaction is appended after the transaction coordinator has confirmed it (see `verification`).
While the transaction is open, all batches of the producer must be part of it. The state is rebuilt from the log, from
the last snapshot on (see `producer_snapshot`). Source: KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
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
from refbroker.log.verification import VerificationState, Verified

BATCHES_TO_RETAIN = 5
INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
FIRST_WITH_EPOCH_OF_ITS_OWN = 2
"""The first version of transactions in which each has its own epoch (KIP-890)."""
PRODUCER_ID_EXPIRATION_MS = 86_400_000


class BatchMetadata(NamedTuple):
    """A stored batch."""

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
        last_timestamp: the timestamp of its last batch or transaction marker in milliseconds; used for expiration.
        current_txn_first_offset: the first offset of its open transaction, -1 without one.
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
        """The offset of its last record, -1 if unknown."""
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def set_epoch(self, epoch: int) -> None:
        """Begin a new epoch, without batches; its sequences start at 0."""
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches.clear()


class ProducerStates:
    """The producers of one log.

    Parameters:
        topic, partition: for error messages.
        expiration_ms: returns for how long a producer may be idle before it is dropped (`producer.id.expiration.ms`).

    Attributes:
        end_offset: the state is as of this offset.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        expiration_ms: Callable[[], int] = lambda: PRODUCER_ID_EXPIRATION_MS,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.expiration_ms = expiration_ms
        self.end_offset = 0
        self._entries: dict[int, ProducerEntry] = {}
        self._open_transactions: dict[int, int] = {}
        self._verifications: dict[int, VerificationState] = {}
        # First offset and marker of transactions whose markers other replicas may not have.
        self._unreplicated: list[tuple[int, int]] = []

    def without_producers(self) -> ProducerStates:
        """Return an empty state of the same log."""
        return ProducerStates(self.topic, self.partition, expiration_ms=self.expiration_ms)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def put(self, entry: ProducerEntry) -> None:
        """Add an entry of a snapshot."""
        self._entries[entry.producer_id] = entry
        if entry.current_txn_first_offset >= 0:
            self._open_transactions[entry.producer_id] = entry.current_txn_first_offset

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None without one."""
        return min(self._open_transactions.values()) if self._open_transactions else None

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of a transaction that is open, or whose end another leader might not know."""
        if not (self._open_transactions or self._unreplicated):
            return None
        if self._unreplicated:
            self._unreplicated = [one for one in self._unreplicated if one[1] >= high_watermark]
        return min([*self._open_transactions.values(), *(first for first, _ in self._unreplicated)], default=None)

    @property
    def oldest_transaction_timestamp(self) -> int | None:
        """When the producer of the oldest open transaction last wrote; None without one."""
        if not self._open_transactions:
            return None
        oldest = min(self._open_transactions, key=lambda producer_id: self._open_transactions[producer_id])
        return self._entries[oldest].last_timestamp

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the stored batch that `header` repeats, among the producer's last five."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        for batch in reversed(entry.batches):
            if batch.last_sequence == header.last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> VerificationState | None:
        """Return the guard of a question to the coordinator before a transactional batch is appended.

        None if no question is necessary, since a batch of its transaction has been appended.

        Parameters:
            sequence: the batch's first sequence.
            now_ms: the time, milliseconds since the epoch.
            supports_epoch_bump: whether the producer has transactions of version 2.

        Raises:
            InvalidProducerEpochError: the producer has used a later epoch.
        """
        self._check_epoch(producer_id, producer_epoch)
        if self.in_transaction(producer_id, producer_epoch):
            return None
        state = self._verifications.get(producer_id)
        if state is None:
            state = VerificationState(now_ms, producer_epoch, sequence, supports_epoch_bump)
        else:
            state = state.ask(producer_epoch, sequence, now_ms)
        self._verifications[producer_id] = state
        return state

    def in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a producer has an open transaction here; one of an older epoch may have ended elsewhere."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.current_txn_first_offset >= 0 and entry.producer_epoch == producer_epoch

    def check(self, header: BatchHeader, offset: int, *, sequences: bool, verified: Verified) -> None:
        """Check whether a batch of a producer may be appended.

        Parameters:
            offset: its offset in the log.
            sequences: whether its sequence must follow the last one; not so for the coordinators' own batches.
            verified: why the first batch of a transaction may be appended; see `Verified`.

        Raises:
            InvalidProducerEpochError: the producer has used a later epoch.
            OutOfOrderSequenceError: earlier batches are missing.
            InvalidTxnStateError: it is not transactional, but the producer has an open transaction here; or the
                reverse.
        """
        self._check_epoch(header.producer_id, header.producer_epoch, offset)
        if (
            header.is_transactional
            and verified is not True
            and (not verified or self._verifications.get(header.producer_id) is not verified)
            and not self.in_transaction(header.producer_id, header.producer_epoch)
        ):
            raise InvalidTxnStateError("Record was not part of an ongoing transaction", **self._where(offset))
        if sequences:
            self._check_sequence(header, offset)
        entry = self._entries.get(header.producer_id)
        if entry is not None and entry.current_txn_first_offset >= 0 and not header.is_transactional:
            raise InvalidTxnStateError(
                f"Expected a transactional write from producer {header.producer_id}", **self._where(offset)
            )

    def _check_epoch(self, producer_id: int, epoch: int, offset: int | None = None) -> None:
        entry = self._entries.get(producer_id)
        if entry is not None and epoch < entry.producer_epoch:
            raise InvalidProducerEpochError(
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch "
                f"{entry.producer_epoch}",
                **self._where(offset),
            )

    def _check_sequence(self, header: BatchHeader, offset: int) -> None:
        entry = self._entries.get(header.producer_id)
        question = self._verifications.get(header.producer_id)
        sequence, epoch = header.base_sequence, header.producer_epoch
        if question is not None and question.supports_epoch_bump and (entry is None or not entry.batches):
            expected, text = 0, "expected at the begin of its epoch"
        elif question is not None and sequence > question.lowest_sequence:
            expected, text = question.lowest_sequence, "the lowest that has been sent"
        elif entry is None or entry.producer_epoch == NO_PRODUCER_EPOCH:
            # Expired, deleted or never seen: any sequence is accepted as the first one.
            return
        elif epoch != entry.producer_epoch:
            expected, text = 0, f"expected in the new epoch {epoch}"
        else:
            expected, text = (entry.last_sequence + 1) & INT32_MAX, f"expected in its epoch {epoch}"
        if sequence != expected:
            raise OutOfOrderSequenceError(
                f"Out of order sequence number for producer {header.producer_id}: {sequence} (incoming sequence "
                f"number), {expected} ({text})",
                **self._where(offset),
            )

    def check_marker(self, header: BatchHeader, marker: ControlRecord, offset: int, transaction_version: int) -> None:
        """Check whether the marker of a transaction may be appended.

        Since transaction version 2 the coordinator increments the producer's epoch before it ends a transaction, so
        that a late or repeated marker cannot end the next one. A repeated marker after its transaction has ended is
        accepted without effect, and so is one at the last possible epoch.

        Parameters:
            header: the header of the marker's batch.
            marker: its record.
            offset: its offset in the log.
            transaction_version: the version of the transaction, according to its coordinator.

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
        """Update the state after a batch of records was appended.

        Parameters:
            base_offset, last_offset: its offsets.
            timestamp: its largest timestamp in milliseconds.
        """
        if header.is_transactional:
            self._verifications.pop(header.producer_id, None)
        entry = self._entry(header)
        entry.batches.append(BatchMetadata(header.last_sequence, last_offset, last_offset - base_offset, timestamp))
        if header.is_transactional and entry.current_txn_first_offset < 0:
            entry.current_txn_first_offset = base_offset
            self._open_transactions[header.producer_id] = base_offset
        entry.last_timestamp = timestamp

    def end_transaction(self, header: BatchHeader, marker: ControlRecord) -> AbortedTransaction | None:
        """Update the state after a marker was appended; return the entry for the index of aborted transactions.

        None if it commits, or if the producer had no records in this partition.

        Parameters:
            header: the header of the marker's batch, as in the log.
            marker: its record.
        """
        entry = self._entry(header)
        first_offset = entry.current_txn_first_offset
        entry.coordinator_epoch = marker.coordinator_epoch or 0
        entry.current_txn_first_offset = -1
        entry.last_timestamp = header.max_timestamp
        self._open_transactions.pop(header.producer_id, None)
        question = self._verifications.get(header.producer_id)
        # In version 2 the marker has the epoch of the next transaction, for which a verification may have begun.
        if question is not None and not (question.supports_epoch_bump and question.epoch == header.producer_epoch):
            del self._verifications[header.producer_id]
        if first_offset >= 0:
            self._unreplicated.append((first_offset, header.last_offset))
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
        """Drop the producers that have been idle for too long, and return their number; open transactions stay."""
        expired = [entry.producer_id for entry in self if self.is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
        for producer_id, question in list(self._verifications.items()):
            if now_ms - question.begun_ms >= self.expiration_ms():
                del self._verifications[producer_id]
        return len(expired)

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms()

    def _where(self, offset: int | None) -> dict[str, Any]:
        return {"topic": self.topic, "partition": self.partition, "offset": offset}
