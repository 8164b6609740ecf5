"""Transaction markers that are still to be written after the outcome of a transaction was decided.

`shard` writes the complete record once every partition has its marker. The markers may be answered later, by leaders on
other brokers or when they are replicated. A first attempt, a retry after an error and a
restart after a crash are the same: writing a marker twice is harmless, and only the complete record ends the work.
What follows from an error:

    the partition was deleted                   it needs no marker
    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED
                                                another coordinator has the transactional id; this one stops until it
                                                loads its state again
    UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION
                                                the partition cannot contain transactional records: it needs no marker
    any other error                             retry after `shard.RETRY_MS`

The partitions without a marker are kept in memory only; after a crash every partition gets its marker again.
"""

from __future__ import annotations

import asyncio
import enum
import logging

from kclient.errors import (
    InvalidProducerEpochError,
    TransactionCoordinatorFencedError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
)
from refbroker.coordinators.transactions.markers import MarkerResults, MarkerSender
from refbroker.coordinators.transactions.metadata import TransactionMetadata
from refbroker.coordinators.transactions.states import TransactionState
from refbroker.log import TransactionMarker
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.runtime.eventual import then

logger = logging.getLogger(__name__)

_NO_MARKER_NEEDED = (UnsupportedForMessageFormatError, UnsupportedVersionError)
_ANOTHER_COORDINATOR = (InvalidProducerEpochError, TransactionCoordinatorFencedError)


class MarkerProgress(enum.Enum):
    """The result of an attempt to write the markers of a transaction."""

    WRITTEN = "every partition has its marker"
    UNFINISHED = "some markers are to be retried"
    ANOTHER_COORDINATOR = "another coordinator has the transactional id"


class PendingMarkers:
    """The markers of the transactions in one partition of `__transaction_state`.

    Parameters:
        markers: sends markers to the leaders of partitions.
        leader_epoch: the epoch in which this broker leads the partition.
    """

    def __init__(self, markers: MarkerSender, leader_epoch: int) -> None:
        self._markers = markers
        self._leader_epoch = leader_epoch
        self._unmarked: dict[str, frozenset[TopicPartitionKey]] = {}

    def unmarked(self, metadata: TransactionMetadata) -> frozenset[TopicPartitionKey]:
        """Return the partitions of a transaction that have no marker yet."""
        return self._unmarked.get(metadata.transactional_id, metadata.partitions)

    def forget(self, transactional_id: str) -> None:
        """Drop the progress of a transactional id: the next attempt writes the markers of all partitions."""
        self._unmarked.pop(transactional_id, None)

    def write_markers(self, metadata: TransactionMetadata) -> MarkerProgress | asyncio.Future[MarkerProgress]:
        """Write the missing markers of a prepared transaction."""
        marker = TransactionMarker(
            metadata.producer_id,
            metadata.producer_epoch,
            self._leader_epoch,
            commit=metadata.state is TransactionState.PREPARE_COMMIT,
            transaction_version=metadata.client_version,
        )
        answers = self._markers.send(marker, sorted(self.unmarked(metadata)))
        return then(answers, lambda results: self._progress(metadata.transactional_id, results))

    def _progress(self, transactional_id: str, answers: MarkerResults) -> MarkerProgress:
        rest = frozenset(
            partition
            for partition, error in answers.items()
            if error is not None and not isinstance(error, _NO_MARKER_NEEDED)
        )
        if rest != self._unmarked.get(transactional_id):
            for partition in rest:
                logger.info(
                    "could not write the transaction marker of %s to %s-%d: %s",
                    transactional_id,
                    *partition,
                    answers[partition],
                )
        self._unmarked[transactional_id] = rest
        if not rest:
            return MarkerProgress.WRITTEN
        lost = next(
            (answers[partition] for partition in rest if isinstance(answers[partition], _ANOTHER_COORDINATOR)), None
        )
        if lost is None:
            return MarkerProgress.UNFINISHED
        logger.error(
            "cannot complete the transaction of %s, because another coordinator has it: %s", transactional_id, lost
        )
        return MarkerProgress.ANOTHER_COORDINATOR
