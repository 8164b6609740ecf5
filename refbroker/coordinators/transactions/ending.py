"""Tables that decide the outcome of EndTxn requests and of the coordinator's own aborts.

Before transactions version 2 a producer keeps one epoch for many transactions. A retried EndTxn looks like the first
one; it succeeds if the transaction ended in the same way. From version 2 each end increments the epoch (KIP-890):
a request with the previous epoch is a retry, and one with the current epoch concerns the next transaction. That one
can be aborted even if the coordinator has no record of it, because the producer cannot know whether its requests
arrived; it cannot be committed. Source: TransactionCoordinator.scala, `endTransaction`.

                        version 0, 1                    version 2, current epoch       version 2, previous epoch
                        commit          abort           commit          abort          commit          abort
    EMPTY               INVALID_STATE   INVALID_STATE   INVALID_STATE   ends           FENCED          FENCED
    ONGOING             ends            ends            ends            ends           FENCED          FENCED
    PREPARE_*           CONCURRENT      CONCURRENT      CONCURRENT      CONCURRENT     CONCURRENT      CONCURRENT
    COMPLETE_COMMIT     done            INVALID_STATE   INVALID_STATE   ends           done            INVALID_STATE
    COMPLETE_ABORT      INVALID_STATE   done            INVALID_STATE   ends           INVALID_STATE   done
"""

from __future__ import annotations

import enum

from kclient.errors import (
    ConcurrentTransactionsError,
    InvalidPidMappingError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
)
from refbroker.coordinators.transactions.metadata import (
    FIRST_WITH_EPOCH_BUMP,
    LARGEST_EPOCH,
    TransactionMetadata,
)
from refbroker.coordinators.transactions.states import TransactionState

_S = TransactionState


class Outcome(enum.Enum):
    """The outcome of a request to end a transaction."""

    ENDS = "the transaction ends"
    DONE = "the transaction has already ended in this way"
    INVALID_STATE = "no transaction can end in this way"


_O = Outcome

WITHOUT_EPOCH_BUMP: dict[tuple[TransactionState, bool], Outcome] = {
    (_S.EMPTY, True): _O.INVALID_STATE,
    (_S.EMPTY, False): _O.INVALID_STATE,
    (_S.ONGOING, True): _O.ENDS,
    (_S.ONGOING, False): _O.ENDS,
    (_S.COMPLETE_COMMIT, True): _O.DONE,
    (_S.COMPLETE_COMMIT, False): _O.INVALID_STATE,
    (_S.COMPLETE_ABORT, True): _O.INVALID_STATE,
    (_S.COMPLETE_ABORT, False): _O.DONE,
}
"""The outcome by state and `commit`, for transactions versions 0 and 1."""

WITH_EPOCH_BUMP: dict[tuple[TransactionState, bool], Outcome] = {
    (_S.EMPTY, True): _O.INVALID_STATE,
    (_S.EMPTY, False): _O.ENDS,
    (_S.ONGOING, True): _O.ENDS,
    (_S.ONGOING, False): _O.ENDS,
    (_S.COMPLETE_COMMIT, True): _O.INVALID_STATE,
    (_S.COMPLETE_COMMIT, False): _O.ENDS,
    (_S.COMPLETE_ABORT, True): _O.INVALID_STATE,
    (_S.COMPLETE_ABORT, False): _O.ENDS,
}
"""The outcome by state and `commit`, for transactions version 2 and the current epoch."""

REPEATED_WITH_EPOCH_BUMP: dict[tuple[TransactionState, bool], Outcome] = {
    (_S.COMPLETE_COMMIT, True): _O.DONE,
    (_S.COMPLETE_COMMIT, False): _O.INVALID_STATE,
    (_S.COMPLETE_ABORT, True): _O.INVALID_STATE,
    (_S.COMPLETE_ABORT, False): _O.DONE,
}
"""The outcome for transactions version 2 and the previous epoch. In other states the producer is fenced."""


def decide(
    metadata: TransactionMetadata, producer_id: int, producer_epoch: int, *, commit: bool, client_version: int
) -> Outcome:
    """Return the outcome of a producer's request to end a transaction.

    Raises:
        InvalidPidMappingError: the transactional id has another producer id.
        ProducerFencedError: the transactional id has another epoch.
        ConcurrentTransactionsError: the previous transaction is not complete.
        InvalidTxnStateError: no transaction can end in this way.
    """
    if client_version < FIRST_WITH_EPOCH_BUMP:
        check_producer(metadata, producer_id, producer_epoch)
        check_not_ending(metadata)
        outcome = WITHOUT_EPOCH_BUMP[metadata.state, commit]
    else:
        # Before the producer is checked: completing the last transaction may assign a new producer id, which the
        # producer already uses.
        check_not_ending(metadata)
        table = REPEATED_WITH_EPOCH_BUMP
        if not _is_repeated(metadata, producer_id, producer_epoch):
            check_producer(metadata, producer_id, producer_epoch)
            table = WITH_EPOCH_BUMP
        elif metadata.state not in (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT):
            raise fenced(metadata, producer_epoch)
        outcome = table[metadata.state, commit]
    if outcome is Outcome.INVALID_STATE:
        raise InvalidTxnStateError(
            f"the transactional id {metadata.transactional_id} is in state {metadata.state.title}, in which no "
            f"transaction can {'commit' if commit else 'abort'}"
        )
    return outcome


def _is_repeated(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Return whether the producer id and epoch are those from before the last transaction ended."""
    if metadata.producer_id == producer_id:
        return metadata.producer_epoch == producer_epoch + 1
    exhausted = metadata.producer_epoch == 0 and producer_epoch == LARGEST_EPOCH - 1
    return exhausted and metadata.previous_producer_id == producer_id


def check_producer(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> None:
    """Raise an error unless the transactional id belongs to this producer.

    Raises:
        InvalidPidMappingError: the transactional id has another producer id.
        ProducerFencedError: the transactional id has another epoch.
    """
    if metadata.producer_id != producer_id:
        raise InvalidPidMappingError(
            f"the transactional id {metadata.transactional_id} has the producer id {metadata.producer_id}, not "
            f"{producer_id}"
        )
    if metadata.producer_epoch != producer_epoch:
        raise fenced(metadata, producer_epoch)


def check_not_ending(metadata: TransactionMetadata) -> None:
    """Raise an error if the end of a transaction is decided and not complete.

    Raises:
        ConcurrentTransactionsError: the previous transaction is not complete.
    """
    if metadata.state.is_prepared:
        raise ConcurrentTransactionsError(
            f"the previous transaction of {metadata.transactional_id} is not complete ({metadata.state.title})"
        )


def fenced(metadata: TransactionMetadata, producer_epoch: int) -> KafkaError:
    """Return the error for a producer that has another epoch."""
    return ProducerFencedError(
        f"the transactional id {metadata.transactional_id} is at epoch {metadata.producer_epoch}; the producer has "
        f"{producer_epoch}"
    )
