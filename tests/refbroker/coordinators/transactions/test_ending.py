"""The answer to EndTxn by state, producer id, epoch and version of transactions."""

from __future__ import annotations

import dataclasses

import pytest

from kclient import errors
from refbroker.coordinators.transactions.ending import Outcome, decide
from refbroker.coordinators.transactions.metadata import LARGEST_EPOCH, TransactionMetadata
from refbroker.coordinators.transactions.states import TransactionState as S

ENDS, DONE = Outcome.ENDS.name, Outcome.DONE.name
INVALID, FENCED, CONCURRENT = "INVALID_TXN_STATE", "PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS"
OTHER_ID = "INVALID_PRODUCER_ID_MAPPING"

Answers = dict[S, tuple[str, str]]
"""By state, the answer to a commit and the answer to an abort."""

CURRENT_EPOCH_V1: Answers = {
    S.EMPTY: (INVALID, INVALID),
    S.ONGOING: (ENDS, ENDS),
    S.PREPARE_COMMIT: (CONCURRENT, CONCURRENT),
    S.PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    S.COMPLETE_COMMIT: (DONE, INVALID),
    S.COMPLETE_ABORT: (INVALID, DONE),
}
CURRENT_EPOCH_V2: Answers = {
    S.EMPTY: (INVALID, ENDS),
    S.ONGOING: (ENDS, ENDS),
    S.PREPARE_COMMIT: (CONCURRENT, CONCURRENT),
    S.PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    S.COMPLETE_COMMIT: (INVALID, ENDS),
    S.COMPLETE_ABORT: (INVALID, ENDS),
}
PREVIOUS_EPOCH_V2: Answers = {
    S.EMPTY: (FENCED, FENCED),
    S.ONGOING: (FENCED, FENCED),
    S.PREPARE_COMMIT: (CONCURRENT, CONCURRENT),
    S.PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    S.COMPLETE_COMMIT: (DONE, INVALID),
    S.COMPLETE_ABORT: (INVALID, DONE),
}
OTHER_EPOCH_V2: Answers = {
    S.EMPTY: (FENCED, FENCED),
    S.ONGOING: (FENCED, FENCED),
    S.PREPARE_COMMIT: (CONCURRENT, CONCURRENT),
    S.PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    S.COMPLETE_COMMIT: (FENCED, FENCED),
    S.COMPLETE_ABORT: (FENCED, FENCED),
}
OTHER_ID_V2: Answers = {
    S.EMPTY: (OTHER_ID, OTHER_ID),
    S.ONGOING: (OTHER_ID, OTHER_ID),
    S.PREPARE_COMMIT: (CONCURRENT, CONCURRENT),
    S.PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    S.COMPLETE_COMMIT: (OTHER_ID, OTHER_ID),
    S.COMPLETE_ABORT: (OTHER_ID, OTHER_ID),
}
FENCED_V1: Answers = dict.fromkeys(CURRENT_EPOCH_V1, (FENCED, FENCED))
OTHER_ID_V1: Answers = dict.fromkeys(CURRENT_EPOCH_V1, (OTHER_ID, OTHER_ID))

# Read from TransactionCoordinator.scala of Kafka 4.3.1. The transactional id has the producer id 7 at epoch 5.
PRODUCERS: dict[str, tuple[int, int, Answers, Answers]] = {
    "current epoch": (7, 5, CURRENT_EPOCH_V1, CURRENT_EPOCH_V2),
    "previous epoch": (7, 4, FENCED_V1, PREVIOUS_EPOCH_V2),
    "epoch before the previous one": (7, 3, FENCED_V1, OTHER_EPOCH_V2),
    "next epoch": (7, 6, FENCED_V1, OTHER_EPOCH_V2),
    "other producer id": (8, 5, OTHER_ID_V1, OTHER_ID_V2),
    "other producer id, previous epoch": (8, 4, OTHER_ID_V1, OTHER_ID_V2),
}
"""The producer's id and epoch, and the answers with transactions version 0 or 1 and with version 2."""


def outcome(metadata: TransactionMetadata, who: tuple[int, int], commit: bool, version: int) -> str:
    try:
        return decide(metadata, *who, commit=commit, client_version=version).name
    except errors.KafkaError as error:
        return error.name


@pytest.mark.parametrize("version", [0, 1, 2], ids="version {}".format)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_end_txn_is_answered_as_by_kafka(producer: str, version: int) -> None:
    producer_id, epoch, before_v2, v2 = PRODUCERS[producer]
    answers: Answers = {}
    for state in CURRENT_EPOCH_V1:
        metadata = TransactionMetadata("id", 7, 60_000, 1, producer_epoch=5, state=state, previous_producer_id=7)
        commit, abort = (outcome(metadata, (producer_id, epoch), commit, version) for commit in (True, False))
        answers[state] = (commit, abort)
    assert answers == (v2 if version == 2 else before_v2)


@pytest.mark.parametrize("state", [S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
@pytest.mark.parametrize("commit", [True, False])
def test_the_last_end_of_an_exhausted_producer_id_is_known_again(state: S, commit: bool) -> None:
    metadata = TransactionMetadata("id", 8, 60_000, 1, producer_epoch=0, state=state, previous_producer_id=7)
    expected = DONE if commit is (state is S.COMPLETE_COMMIT) else INVALID
    assert outcome(metadata, (7, LARGEST_EPOCH - 1), commit, 2) == expected
    assert outcome(metadata, (7, LARGEST_EPOCH - 2), commit, 2) == OTHER_ID
    assert outcome(metadata, (6, LARGEST_EPOCH - 1), commit, 2) == OTHER_ID
    later = dataclasses.replace(metadata, producer_epoch=1)
    assert outcome(later, (7, LARGEST_EPOCH - 1), commit, 2) == OTHER_ID


def test_an_exhausted_producer_id_that_is_no_more_cannot_end_what_came_after_it() -> None:
    metadata = TransactionMetadata("id", 8, 60_000, 1, producer_epoch=0, state=S.ONGOING, previous_producer_id=7)
    assert outcome(metadata, (7, LARGEST_EPOCH - 1), True, 2) == FENCED


def test_an_error_says_what_there_is() -> None:
    metadata = TransactionMetadata("id", 8, 60_000, 1, producer_epoch=3)
    with pytest.raises(errors.InvalidTxnStateError, match="id is in state Empty, in which no transaction can commit"):
        decide(metadata, 8, 3, commit=True, client_version=2)
    with pytest.raises(errors.ProducerFencedError, match="id is at epoch 3; the producer has 1"):
        decide(metadata, 8, 1, commit=True, client_version=0)
    with pytest.raises(errors.InvalidPidMappingError, match="id has the producer id 8, not 9"):
        decide(metadata, 9, 3, commit=True, client_version=0)
