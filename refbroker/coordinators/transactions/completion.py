"""The markers of transactions whose outcome is decided, and which partitions still need one.

The complete record, once all have theirs, is written by `shard`. Whether it is the first time, a repetition after an
error, or a start after a crash makes no difference: a marker that is there already does no harm, and nothing but the
complete record ends the work. What may go wrong with a marker:

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

import enum
import logging

from kclient.errors import (
    InvalidProducerEpochError,
    KafkaError,
    TransactionCoordinatorFencedError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
)
from refbroker.coordinators.transactions.markers import MarkerWriter
from refbroker.coordinators.transactions.metadata import TransactionMetadata
from refbroker.coordinators.transactions.states import TransactionState
from refbroker.log import TransactionMarker
from refbroker.log.checkpoints import TopicPartitionKey

logger = logging.getLogger(__name__)

_NEEDS_NONE = (UnsupportedForMessageFormatError, UnsupportedVersionError)
_NOT_OURS = (InvalidProducerEpochError, TransactionCoordinatorFencedError)


class MarkerProgress(enum.Enum):
    """What has come of writing the markers of a transaction."""

    WRITTEN = "no partition needs one any more"
    UNFINISHED = "to be written again"
    NOT_OURS = "another coordinator has the transactional id"


class PendingMarkers:
    """The markers of the transactions in one partition of `__transaction_state`.

    Parameters:
        markers: writes them.
        leader_epoch: in which this broker leads the partition.
    """

    def __init__(self, markers: MarkerWriter, leader_epoch: int) -> None:
        self._markers = markers
        self._leader_epoch = leader_epoch
        self._unmarked: dict[str, frozenset[TopicPartitionKey]] = {}

    def unmarked(self, metadata: TransactionMetadata) -> frozenset[TopicPartitionKey]:
        """The partitions of a transaction that have no marker yet."""
        return self._unmarked.get(metadata.transactional_id, metadata.partitions)

    def forget(self, transactional_id: str) -> None:
        """Begin with every partition of the next transaction, or of this one once more."""
        self._unmarked.pop(transactional_id, None)

    def write_markers(self, metadata: TransactionMetadata) -> MarkerProgress:
        """Write the markers of a prepared transaction where they are missing."""
        transactional_id = metadata.transactional_id
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
            return MarkerProgress.WRITTEN
        lost = next((answers[partition] for partition in rest if isinstance(answers[partition], _NOT_OURS)), None)
        if lost is None:
            return MarkerProgress.UNFINISHED
        logger.error("the transaction of %s cannot be completed here: %s", transactional_id, lost)
        return MarkerProgress.NOT_OURS

    def _write(self, metadata: TransactionMetadata) -> dict[TopicPartitionKey, KafkaError | None]:
        marker = TransactionMarker(
            metadata.producer_id,
            metadata.producer_epoch,
            self._leader_epoch,
            commit=metadata.state is TransactionState.PREPARE_COMMIT,
            transaction_version=metadata.client_version,
        )
        return self._markers.write(marker, filter(self._markers.exists, sorted(self.unmarked(metadata))))
