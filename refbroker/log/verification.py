"""The state of the verification of a transaction with its coordinator before a batch is appended (KIP-890).

The first batch of a transaction in a partition is appended only after the transaction coordinator has confirmed that
the partition is part of the transaction. Otherwise a late batch of a transaction that has ended would begin a
transaction that never ends. Until a batch has been appended, and while the coordinator returns retriable errors,
batches with sequences above the lowest one to verify are refused, because appending one of them first would make the
earlier ones fail. The caller verifies and appends in one turn of the event loop, so no marker can be written in
between. Kafka verifies over the network and uses a verification guard for this.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class VerificationState:
    """The pending verification of one producer.

    Attributes:
        begun_ms: when verification began, in milliseconds since the epoch; used for its expiry.
        epoch: the epoch of the producer.
        lowest_sequence: the lowest sequence of a batch to verify in this epoch.
        supports_epoch_bump: whether the producer uses transactions of version 2, which have an epoch each.
    """

    begun_ms: int
    epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool

    def ask(self, epoch: int, sequence: int) -> None:
        """Include the batch with this producer epoch and sequence in the verification."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
