"""The tables of the member: its states, and what follows from each answer of a coordinator."""

from __future__ import annotations

import pytest

from kclient import errors
from kclient.consumer.group import outcomes
from kclient.consumer.group.classic.states import STATES, MemberEvent, MemberState
from kclient.consumer.group.outcomes import Outcome
from kclient.consumer.group.poll_interval import PollInterval


def test_every_state_is_in_the_table_and_leads_back_to_unjoined() -> None:
    assert set(STATES.states) == set(MemberState)
    for state in MemberState:
        reached, found = {state}, {state}
        while found:
            found = {after for before in found for after in STATES.followers(before)} - reached
            reached |= found
        assert MemberState.UNJOINED in reached


def test_only_unsubscribing_ends_fencing() -> None:
    assert STATES.followers(MemberState.FENCED) == {MemberState.UNJOINED}
    assert not any(STATES.allows(MemberState.FENCED, event) for event in MemberEvent if event is not MemberEvent.LEFT)


@pytest.mark.parametrize("table", [outcomes.JOIN, outcomes.SYNC, outcomes.HEARTBEAT])
def test_whatever_has_a_retriable_code_is_tried_again(table: dict[int, Outcome]) -> None:
    for error in (
        errors.CoordinatorLoadInProgressError,
        errors.CoordinatorNotAvailableError,
        errors.NotCoordinatorError,
    ):
        assert table[error.code] in (Outcome.AGAIN, Outcome.MOVED)
    assert table[errors.FencedInstanceIdError.code] is Outcome.FENCED
    assert table[errors.UnknownMemberIdError.code] is Outcome.LOST
    assert errors.GroupAuthorizationError.code not in table


def test_waiting_for_records_is_not_slow_and_working_beyond_the_interval_is() -> None:
    interval = PollInterval(5_000, lambda: None)
    assert not interval.expired(100.0)  # nobody has polled yet
    interval.polled(100.0)
    assert not interval.expired(104.9)
    assert interval.expired(105.0)
    interval.waits()
    assert not interval.expired(1_000.0)


def test_every_record_taken_of_a_chunk_is_a_sign_of_life() -> None:
    taken = [object()]
    interval = PollInterval(5_000, lambda: taken[0])
    interval.polled(100.0)
    for now in (103.0, 106.0, 109.0):
        taken[0] = object()
        assert not interval.expired(now)
    assert interval.deadline() == 114.0
    assert interval.expired(114.0)
