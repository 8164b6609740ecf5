"""Group membership over the broker: FindCoordinator, JoinGroup, SyncGroup, Heartbeat and LeaveGroup in all versions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kclient.protocol.messages.create_partitions import CreatePartitionsRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest
from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.handlers.answers import host_of
from refbroker.testing.control.elections import elect
from tests.support.broker_harness import Harness

TOPIC = "__consumer_offsets"
SESSION_MS = 10_000
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, ILLEGAL_GENERATION, INCONSISTENT, INVALID_GROUP = 14, 15, 16, 22, 23, 24
UNKNOWN_MEMBER, INVALID_SESSION, REBALANCING, INVALID_REQUEST = 25, 26, 27, 42


@pytest_asyncio.fixture
async def groups(tmp_path: Path) -> AsyncIterator[Harness]:
    """A broker with `__consumer_offsets`, whose groups do not wait for more members."""
    harness = Harness(tmp_path / "data", offsets_topic_num_partitions="3", group_initial_rebalance_delay_ms="0")
    harness.send(FindCoordinatorRequest(key="g"), 0)
    yield harness
    harness.close()


def join_request(member_id: str = "", group: str = "g", **fields: Any) -> JoinGroupRequest:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\3")
    timeout = fields.pop("session_timeout_ms", SESSION_MS)
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=timeout,
        protocol_type="consumer",
        protocols=[protocol],
        **fields,
    )


async def become_member(harness: Harness, version: int = 9) -> tuple[str, int]:
    """Join alone, and give the member's id and the generation."""
    answer = await harness.send(join_request(), version)
    if answer.error_code == 79:
        answer = await harness.send(join_request(answer.member_id), version)
    assert answer.error_code == 0
    return answer.member_id, answer.generation_id


async def assign(harness: Harness, member: str, generation: int, version: int = 5) -> bytes:
    """Sync as the leader and only member."""
    request = SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=member,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"all")],
    )
    answer = await harness.send(request, version)
    assert answer.error_code == 0
    return bytes(answer.assignment)


def heartbeat(harness: Harness, member: str, generation: int, version: int = 4) -> int:
    request = HeartbeatRequest(group_id="g", member_id=member, generation_id=generation)
    return int(harness.send(request, version).error_code)


# FindCoordinator


async def test_the_first_who_asks_for_a_coordinator_has_the_topic_made(harness: Harness) -> None:
    assert TOPIC not in harness.broker.metadata.image.topics
    answer = harness.send(FindCoordinatorRequest(coordinator_keys=["a", "b"]), 6)
    assert [(one.key, one.error_code, one.error_message) for one in answer.coordinators] == [("a", 0, ""), ("b", 0, "")]
    assert {(one.node_id, one.host, one.port) for one in answer.coordinators} == {(1, "127.0.0.1", 9092)}
    topic = harness.broker.metadata.image.topics[TOPIC]
    assert len(topic.partitions) == 50
    assert topic.partitions[0].replicas == [1]
    assert harness.broker.metadata.image.config(2, TOPIC) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


@pytest.mark.parametrize("version", range(7))
async def test_find_coordinator_in_each_version(harness: Harness, version: int) -> None:
    if version < 4:
        answer = harness.send(FindCoordinatorRequest(key="g"), version)
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "127.0.0.1", 9092)
        assert answer.error_message == ("NONE" if version else "")
    else:
        [answer] = harness.send(FindCoordinatorRequest(coordinator_keys=["g"]), version).coordinators
        assert (answer.key, answer.error_code, answer.node_id, answer.port) == ("g", 0, 1, 9092)


async def test_more_partitions_do_not_move_the_groups_that_there_are(groups: Harness) -> None:
    member, generation = await become_member(groups)
    await assign(groups, member, generation)
    more = CreatePartitionsRequest.CreatePartitionsTopic(name=TOPIC, count=16, assignments=None)
    answer = groups.send(CreatePartitionsRequest(topics=[more], timeout_ms=1000), 3)
    assert answer.results[0].error_code == 0
    assert groups.broker.groups.runtime.partitions() == list(range(16))
    assert heartbeat(groups, member, generation) == 0


async def test_kinds_of_coordinators_that_do_not_exist(harness: Harness) -> None:
    codes = {}
    for kind, version in ((2, 6), (2, 5), (3, 6), (-1, 6)):
        [answer] = harness.send(FindCoordinatorRequest(key_type=kind, coordinator_keys=["k"]), version).coordinators
        codes[kind, version] = answer.error_code
    assert codes == {
        (2, 6): NOT_AVAILABLE,
        (2, 5): INVALID_REQUEST,
        (3, 6): INVALID_REQUEST,
        (-1, 6): INVALID_REQUEST,
    }
    assert TOPIC not in harness.broker.metadata.image.topics


# What is refused before the group is looked at


async def test_a_group_needs_an_id(groups: Harness) -> None:
    synced = SyncGroupRequest(group_id="", protocol_type="consumer", protocol_name="range")
    joined = await groups.send(join_request("m", ""), 9)
    for answer in (
        joined,
        groups.send(synced, 5),
        groups.send(HeartbeatRequest(group_id=""), 4),
        groups.send(LeaveGroupRequest(group_id="", members=[LeaveGroupRequest.MemberIdentity()]), 5),
    ):
        assert answer.error_code == INVALID_GROUP
    assert joined.member_id == "m"


async def test_a_session_is_no_shorter_and_no_longer_than_the_broker_allows(groups: Harness) -> None:
    for timeout, code in ((5_999, INVALID_SESSION), (6_000, 79), (1_800_000, 79), (1_800_001, INVALID_SESSION)):
        answer = await groups.send(join_request(session_timeout_ms=timeout), 9)
        assert answer.error_code == code, timeout


async def test_since_version_5_a_member_says_what_protocol_it_syncs_for(groups: Harness) -> None:
    member, generation = await become_member(groups)
    without = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member)
    assert groups.send(without, 5).error_code == INCONSISTENT
    assert (await groups.send(without, 4)).error_code == 0


async def test_without_the_topic_this_broker_is_nobodys_coordinator(harness: Harness) -> None:
    assert (await harness.send(join_request(), 9)).error_code == NOT_COORDINATOR
    assert heartbeat(harness, "m", 1) == NOT_COORDINATOR


# Membership


@pytest.mark.parametrize("version", range(10))
async def test_a_membership_in_each_version(groups: Harness, version: int) -> None:
    member, generation = await become_member(groups, version)
    assert (member.startswith("harness-"), generation) == (True, 1)
    assert await assign(groups, member, generation, min(version, 5)) == b"all"
    assert heartbeat(groups, member, generation, min(version, 4)) == 0
    if version < 3:
        leave = LeaveGroupRequest(group_id="g", member_id=member)
        assert [groups.send(leave, version).error_code for _ in range(2)] == [0, UNKNOWN_MEMBER]
    else:
        leave = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id=member)])
        answers = [groups.send(leave, min(version, 5)) for _ in range(2)]
        assert [(one.error_code, one.members[0].error_code) for one in answers] == [(0, 0), (0, UNKNOWN_MEMBER)]
    assert groups.broker.groups.shard("g").groups["g"].state is GroupState.EMPTY


async def test_members_of_groups_that_are_not_do_not_exist_known(groups: Harness) -> None:
    member = LeaveGroupRequest.MemberIdentity(member_id="m", group_instance_id="i")
    answer = groups.send(LeaveGroupRequest(group_id="none", members=[member]), 5)
    assert (answer.error_code, answer.members[0].error_code) == (0, UNKNOWN_MEMBER)
    assert (answer.members[0].member_id, answer.members[0].group_instance_id) == ("m", "i")
    assert groups.send(LeaveGroupRequest(group_id="none", member_id="m"), 2).error_code == UNKNOWN_MEMBER
    assert (await groups.send(join_request("m", "none"), 9)).error_code == UNKNOWN_MEMBER
    assert "none" not in groups.broker.groups.shard("none").groups


async def test_answers_of_old_versions_have_no_null_where_there_was_none(groups: Harness) -> None:
    [static] = [await groups.send(join_request(group_instance_id="i"), 5)]
    fenced = await groups.send(join_request("other", group_instance_id="i"), 5)
    assert (static.error_code, fenced.error_code, fenced.protocol_name) == (0, 82, "")


async def test_a_client_that_goes_away_while_it_waits_leaves_the_group_as_it_is(groups: Harness) -> None:
    member, generation = await become_member(groups)
    await assign(groups, member, generation)
    told = await groups.send(join_request(), 9)
    waiting = groups.send(join_request(told.member_id), 9)
    await asyncio.sleep(0)
    waiting.cancel()
    assert heartbeat(groups, member, generation) == REBALANCING
    rejoined = await groups.send(join_request(member), 9)
    assert (rejoined.error_code, rejoined.generation_id, len(rejoined.members)) == (0, 2, 2)


def test_addresses_are_written_as_java_does() -> None:
    assert host_of("127.0.0.1:9092") == "/127.0.0.1"
    assert host_of("::1:9092") == "/0:0:0:0:0:0:0:1"
    assert host_of("::ffff:127.0.0.1:9092") == "/127.0.0.1"
    assert host_of("test") == "/test"


# Restarts


@pytest.mark.parametrize("clean", [True, False], ids=["restart", "kill"])
async def test_members_continue_after_a_restart(groups: Harness, clean: bool) -> None:
    member, generation = await become_member(groups)
    await assign(groups, member, generation)
    groups.restart(clean=clean)
    await groups.loaded()
    assert heartbeat(groups, member, generation) == 0
    assert await assign(groups, member, generation) == b"all"
    groups.clock.step(SESSION_MS - 1)
    assert heartbeat(groups, member, generation) == 0
    groups.clock.step(SESSION_MS)
    await asyncio.sleep(0)
    assert heartbeat(groups, member, generation) == UNKNOWN_MEMBER


async def test_a_generation_without_assignment_is_not_there_after_a_restart(groups: Harness) -> None:
    member, generation = await become_member(groups)
    await assign(groups, member, generation)
    assert (await groups.send(join_request(member), 9)).generation_id == 2
    groups.restart(clean=False)
    await groups.loaded()
    assert heartbeat(groups, member, 2) == ILLEGAL_GENERATION
    assert heartbeat(groups, member, 1) == 0


async def test_while_a_group_is_loaded_members_are_asked_to_wait_and_heartbeats_are_fine(groups: Harness) -> None:
    member, generation = await become_member(groups)
    await assign(groups, member, generation)
    groups.restart()
    assert heartbeat(groups, member, 17) == 0
    # Nothing is awaited until all requests are handled: the log is loaded with the next turns of the event loop.
    joining = groups.send(join_request(member), 9)
    leave = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id=member)])
    assert groups.send(leave, 5).error_code == LOADING
    assert (await joining).error_code == LOADING
    await groups.loaded()
    assert heartbeat(groups, member, 17) == ILLEGAL_GENERATION


async def test_who_waits_when_the_leader_of_the_partition_changes_has_to_find_it(groups: Harness) -> None:
    member, generation = await become_member(groups)
    await assign(groups, member, generation)
    told = await groups.send(join_request(), 9)
    waiting = groups.send(join_request(told.member_id), 9)
    elect(groups.broker, TOPIC, groups.broker.groups.topic.partition_for("g"))
    assert (await waiting).error_code == NOT_COORDINATOR
    await groups.loaded()
    assert heartbeat(groups, member, generation) == 0
    assert heartbeat(groups, told.member_id, generation) == UNKNOWN_MEMBER


async def test_a_group_that_cannot_be_stored_is_refused_as_coordinators_do(groups: Harness) -> None:
    log = groups.broker.logs.get(TOPIC, groups.broker.groups.topic.partition_for("g"))
    assert log is not None
    before = log.log_end_offset
    groups.broker.image.partition(TOPIC, log.partition).isr = []  # type: ignore[union-attr]
    answer = await groups.send(join_request(), 3)
    assert (answer.error_code, log.log_end_offset) == (NOT_AVAILABLE, before)
    assert "g" not in groups.broker.groups.shard("g").groups
