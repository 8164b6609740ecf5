"""What becomes of a wish to end a transaction, for each state, outcome, epoch and version."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from kclient import errors
from refbroker.coordinators.transactions.ending import Outcome, decide
from refbroker.coordinators.transactions.metadata import LARGEST_EPOCH, TransactionMetadata
from refbroker.coordinators.transactions.states import TransactionState as S

ENDS, DONE = Outcome.ENDS.name, Outcome.DONE.name
INVALID, FENCED, CONCURRENT = "INVALID_TXN_STATE", "PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS"
OTHER_ID = "INVALID_PRODUCER_ID_MAPPING"
STATES = (S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)

# Kafka's tables, from the comments of TransactionCoordinator.scala and what it does: commit, abort.
EPOCH_OF_NOW = {
    1: {
        S.EMPTY: (INVALID, INVALID),
        S.ONGOING: (ENDS, ENDS),
        S.COMPLETE_COMMIT: (DONE, INVALID),
        S.COMPLETE_ABORT: (INVALID, DONE),
    },
    2: {
        S.EMPTY: (INVALID, ENDS),
        S.ONGOING: (ENDS, ENDS),
        S.COMPLETE_COMMIT: (INVALID, ENDS),
        S.COMPLETE_ABORT: (INVALID, ENDS),
    },
}
EPOCH_BEFORE = {
    S.EMPTY: (FENCED, FENCED),
    S.ONGOING: (FENCED, FENCED),
    S.COMPLETE_COMMIT: (DONE, INVALID),
    S.COMPLETE_ABORT: (INVALID, DONE),
}


def outcome(metadata: TransactionMetadata, who: tuple[int, int], commit: bool, version: int) -> str:
    try:
        return decide(metadata, *who, commit=commit, client_version=version).name
    except errors.KafkaError as error:
        return error.name


@pytest.mark.parametrize(
    ("version", "state", "commit"),
    list(itertools.product((0, 1, 2), STATES, (True, False))),
    ids=lambda value: value.title if isinstance(value, S) else str(value),
)
@pytest.mark.parametrize("behind", [-1, 0, 1, 2], ids="{} epochs behind".format)
@pytest.mark.parametrize("same_id", [True, False], ids=["same id", "other id"])
def test_a_wish_to_end(version: int, state: S, commit: bool, behind: int, same_id: bool) -> None:
    metadata = TransactionMetadata("id", 7, 60_000, 1, producer_epoch=5, state=state, previous_producer_id=7)
    found = outcome(metadata, (7 if same_id else 8, 5 - behind), commit, version)
    column = 0 if commit else 1
    if version < 2:
        if not same_id or behind:
            expected = FENCED if same_id else OTHER_ID
        else:
            expected = CONCURRENT if state.is_prepared else EPOCH_OF_NOW[1][state][column]
    elif state.is_prepared:
        expected = CONCURRENT
    elif not same_id:
        expected = OTHER_ID
    else:
        table = {0: EPOCH_OF_NOW[2], 1: EPOCH_BEFORE}.get(behind)
        expected = FENCED if table is None else table[state][column]
    assert found == expected


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
    with pytest.raises(errors.InvalidTxnStateError, match="id is in state Empty, in which there is nothing to commit"):
        decide(metadata, 8, 3, commit=True, client_version=2)
    with pytest.raises(errors.ProducerFencedError, match="id is at epoch 3; the producer has 1"):
        decide(metadata, 8, 1, commit=True, client_version=0)
    with pytest.raises(errors.InvalidPidMappingError, match="id has the producer id 8, not 9"):
        decide(metadata, 9, 3, commit=True, client_version=0)
