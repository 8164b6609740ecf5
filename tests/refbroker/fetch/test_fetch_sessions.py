"""Incremental fetch sessions: ids, epochs, and who makes room."""

from __future__ import annotations

import random

import pytest

from kclient.errors import FetchSessionIdNotFoundError, FetchSessionTopicIdError, InvalidFetchSessionEpochError
from refbroker.fetch.sessions import INT32_MAX, FetchedPartition, FetchSession, FetchSessions, Key


def partitions(count: int) -> dict[Key, FetchedPartition]:
    return {("t", number): FetchedPartition("t", "t", number, 0, 1000, -1, -1) for number in range(count)}


@pytest.fixture
def sessions(rng: random.Random) -> FetchSessions:
    return FetchSessions(2, rng)


def create(sessions: FetchSessions, size: int = 1, now: int = 0) -> FetchSession:
    session = sessions.create(partitions(size), True, now)
    assert session is not None
    return session


def test_each_request_has_the_next_epoch(sessions: FetchSessions) -> None:
    session = create(sessions)
    assert session.session_id > 0
    for epoch in (1, 2, 3):
        assert sessions.resume(session.session_id, epoch, True, 0) is session
    with pytest.raises(InvalidFetchSessionEpochError):
        sessions.resume(session.session_id, 3, True, 0)
    assert sessions.resume(session.session_id, 4, True, 0) is session


def test_epochs_start_again_at_1_after_the_largest(sessions: FetchSessions) -> None:
    session = create(sessions)
    session.epoch = INT32_MAX
    sessions.resume(session.session_id, INT32_MAX, True, 0)
    assert session.epoch == 1


def test_an_unknown_fetch_session_is_an_error(sessions: FetchSessions) -> None:
    session = create(sessions)
    sessions.remove(session.session_id)
    sessions.remove(session.session_id)
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.resume(session.session_id, 1, True, 0)


def test_names_and_ids_do_not_mix_within_a_session(sessions: FetchSessions) -> None:
    session = create(sessions)
    with pytest.raises(FetchSessionTopicIdError):
        sessions.resume(session.session_id, 1, False, 0)
    with pytest.raises(InvalidFetchSessionEpochError):
        sessions.resume(session.session_id, 2, False, 0)


def test_the_session_idle_longest_makes_room(sessions: FetchSessions) -> None:
    first, second = create(sessions, 5), create(sessions, 5)
    sessions.resume(first.session_id, 1, True, 100_000)
    third = create(sessions, 1, now=130_000)
    assert len(sessions) == 2
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.resume(second.session_id, 1, True, 130_000)
    sessions.resume(first.session_id, 2, True, 130_000)
    sessions.resume(third.session_id, 1, True, 130_000)


def test_a_smaller_session_makes_room_for_a_larger_one_and_not_the_reverse(sessions: FetchSessions) -> None:
    large, small = create(sessions, 3), create(sessions, 2)
    for session in (large, small):
        sessions.resume(session.session_id, 1, True, 120_001)
    assert sessions.create(partitions(2), True, 120_002) is None
    create(sessions, 4, now=120_002)
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.resume(small.session_id, 2, True, 120_002)


def test_a_session_has_two_minutes_before_a_larger_one_takes_its_place(sessions: FetchSessions) -> None:
    young, old = create(sessions, 1, now=1), create(sessions, 2)
    for session in (young, old):
        sessions.resume(session.session_id, 1, True, 120_001)
    create(sessions, 4, now=120_001)
    sessions.resume(young.session_id, 2, True, 120_001)
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.resume(old.session_id, 2, True, 120_001)


def test_no_slots_means_no_sessions(rng: random.Random) -> None:
    assert FetchSessions(0, rng).create(partitions(1), True, 0) is None
