"""What a log remembers of transactional batches between the question to the coordinator and their append (KIP-890).

A transaction's first batch in a partition is appended only after the transaction's coordinator has said that the
partition is part of the transaction; so no batch stays without an end because its transaction had ended elsewhere.
Until a batch has been appended, and while the coordinator's answers are such that the producer tries again, batches
with higher sequences than the lowest one that was asked about are refused: otherwise one of them could get in first,
and those before it never. Whoever asks and appends does both in one turn of the event loop, so that no marker can come
between; Kafka, which asks over the network, has a guard for each question instead.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class VerificationState:
    """The question about one producer.

    Attributes:
        begun_ms: when it was asked first, milliseconds since the epoch; what expiry goes by.
        epoch: of the producer.
        lowest_sequence: that was asked about in this epoch.
        supports_epoch_bump: whether the producer has transactions of version 2, each with an epoch of its own.
    """

    begun_ms: int
    epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool

    def ask(self, epoch: int, sequence: int) -> None:
        """It is about this batch, too."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
