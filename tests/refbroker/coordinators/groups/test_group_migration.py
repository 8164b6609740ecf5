"""Groups that come from one protocol to the other, and members of both in one group."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import UnknownServerError
from kclient.protocol.consumer_protocol import ConsumerProtocolAssignment, decode_any_version
from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.sync_group import SyncGroupRequest
from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.coordinators.groups.consumer.migration import classic_assignment
from refbroker.coordinators.groups.consumer.states import MemberState
from tests.refbroker.coordinators.groups.consumers import GROUP, INTERVAL_MS, REBALANCE_MS, Consumers

REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79


def classic_group(partitions: int = 4, user_data: bytes | None = None, **settings: Any) -> Consumers:
    """A stable classic group whose member, c-new-1, has all partitions of t."""
    groups = Consumers(**settings)
    groups.create("t", partitions)
    assert groups.classic_join("", "t").error_code == MEMBER_ID_REQUIRED
    groups.classic_join("c-new-1", "t")
    groups.pass_time(0)
    partition = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=list(range(partitions)))
    assignment = ConsumerProtocolAssignment(assigned_partitions=[partition], user_data=user_data)
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=1,
        member_id="c-new-1",
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(member_id="c-new-1", assignment=encode_versioned(assignment, 1))
        ],
    )
    groups.carry_out(lambda: groups.protocols.on_sync_group(request, lambda answer: None))
    assert groups.classic_groups[GROUP].state is GroupState.STABLE
    return groups


def mixed_group(**settings: Any) -> Consumers:
    """A consumer group of the classic member c-new-1 with 0 and 1, and the consumer member b with 2 and 3."""
    groups = classic_group(**settings)
    assert groups.join("b", "t").member_epoch == 2
    assert groups.classic_beat("c-new-1", 1) == REBALANCE_IN_PROGRESS
    assert groups.classic_join("c-new-1", "t", owned={"t": [0, 1, 2, 3]}).generation_id == 1
    assert groups.classic_sync("c-new-1", 1) == {"t": [0, 1]}
    assert groups.classic_beat("c-new-1", 1) == REBALANCE_IN_PROGRESS, "it has to give up what it had"
    assert groups.classic_join("c-new-1", "t", owned={"t": [0, 1]}).generation_id == 2
    assert groups.classic_sync("c-new-1", 2) == {"t": [0, 1]}
    assert groups.beat("b", 2, {}).assignment.topic_partitions[0].partitions == [2, 3]
    assert groups.classic_beat("c-new-1", 2) == 0
    return groups


# Without members


def test_an_empty_classic_group_becomes_a_consumer_group() -> None:
    groups = classic_group()
    groups.classic_leave(("c-new-1", None))
    assert groups.join("a", "t").member_epoch == 2
    assert (list(groups.groups), groups.classic_groups) == ([GROUP], {})
    groups.restart()
    assert (list(groups.groups), groups.classic_groups) == ([GROUP], {})


def test_an_empty_consumer_group_becomes_a_classic_group() -> None:
    groups = Consumers()
    groups.create("t", 1)
    groups.join("a", "t")
    groups.leave("a")
    assert groups.classic_join("unknown", "t").error_code == 25
    groups.failure = UnknownServerError()
    assert groups.code(lambda: groups.classic_join("", "t")) == "UnknownServerError"
    assert (list(groups.groups), groups.classic_groups) == ([GROUP], {})
    groups.failure = None
    assert groups.classic_join("", "t").error_code == MEMBER_ID_REQUIRED
    assert (groups.groups, list(groups.classic_groups)) == ({}, [GROUP])
    groups.restart()
    assert (groups.groups, list(groups.classic_groups)) == ({}, [GROUP])


# With members


def test_a_classic_group_continues_as_a_consumer_group_and_loses_nothing() -> None:
    groups = mixed_group()
    assert groups.classic_groups == {}
    assert groups.assigned() == {"c-new-1": {"t": [0, 1]}, "b": {"t": [2, 3]}}
    groups.restart()
    assert groups.assigned() == {"c-new-1": {"t": [0, 1]}, "b": {"t": [2, 3]}}
    assert groups.group.members["c-new-1"].classic is not None
    assert groups.classic_beat("c-new-1", 2) == 0


def test_a_consumer_group_continues_from_the_generation_of_the_classic_one() -> None:
    groups = classic_group()
    assert groups.classic_join("c-new-1", "t").generation_id == 2
    assert groups.join("b", "t").member_epoch == 3
    assert groups.classic_beat("c-new-1", 2) == REBALANCE_IN_PROGRESS


def test_a_classic_member_that_is_silent_from_the_change_of_its_group_on_is_out() -> None:
    groups = classic_group()
    groups.pass_time(5_000)
    groups.join("b", "t")
    groups.pass_time(9_999)
    assert list(groups.group.members) == ["c-new-1", "b"]
    groups.pass_time(1)
    assert list(groups.group.members) == ["b"]


def test_classic_members_that_wait_when_their_group_changes_join_again() -> None:
    groups = classic_group()
    waiting: list[Any] = []
    leader = groups.classic_groups[GROUP].members["c-new-1"]
    leader.answer_join = waiting.append
    groups.join("b", "t")
    assert [answer.error_code for answer in waiting] == [REBALANCE_IN_PROGRESS]


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        (lambda: classic_group(migration_policy="disabled"), "online upgrade is disabled"),
        (lambda: classic_group(migration_policy="downgrade"), "online upgrade is disabled"),
        (lambda: classic_group(user_data=b"mine"), "custom assignor"),
        (lambda: classic_group(max_size=0), "exceeds the consumer group maximum size"),
    ],
    ids=["disabled", "downgrades only", "custom assignor", "too large"],
)
def test_a_classic_group_that_cannot_go_over_stays_what_it_is(groups: Any, reason: str) -> None:
    groups = groups()
    with pytest.raises(Exception, match=reason):
        groups.join("b", "t")
    assert (groups.groups, list(groups.classic_groups)) == ({}, [GROUP])


def test_a_group_becomes_classic_when_its_last_consumer_member_leaves() -> None:
    groups = mixed_group()
    groups.leave("b")
    classic = groups.classic_groups[GROUP]
    assert (groups.groups, list(classic.members), classic.leader) == ({}, ["c-new-1"], "c-new-1")
    assert (classic.generation, classic.state) == (2, GroupState.PREPARING_REBALANCE)
    assert groups.classic_beat("c-new-1", 2) == REBALANCE_IN_PROGRESS
    assert groups.classic_join("c-new-1", "t").generation_id == 3
    groups.restart()
    assert (groups.groups, list(groups.classic_groups)) == ({}, [GROUP])


def test_a_group_stays_what_it_is_when_the_policy_says_so_or_the_log_fails() -> None:
    groups = mixed_group(migration_policy="upgrade")
    groups.leave("b")
    assert (list(groups.group.members), groups.classic_groups) == (["c-new-1"], {})
    failing = mixed_group()
    failing.failure = UnknownServerError()
    assert failing.code(lambda: failing.leave("b")) == "UnknownServerError"
    assert (list(failing.group.members), failing.classic_groups) == (["c-new-1", "b"], {})


def test_a_static_member_that_returns_with_the_classic_protocol_converts_the_group() -> None:
    groups = Consumers()
    groups.create("t", 2)
    groups.join("a", "t", instance_id="i")
    groups.pass_time(INTERVAL_MS)
    groups.leave("a", -2, instance_id="i")
    answer = groups.classic_join("", "t", instance_id="i", owned={})
    assert (answer.error_code, answer.protocol_name) == (0, "range")
    classic = groups.classic_groups[GROUP]
    assert (groups.groups, list(classic.members)) == ({}, [answer.member_id])
    assert classic.static_members == {"i": answer.member_id}
    groups.restart()
    assert (groups.groups, list(groups.classic_groups[GROUP].members)) == ({}, [answer.member_id])


# Classic members of a consumer group


def test_a_classic_member_is_refused_where_it_does_not_fit() -> None:
    groups = mixed_group()
    assert (
        groups.code(lambda: groups.classic_join("", "t", protocol_type="connect")) == "InconsistentGroupProtocolError"
    )
    assert groups.classic_join("", "t").error_code == MEMBER_ID_REQUIRED
    assert groups.code(lambda: groups.classic_beat("b", 2)) == "UnknownMemberIdError"
    assert groups.code(lambda: groups.classic_beat("x", 2)) == "UnknownMemberIdError"
    assert groups.code(lambda: groups.classic_beat("c-new-1", 1)) == "IllegalGenerationError"
    assert groups.code(lambda: groups.classic_sync("c-new-1", 1)) == "IllegalGenerationError"
    groups.settings = groups.settings._replace(migration_policy="disabled")
    assert groups.code(lambda: groups.classic_join("", "t")) == "InconsistentGroupProtocolError"
    groups.settings = groups.settings._replace(migration_policy="bidirectional", max_size=2)
    assert groups.code(lambda: groups.classic_join("", "t", version=3)) == "GroupMaxSizeReachedError"


def test_a_classic_member_that_joins_a_consumer_group_gets_its_part() -> None:
    groups = Consumers(assignment_interval_ms=0)
    groups.create("t", 2)
    groups.join("a", "t")
    joined = groups.classic_join("", "t", version=3)
    assert (joined.generation_id, joined.leader, joined.members) == (3, "", [])
    assert groups.classic_sync(joined.member_id, 3) == {}
    assert groups.group.members[joined.member_id].state is MemberState.UNRELEASED_PARTITIONS
    assert groups.classic_beat(joined.member_id, 3) == 0
    groups.beat("a", 2, {"t": [0, 1]})
    groups.beat("a", 2, {"t": [0]})
    assert groups.classic_beat(joined.member_id, 3) == REBALANCE_IN_PROGRESS
    groups.classic_join(joined.member_id, "t", owned={})
    assert groups.classic_sync(joined.member_id, 3) == {"t": [1]}
    assert groups.classic_leave((joined.member_id, None), ("x", None), ("", "i")) == [0, 25, 25]
    assert groups.settle() == {"a": {"t": [0, 1]}}


def test_a_classic_member_that_does_not_join_again_is_out() -> None:
    groups = mixed_group()
    groups.pass_time(INTERVAL_MS)
    groups.join("c", "t")
    for _ in range(REBALANCE_MS // 5_000):
        assert groups.classic_beat("c-new-1", 2) == REBALANCE_IN_PROGRESS
        groups.pass_time(5_000)
        groups.beat("b", groups.group.members["b"].epoch, {"t": [2]})
        groups.beat("c", groups.group.members["c"].epoch)
    assert list(groups.group.members) == ["b", "c"]


def test_a_classic_member_that_has_joined_again_stays() -> None:
    groups = mixed_group()
    groups.pass_time(INTERVAL_MS)
    groups.join("c", "t")
    assert groups.classic_beat("c-new-1", 2) == REBALANCE_IN_PROGRESS
    generation = groups.classic_join("c-new-1", "t", owned={"t": [0]}).generation_id
    groups.classic_sync("c-new-1", generation)
    for _ in range(2 * REBALANCE_MS // 5_000):
        groups.pass_time(5_000)
        assert groups.classic_beat("c-new-1", generation) == 0
        for member_id in ("b", "c"):
            groups.beat(member_id, groups.group.members[member_id].epoch)


def test_a_classic_member_that_does_not_ask_for_its_assignment_is_out() -> None:
    groups = Consumers(assignment_interval_ms=0)
    groups.create("t", 2)
    groups.join("a", "t")
    joined = groups.classic_join("", "t", version=3)
    for _ in range(REBALANCE_MS // 5_000):
        assert joined.member_id in groups.group.members
        groups.pass_time(5_000)
        groups.beat("a", 2)
        if joined.member_id in groups.group.members:
            groups.classic_beat(joined.member_id, 3)
    assert list(groups.group.members) == ["a"]


def test_a_classic_member_that_asks_for_an_outdated_assignment_has_to_join_again() -> None:
    groups = Consumers(assignment_interval_ms=0)
    groups.create("t", 2)
    groups.join("a", "t")
    joined = groups.classic_join("", "t", version=3)
    groups.join("c", "t")
    assert groups.code(lambda: groups.classic_sync(joined.member_id, 3)) == "RebalanceInProgressError"
    assert groups.classic_join(joined.member_id, "t", owned={}).generation_id == 4
    assert groups.classic_sync(joined.member_id, 4) == {}


@pytest.mark.parametrize("request_name", ["join", "sync"])
def test_any_request_of_a_classic_member_begins_its_session_again(request_name: str) -> None:
    groups = mixed_group()
    groups.pass_time(9_999)
    if request_name == "join":
        groups.classic_join("c-new-1", "t", owned={"t": [0, 1]})
    else:
        groups.classic_sync("c-new-1", 2)
    groups.pass_time(9_999)
    assert "c-new-1" in groups.group.members
    groups.pass_time(1)
    assert "c-new-1" not in groups.group.members


@pytest.mark.parametrize(("version", "answered"), [(-1, 0), (0, 0), (1, 1), (2, 2), (3, 3), (4, 3)])
def test_an_assignment_has_the_version_of_the_subscription(version: int, answered: int) -> None:
    groups = Consumers()
    topic = groups.create("t", 1)
    subscription = version.to_bytes(2, "big", signed=True)
    told = classic_assignment({topic: {0}}, subscription, groups.topics)
    assert int.from_bytes(told[:2], "big") == answered
    assert decode_any_version(ConsumerProtocolAssignment, told).assigned_partitions[0].partitions == [0]


def test_the_session_of_a_classic_member_is_its_own() -> None:
    groups = mixed_group()
    groups.pass_time(10_000)
    assert list(groups.group.members) == ["b"]
