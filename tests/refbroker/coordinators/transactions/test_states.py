"""The table of states, and Kafka's table of the same."""

from __future__ import annotations

import pytest

from kclient.errors import IllegalStateError
from refbroker.coordinators.transactions.states import BY_TITLE, STATES, TransactionEvent, TransactionState

# Kafka's TransactionState.VALID_PREVIOUS_STATES.
BEFORE = {
    "Empty": "Empty CompleteCommit CompleteAbort",
    "Ongoing": "Ongoing Empty CompleteCommit CompleteAbort",
    "PrepareCommit": "Ongoing",
    "PrepareAbort": "Ongoing PrepareEpochFence Empty CompleteCommit CompleteAbort",
    "CompleteCommit": "PrepareCommit",
    "CompleteAbort": "PrepareAbort",
    "Dead": "Empty CompleteAbort CompleteCommit",
    "PrepareEpochFence": "Ongoing",
}


@pytest.mark.parametrize("following", TransactionState)
def test_a_state_follows_those_that_kafka_has_before_it(following: TransactionState) -> None:
    before = {state.title for state in TransactionState if following in STATES.followers(state)}
    assert before == set(BEFORE[following.title].split())


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_a_decided_outcome_cannot_be_changed(state: TransactionState) -> None:
    for event in set(TransactionEvent) - {TransactionEvent.COMPLETE}:
        with pytest.raises(IllegalStateError, match="transactional id t"):
            STATES.next_state(state, event, "t")


def test_states_have_the_numbers_and_names_of_kafka() -> None:
    assert list(BEFORE) == [BY_TITLE[name].title for name in BEFORE]
    assert [BY_TITLE[name] for name in BEFORE] == list(range(8))
    assert set(STATES.states) == set(TransactionState)


def test_ids_expire_that_have_nothing_open() -> None:
    assert [state.title for state in TransactionState if state.may_expire] == [
        "Empty",
        "CompleteCommit",
        "CompleteAbort",
    ]
