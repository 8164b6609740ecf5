"""What becomes of a wish to end a transaction: EndTxn, and the coordinator's own wish to abort.

Before transactions version 2 a producer has one epoch for many transactions, so that a repeated EndTxn looks like the
first one, and is told that all is well when the transaction has ended the same way. From version 2 on each end raises
the epoch (KIP-890): a request with the epoch before is the last one again, one with the epoch of now is about another
transaction. That one may be aborted although nothing is known of it, since a producer cannot tell whether anything
of it has arrived; it cannot be committed. Source: TransactionCoordinator.scala, `endTransaction`.

                        version 0, 1                    version 2, epoch of now        version 2, epoch before
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
    """What a request to end a transaction comes to."""

    ENDS = "the transaction ends"
    DONE = "it has ended so already"
    INVALID_STATE = "there is no transaction that could end so"


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
"""By the state and whether to commit; for a producer that has the epoch of now."""

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
"""The same for transactions version 2."""

REPEATED_WITH_EPOCH_BUMP: dict[tuple[TransactionState, bool], Outcome] = {
    (_S.COMPLETE_COMMIT, True): _O.DONE,
    (_S.COMPLETE_COMMIT, False): _O.INVALID_STATE,
    (_S.COMPLETE_ABORT, True): _O.INVALID_STATE,
    (_S.COMPLETE_ABORT, False): _O.DONE,
}
"""The same for a producer that has the epoch before; in all other states it is fenced."""


def decide(
    metadata: TransactionMetadata, producer_id: int, producer_epoch: int, *, commit: bool, client_version: int
) -> Outcome:
    """What a producer's request comes to: that its transaction ends, or has ended already.

    Raises:
        InvalidPidMappingError: the transactional id has another producer id.
        ProducerFencedError: it has another epoch.
        ConcurrentTransactionsError: an earlier end is not complete yet.
        InvalidTxnStateError: there is nothing that could end so.
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
            f"the transactional id {metadata.transactional_id} is in state {metadata.state.title}, in which there is "
            f"nothing to {'commit' if commit else 'abort'}"
        )
    return outcome


def _is_repeated(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Whether a producer has what it had before its last transaction ended."""
    if metadata.producer_id == producer_id:
        return metadata.producer_epoch == producer_epoch + 1
    exhausted = metadata.producer_epoch == 0 and producer_epoch == LARGEST_EPOCH - 1
    return exhausted and metadata.previous_producer_id == producer_id


def check_producer(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> None:
    """See that a transactional id is this producer's.

    Raises:
        InvalidPidMappingError: it has another producer id.
        ProducerFencedError: it has another epoch.
    """
    if metadata.producer_id != producer_id:
        raise InvalidPidMappingError(
            f"the transactional id {metadata.transactional_id} has the producer id {metadata.producer_id}, not "
            f"{producer_id}"
        )
    if metadata.producer_epoch != producer_epoch:
        raise fenced(metadata, producer_epoch)


def check_not_ending(metadata: TransactionMetadata) -> None:
    """See that no transaction is about to end.

    Raises:
        ConcurrentTransactionsError: one is.
    """
    if metadata.state.is_prepared:
        raise ConcurrentTransactionsError(
            f"the last transaction of {metadata.transactional_id} is not complete yet ({metadata.state.title})"
        )


def fenced(metadata: TransactionMetadata, producer_epoch: int) -> KafkaError:
    """The error of a producer that has another epoch."""
    return ProducerFencedError(
        f"the transactional id {metadata.transactional_id} is at epoch {metadata.producer_epoch}; the producer has "
        f"{producer_epoch}"
    )
