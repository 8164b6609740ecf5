"""Transactions during compaction: which records and markers are removed.

The records of an aborted transaction are removed immediately, whatever their keys. A marker stays while the log has a
batch of its transaction, including a header that is kept for its sequence. After that it stays until its delete horizon
has passed, so that a consumer that is reading these records still learns the outcome. Entries of the transaction index
whose marker is still needed are copied to the index of the new segment.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from kclient.records import ABORT, COMMIT, BatchHeader, parse_control_record, read_batches
from refbroker.log.transaction_index import AbortedTransaction


@dataclass(order=True, slots=True)
class _Pending:
    first_offset: int
    transaction: AbortedTransaction = field(compare=False)


@dataclass(slots=True)
class _Aborted:
    transaction: AbortedTransaction
    met_batches: bool = False


class CleanedTransactions:
    """The open transactions at the current position of one pass over a log, in ascending order.

    Attributes:
        retained: entries for the transaction index of the segment that is being written, in the order of their markers;
            the writer removes them.
    """

    def __init__(self) -> None:
        self.retained: list[AbortedTransaction] = []
        self._pending: list[_Pending] = []
        self._known: set[tuple[int, int]] = set()
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add transactions of the transaction index; known ones are ignored."""
        for transaction in transactions:
            key = (transaction.producer_id, transaction.first_offset)
            if key not in self._known:
                self._known.add(key)
                heapq.heappush(self._pending, _Pending(transaction.first_offset, transaction))

    def _begin_up_to(self, header: BatchHeader) -> None:
        while self._pending and self._pending[0].first_offset <= header.last_offset:
            transaction = heapq.heappop(self._pending).transaction
            # The pass may begin behind the marker of an ended transaction, and its producer continues with others.
            if transaction.last_offset >= header.base_offset:
                self._aborted[transaction.producer_id] = _Aborted(transaction)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Process a data batch; return whether it belongs to an aborted transaction."""
        self._begin_up_to(header)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.met_batches = True
        return True

    def ends_without_data(self, header: BatchHeader) -> bool:
        """Process a control batch; return whether nothing of the transaction that it ends is left.

        Parameters:
            header: the header with all bytes of the batch.

        Raises:
            CorruptRecordError: it is not a control batch.
        """
        # Aborted transactions need not begin here: one without a data batch has no data left.
        records = [record for batch in read_batches(header.raw) for record in batch.records()]
        if not records:
            # A header that was kept for its producer's epoch.
            return True
        control = parse_control_record(records[0]).type
        if control == ABORT:
            aborted = self._aborted.pop(header.producer_id, None)
            if aborted is None or not aborted.met_batches:
                return True
            self.retained.append(aborted.transaction)
            return False
        if control == COMMIT:
            had_batches = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not had_batches
        return False
