"""The state of the verification of a transaction with its coordinator before a batch is appended (KIP-890).

The first batch of a transaction in a partition is appended only after the transaction coordinator has confirmed that
the partition is part of the transaction. Otherwise a late batch of a transaction that has ended would begin a
transaction that never ends. Until a batch has been appended, and while the coordinator returns retriable errors,
batches with sequences above the lowest one to verify are refused, because appending one of them first would make the
earlier ones fail.

The answer of the coordinator may arrive much later, when the transaction has ended and the next one has begun. So the
state is also the guard of its question: an append presents it, and is refused if the marker of the transaction, or a
question for a later epoch, has replaced it in the meantime. Kafka's VerificationGuard has the same purpose.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class VerificationState:
    """The pending verification of one producer, and the guard of the questions for it.

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

    def ask(self, epoch: int, sequence: int, now_ms: int) -> VerificationState:
        """Include a batch in the verification; return the state, which is a new one in a later epoch."""
        if epoch > self.epoch:
            return VerificationState(now_ms, epoch, sequence, self.supports_epoch_bump)
        if epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        return self


Verified = VerificationState | bool
"""Why a transactional batch may be appended: the guard of the question that the coordinator has answered; True if no
question is necessary, False if the transaction must have records in the partition already.
"""
