"""The classic group protocol: every state with every request, timers and static members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kclient.errors import CoordinatorNotAvailableError, IllegalStateError, UnknownMemberIdError, UnknownServerError
from kclient.protocol.consumer_protocol import ConsumerProtocolSubscription
from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.records.consumer_offsets import GroupMetadataValue
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.states import STATES as GROUP_STATES
from refbroker.coordinators.groups.classic.states import GroupEvent, GroupState
from tests.refbroker.coordinators.groups.classic import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Groups,
    stable,
)

UNKNOWN_MEMBER, ILLEGAL_GENERATION, INCONSISTENT_PROTOCOL, REBALANCING = 25, 22, 23, 27
NOT_COORDINATOR, NOT_AVAILABLE, MEMBER_ID_REQUIRED, FENCED, FULL = 16, 15, 79, 82, 81
WAITS = None

State = tuple[Groups, str, str]


def _no_group() -> State:
    return Groups(), "nobody", "nobody"


def _empty() -> State:
    groups, (leader, follower) = stable()
    groups.leave((leader, None), (follower, None))
    assert groups.group.state is GroupState.EMPTY
    return groups, leader, follower


def _preparing() -> State:
    groups, (leader, follower) = stable()
    groups.join(leader)
    assert groups.group.state is GroupState.PREPARING_REBALANCE
    return groups, leader, follower


def _completing() -> State:
    groups, (leader, follower) = stable()
    groups.join(leader)
    groups.join(follower)
    assert groups.group.state is GroupState.COMPLETING_REBALANCE
    return groups, leader, follower


def _stable() -> State:
    groups, (leader, follower) = stable()
    assert groups.group.state is GroupState.STABLE
    return groups, leader, follower


def _dead() -> State:
    groups, (leader, follower) = stable()
    groups.classic.on_unloaded(groups.group)
    return groups, leader, follower


STATES = {
    "no group": _no_group,
    "empty": _empty,
    "preparing": _preparing,
    "completing": _completing,
    "stable": _stable,
    "dead": _dead,
}


def _code(answers: list[Any]) -> int | None:
    return answers[0].error_code if answers else WAITS


def _generation(groups: Groups) -> int:
    return groups.group.generation if GROUP in groups.groups else 1


def _leave(groups: Groups, member: str) -> int:
    try:
        answer = groups.leave((member, None))
    except UnknownMemberIdError as error:
        # There is no such group, which the handler tells each member.
        return error.code or 0
    return answer.error_code or answer.members[0].error_code


REQUESTS: dict[str, Callable[[Groups, str, str], int | None]] = {
    "join, new": lambda g, leader, follower: _code(g.join()),
    "join, new, before KIP-394": lambda g, leader, follower: _code(g.join(version=3)),
    "join, leader": lambda g, leader, follower: _code(g.join(leader)),
    "join, follower": lambda g, leader, follower: _code(g.join(follower)),
    "join, follower, changed": lambda g, leader, follower: _code(g.join(follower, metadata=b"new")),
    "join, unknown member": lambda g, leader, follower: _code(g.join("stranger")),
    "join, other protocol": lambda g, leader, follower: _code(g.join(protocols=["mine"])),
    "join, other type": lambda g, leader, follower: _code(g.join(protocol_type="connect")),
    "sync, leader": lambda g, leader, follower: _code(g.sync(leader, _generation(g))),
    "sync, follower": lambda g, leader, follower: _code(g.sync(follower, _generation(g))),
    "sync, old generation": lambda g, leader, follower: _code(g.sync(follower, _generation(g) - 1)),
    "sync, unknown member": lambda g, leader, follower: _code(g.sync("stranger", _generation(g))),
    "sync, other protocol": lambda g, leader, follower: _code(
        g.sync(follower, _generation(g), protocol_type="consumer", protocol_name="mine")
    ),
    "heartbeat": lambda g, leader, follower: g.heartbeat(follower, _generation(g)),
    "heartbeat, old generation": lambda g, leader, follower: g.heartbeat(follower, _generation(g) - 1),
    "heartbeat, unknown member": lambda g, leader, follower: g.heartbeat("stranger", _generation(g)),
    "leave": lambda g, leader, follower: _leave(g, follower),
    "leave, unknown member": lambda g, leader, follower: _leave(g, "stranger"),
}

# In the order of STATES.
EXPECTED: dict[str, tuple[int | None, ...]] = {
    "join, new": (79, 79, 79, 79, 79, 15),
    "join, new, before KIP-394": (WAITS, WAITS, WAITS, WAITS, WAITS, 15),
    "join, leader": (25, 25, WAITS, 0, WAITS, 15),
    "join, follower": (25, 25, 0, 0, 0, 15),
    "join, follower, changed": (25, 25, 0, WAITS, WAITS, 15),
    "join, unknown member": (25, 25, 25, 25, 25, 15),
    "join, other protocol": (79, 79, 23, 23, 23, 15),
    "join, other type": (79, 79, 23, 23, 23, 15),
    "sync, leader": (25, 25, 27, 0, 0, 15),
    "sync, follower": (25, 25, 27, WAITS, 0, 15),
    "sync, old generation": (25, 25, 22, 22, 22, 15),
    "sync, unknown member": (25, 25, 25, 25, 25, 15),
    "sync, other protocol": (25, 25, 23, 23, 23, 15),
    "heartbeat": (25, 25, 27, 0, 0, 15),
    "heartbeat, old generation": (25, 25, 22, 22, 22, 15),
    "heartbeat, unknown member": (25, 25, 25, 25, 25, 15),
    "leave": (25, 25, 0, 0, 0, 15),
    "leave, unknown member": (25, 25, 25, 25, 25, 15),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_each_request_in_each_state(state: str, request_name: str) -> None:
    groups, leader, follower = STATES[state]()
    assert REQUESTS[request_name](groups, leader, follower) == EXPECTED[request_name][list(STATES).index(state)]


# The valid previous states of each state, as Kafka's ClassicGroupState has them.
BEFORE = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState),
}


@pytest.mark.parametrize("state", GroupState)
@pytest.mark.parametrize("event", GroupEvent)
def test_an_event_that_the_table_does_not_have_is_an_error(state: GroupState, event: GroupEvent) -> None:
    group = ClassicGroup(GROUP, lambda: 1)
    group.state = state
    if GROUP_STATES.allows(state, event):
        group.apply(event)
        assert (group.previous_state, group.state_timestamp_ms) == (state, 1)
        assert state in BEFORE[group.state]
    else:
        with pytest.raises(IllegalStateError, match="classic group g"):
            group.apply(event)
        assert group.state is state


def test_the_table_has_every_transition_of_kafka() -> None:
    for state, before in BEFORE.items():
        assert {each for each in GroupState if state in GROUP_STATES.followers(each)} == before


# Rebalances


def test_a_new_group_waits_for_more_members_and_the_first_to_join_leads() -> None:
    groups = Groups(initial_rebalance_delay_ms=DELAY_MS)
    first, first_answers = groups.join_new(metadata=b"one")
    groups.pass_time(DELAY_MS - 1)
    second, second_answers = groups.join_new(metadata=b"two")
    groups.pass_time(1)
    assert not first_answers, "a member has come meanwhile, so that it waits as long again"
    groups.pass_time(DELAY_MS)
    [led], [followed] = first_answers, second_answers
    assert (led.generation_id, led.leader, led.protocol_name, led.protocol_type) == (1, first, "range", "consumer")
    assert [(one.member_id, one.metadata) for one in led.members] == [(first, b"one"), (second, b"two")]
    assert (followed.leader, followed.members, followed.member_id) == (first, [], second)
    waiting = groups.sync(second, 1)
    [answer] = groups.sync(first, 1, {first: b"A", second: b"B"})
    assert (answer.assignment, waiting[0].assignment) == (b"A", b"B")
    assert groups.group.state is GroupState.STABLE


def test_the_initial_delay_ends_with_the_rebalance_timeout_however_many_come() -> None:
    groups = Groups(initial_rebalance_delay_ms=DELAY_MS)
    _, answers = groups.join_new(rebalance_timeout_ms=2 * DELAY_MS)
    for _ in range(4):
        groups.join_new(rebalance_timeout_ms=2 * DELAY_MS)
        groups.pass_time(DELAY_MS // 2)
        groups.pass_time(-1)
    assert not answers
    groups.pass_time(4)
    assert answers[0].generation_id == 1
    assert len(answers[0].members) == 5


def test_each_new_member_extends_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    groups = Groups(initial_rebalance_delay_ms=DELAY_MS)
    _, answers = groups.join_new(rebalance_timeout_ms=4 * DELAY_MS)
    for delays in range(3):
        groups.join_new(rebalance_timeout_ms=4 * DELAY_MS)
        groups.pass_time(DELAY_MS)
        assert not answers, f"answered after {delays + 1} delays"
    groups.pass_time(DELAY_MS)
    assert len(answers[0].members) == 4


def test_a_member_that_does_not_join_again_in_time_is_out() -> None:
    groups, (leader, follower) = stable()
    _, answers = groups.join_new()
    for _ in range(REBALANCE_MS // 5000):
        assert not answers
        assert groups.heartbeat(follower, 1) == REBALANCING
        groups.join(leader)
        groups.pass_time(5000)
    assert answers[0].generation_id == 2
    assert follower not in groups.group.members
    assert groups.heartbeat(follower, 1) == UNKNOWN_MEMBER


def test_a_leader_that_does_not_join_again_in_time_is_followed_by_one_who_has() -> None:
    groups, (leader, follower) = stable()
    answers = groups.join(follower, metadata=b"new")
    for _ in range(REBALANCE_MS // 5000):
        assert groups.heartbeat(leader, 1) == REBALANCING
        groups.pass_time(5000)
    assert (answers[0].leader, answers[0].generation_id) == (follower, 2)
    assert [one.member_id for one in answers[0].members] == [follower]


def test_a_member_that_does_not_ask_for_its_assignment_is_out() -> None:
    groups, (leader, follower) = stable()
    groups.join(leader)
    groups.join(follower)
    groups.sync(leader, 2)
    for _ in range(REBALANCE_MS // 5000):
        groups.heartbeat(leader, 2)
        groups.heartbeat(follower, 2)
        groups.pass_time(5000)
    assert list(groups.group.members) == [leader]
    assert groups.heartbeat(leader, 2) == REBALANCING


def test_a_session_that_ends_starts_a_rebalance() -> None:
    groups, (leader, follower) = stable()
    groups.pass_time(SESSION_MS - 1)
    assert groups.heartbeat(leader, 1) == 0
    groups.pass_time(1)
    assert list(groups.group.members) == [leader]
    assert groups.heartbeat(leader, 1) == REBALANCING
    assert groups.heartbeat(follower, 1) == UNKNOWN_MEMBER


def test_members_that_wait_for_an_answer_need_no_heartbeats() -> None:
    groups, (leader, follower) = stable()
    answers = groups.join(leader)
    for _ in range(10):
        groups.pass_time(SESSION_MS // 2)
        groups.heartbeat(follower, 1)
    assert not answers
    groups.join(follower)
    waiting = groups.sync(follower, 2)
    for _ in range(5):
        groups.pass_time(SESSION_MS // 2)
        assert groups.heartbeat(leader, 2) == 0
    groups.sync(leader, 2, {follower: b"F"})
    assert waiting[0].assignment == b"F"
    groups.pass_time(SESSION_MS - 1)
    assert groups.heartbeat(leader, 2) == 0
    groups.pass_time(1)
    assert list(groups.group.members) == [leader], "the follower's session began again with the assignment"


def test_an_id_that_nobody_joins_with_is_forgotten() -> None:
    groups, (leader, follower) = stable()
    [told] = groups.join(session_timeout_ms=SESSION_MS // 2)
    groups.join(leader)
    answers = groups.join(follower)
    assert not answers, "the new member is waited for"
    groups.pass_time(SESSION_MS // 2)
    assert answers[0].generation_id == 2
    assert groups.join(told.member_id)[0].error_code == UNKNOWN_MEMBER


def test_an_id_that_leaves_before_it_has_joined_is_forgotten() -> None:
    groups, _ = stable()
    [told] = groups.join()
    assert groups.leave((told.member_id, None)).members[0].error_code == 0
    assert groups.join(told.member_id)[0].error_code == UNKNOWN_MEMBER


@pytest.mark.parametrize("state", ["empty", "preparing", "completing", "stable"])
def test_timers_of_a_group_that_is_gone_do_nothing(state: str) -> None:
    groups, _, _ = STATES[state]()
    groups.join()
    groups.groups.clear()
    groups.pass_time(2 * REBALANCE_MS)
    assert not groups.timers


def test_a_new_member_that_waits_too_long_is_asked_to_join_again() -> None:
    groups, (leader, follower) = stable()
    _, answers = groups.join_new(rebalance_timeout_ms=1_000_000)
    for _ in range(60):
        assert not answers
        groups.heartbeat(leader, 1)
        groups.heartbeat(follower, 1)
        groups.pass_time(5000)
    assert (answers[0].error_code, answers[0].member_id) == (UNKNOWN_MEMBER, "")
    assert leader in groups.group.members


def test_the_last_member_leaves_and_the_group_is_empty_and_says_so_in_the_log() -> None:
    groups, (leader, follower) = stable()
    assert [one.error_code for one in groups.leave((leader, None), ("stranger", None), (follower, None)).members] == [
        0,
        UNKNOWN_MEMBER,
        0,
    ]
    assert groups.group.is_empty
    value = groups.written[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.protocol, value.leader, value.members) == (2, None, None, [])
    assert value.protocol_type == "consumer"
    assert not groups.timers


def test_members_in_a_rebalance_are_notified_when_another_one_begins() -> None:
    groups, (leader, follower) = stable()
    groups.join(leader)
    groups.join(follower)
    waiting = groups.sync(follower, 2)
    groups.join_new()
    assert waiting[0].error_code == REBALANCING


def test_a_group_takes_no_more_members_than_it_may_have() -> None:
    groups, _ = stable(2, max_size=2)
    assert groups.join()[0].error_code == FULL
    assert len(groups.group.members) == 2


def test_after_the_limit_was_lowered_the_last_to_join_again_are_out() -> None:
    groups, members = stable(3)
    record = groups.written[-1].value
    assert isinstance(record, GroupMetadataValue)
    again = Groups(max_size=2)
    again.groups[GROUP] = ClassicGroup.from_record(GROUP, record, again.now)
    again.classic.on_loaded(again.group)
    assert again.group.state is GroupState.PREPARING_REBALANCE
    answers = [again.join(member) for member in members]
    again.pass_time(REBALANCE_MS)
    assert [_code(each) for each in answers] == [0, 0, FULL]


def test_a_group_that_is_as_large_as_allowed_is_loaded_without_a_rebalance() -> None:
    groups, members = stable(2)
    record = groups.written[-1].value
    assert isinstance(record, GroupMetadataValue)
    again = Groups(max_size=2)
    again.groups[GROUP] = ClassicGroup.from_record(GROUP, record, again.now)
    again.classic.on_loaded(again.group)
    assert [again.heartbeat(member, 1) for member in members] == [0, 0]


def test_who_waits_is_reported_when_another_broker_takes_over() -> None:
    groups, _, _ = _preparing()
    new, answers = groups.join_new()
    groups.classic.on_unloaded(groups.group)
    assert (answers[0].error_code, answers[0].member_id) == (NOT_COORDINATOR, new)
    groups, _, follower = _completing()
    waiting = groups.sync(follower, 2)
    groups.classic.on_unloaded(groups.group)
    assert waiting[0].error_code == NOT_COORDINATOR


# The vote


def test_each_member_votes_for_its_first_assignor_that_all_support() -> None:
    groups = Groups(initial_rebalance_delay_ms=DELAY_MS)
    for protocols in (["a", "b", "c"], ["c", "b"], ["b", "c", "d"]):
        _, answers = groups.join_new(protocols=protocols)
    groups.pass_time(3 * DELAY_MS)
    assert answers[0].protocol_name == "b", "a and d are no candidates: b has the votes of the first and the third"


def test_subscriptions_of_consumers_are_known_and_those_of_others_are_not() -> None:
    groups = Groups(initial_rebalance_delay_ms=0)
    subscription = encode_versioned(ConsumerProtocolSubscription(topics=["t", "u"]), 3)
    groups.join_new(metadata=subscription)
    groups.pass_time(0)
    assert groups.group.subscribed_topics == frozenset({"t", "u"})
    assert groups.group.is_subscribed_to("t")
    assert not groups.group.is_subscribed_to("v")
    damaged = Groups(initial_rebalance_delay_ms=0)
    damaged.join_new(metadata=b"\0")
    damaged.pass_time(0)
    assert damaged.group.subscribed_topics is None
    assert damaged.group.is_subscribed_to("anything"), "which is the careful answer"


# Static members


def _static(count: int = 2) -> tuple[Groups, list[str]]:
    groups = Groups(initial_rebalance_delay_ms=0)
    answers = [groups.join(instance_id=f"i{number}") for number in range(count)]
    groups.pass_time(0)
    groups.settle()
    return groups, [each[0].member_id for each in answers]


def test_a_static_member_that_comes_back_takes_its_place_without_a_rebalance() -> None:
    groups, (leader, follower) = _static()
    before = len(groups.written)
    [answer] = groups.join(instance_id="i1")
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, leader)
    assert answer.member_id.startswith("i1-")
    assert answer.member_id != follower
    assert not answer.skip_assignment
    assert groups.sync(answer.member_id, 1)[0].assignment == follower.encode()
    assert groups.heartbeat(follower, 1, "i1") == FENCED
    assert groups.sync(follower, 1, group_instance_id="i1")[0].error_code == FENCED
    assert groups.join(follower, instance_id="i1")[0].error_code == FENCED
    assert groups.leave((follower, "i1")).members[0].error_code == FENCED
    value = groups.written[before].value
    assert isinstance(value, GroupMetadataValue)
    assert {one.member_id for one in value.members} == {leader, answer.member_id}


def test_a_static_leader_that_comes_back_need_not_assign() -> None:
    groups, (leader, follower) = _static()
    [answer] = groups.join(instance_id="i0")
    assert (answer.skip_assignment, answer.leader) == (True, answer.member_id)
    assert {one.member_id for one in answer.members} == {answer.member_id, follower}
    [older] = groups.join(instance_id="i0", version=8)
    assert (older.skip_assignment, older.members) == (False, [])
    assert older.leader == answer.member_id != older.member_id, "so that it does not take itself for the leader"
    assert groups.heartbeat(leader, 1, "i0") == FENCED


def test_a_static_member_whose_return_cannot_be_stored_keeps_its_former_id() -> None:
    groups, (leader, follower) = _static()
    groups.failure = CoordinatorNotAvailableError()
    [answer] = groups.join(instance_id="i1", metadata=b"other")
    assert (answer.error_code, answer.member_id, answer.leader) == (NOT_AVAILABLE, "", leader)
    groups.failure = None
    assert groups.heartbeat(follower, 1, "i1") == 0
    assert groups.group.members[follower].metadata("range") == b""
    assert groups.group.leader == leader


def test_a_static_member_that_changes_the_vote_starts_a_rebalance() -> None:
    groups = Groups(initial_rebalance_delay_ms=0)
    groups.join(instance_id="i0", protocols=["a", "b"])
    groups.pass_time(0)
    groups.settle()
    [answer] = groups.join(instance_id="i0", protocols=["b"])
    assert (answer.generation_id, answer.protocol_name) == (2, "b")


def test_a_static_member_that_comes_back_in_a_rebalance_fences_the_one_that_waits() -> None:
    groups, (leader, follower) = _static()
    waiting = groups.join(follower, instance_id="i1", metadata=b"new")
    assert not waiting
    again = groups.join(instance_id="i1")
    assert waiting[0].error_code == FENCED
    groups.join(leader, instance_id="i0")
    assert again[0].generation_id == 2
    synced = groups.sync(again[0].member_id, 2)
    third = groups.join(instance_id="i1")
    assert synced[0].error_code == FENCED
    assert groups.group.state is GroupState.PREPARING_REBALANCE
    groups.join(leader, instance_id="i0")
    assert third[0].generation_id == 3


def test_static_members_stay_in_a_rebalance_without_them_until_their_session_expires() -> None:
    groups = Groups(initial_rebalance_delay_ms=0)
    for number in range(2):
        groups.join(instance_id=f"i{number}", session_timeout_ms=2 * REBALANCE_MS)
    groups.pass_time(0)
    groups.settle()
    leader, follower = groups.group.members
    answers = groups.join(leader, instance_id="i0", session_timeout_ms=2 * REBALANCE_MS)
    groups.pass_time(REBALANCE_MS)
    assert answers[0].generation_id == 2
    assert {one.member_id for one in answers[0].members} == {leader, follower}


def test_a_rebalance_waits_for_absent_static_members_if_no_others_are_left() -> None:
    groups = Groups(initial_rebalance_delay_ms=0)
    groups.join(instance_id="i0", session_timeout_ms=3 * REBALANCE_MS)
    groups.pass_time(0)
    groups.settle()
    _, answers = groups.join_new(session_timeout_ms=SESSION_MS)
    groups.leave((next(reversed(groups.group.members)), None))
    assert answers[0].error_code == UNKNOWN_MEMBER
    groups.pass_time(REBALANCE_MS)
    assert groups.group.state is GroupState.PREPARING_REBALANCE
    groups.pass_time(2 * REBALANCE_MS)
    assert groups.group.is_empty


def test_an_administrator_removes_static_members_by_the_names_they_were_given() -> None:
    groups, (_, follower) = _static()
    response = groups.leave(("", "i0"), ("", "nobody"))
    assert [one.error_code for one in response.members] == [0, UNKNOWN_MEMBER]
    assert list(groups.group.members) == [follower]
    assert "i0" not in groups.group.static_members


def test_a_static_member_cannot_join_with_an_id_that_a_dynamic_one_was_given() -> None:
    groups, _ = stable()
    [told] = groups.join()
    with pytest.raises(UnknownServerError, match="dynamic member"):
        groups.join(told.member_id, instance_id="i0")
