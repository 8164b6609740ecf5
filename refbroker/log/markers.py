"""The marker that ends a transaction in one partition, written for the transaction coordinator.

A marker is a control batch with the producer id and epoch, and the epoch of the transaction coordinator. Elsewhere:
`producer_state` applies markers; the transaction coordinator chooses the partitions that get one.
"""

from __future__ import annotations

from typing import NamedTuple

from kclient.records import ABORT, COMMIT, control_batch
from refbroker.log.appending import AppendResult
from refbroker.log.partition_log import PartitionLog
from refbroker.log.validation import Origin


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction.

    Attributes:
        producer_epoch: with transaction version 2, one higher than the epoch of the transaction's records.
        coordinator_epoch: the leader epoch of the partition of `__transaction_state` that the transaction is in.
        commit: False to abort it.
        transaction_version: 0 or 1 when the marker has the same epoch as the records, else 2.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int

    def append_to(self, log: PartitionLog, *, leader_epoch: int, now_ms: int) -> AppendResult:
        """Append the marker to the log of a partition.

        Parameters:
            leader_epoch: the leader epoch of the partition.
            now_ms: the time, milliseconds since the epoch.

        Raises:
            KafkaError: what `PartitionLog.append` raises.
        """
        batch = control_batch(
            COMMIT if self.commit else ABORT,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            timestamp=now_ms,
        )
        return log.append(
            batch,
            leader_epoch=leader_epoch,
            origin=Origin.COORDINATOR,
            now_ms=now_ms,
            transaction_version=self.transaction_version,
        )
