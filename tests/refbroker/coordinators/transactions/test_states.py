"""The table of states, and Kafka's table of the same."""

from __future__ import annotations

import itertools

import pytest

from kclient.errors import IllegalStateError
from refbroker.coordinators.transactions.states import BY_TITLE, TRANSITIONS, TransactionState, check_transition

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


@pytest.mark.parametrize(("state", "following"), list(itertools.product(TransactionState, repeat=2)))
def test_a_state_follows_those_that_kafka_has_before_it(state: TransactionState, following: TransactionState) -> None:
    if state.title in BEFORE[following.title].split():
        check_transition("id", state, following)
    else:
        with pytest.raises(IllegalStateError, match=f"id cannot go from {state.title} to {following.title}"):
            check_transition("id", state, following)


def test_states_have_the_numbers_and_names_of_kafka() -> None:
    assert list(BEFORE) == [BY_TITLE[name].title for name in BEFORE]
    assert [BY_TITLE[name] for name in BEFORE] == list(range(8))
    assert set(TRANSITIONS) == set(TransactionState)


def test_ids_expire_that_have_nothing_open() -> None:
    assert [state.title for state in TransactionState if state.may_expire] == [
        "Empty",
        "CompleteCommit",
        "CompleteAbort",
    ]
