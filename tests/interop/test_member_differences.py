"""The same requests of group members to Apache Kafka and to refbroker: what is answered, in which version, and what is
written to `__consumer_offsets`.

Ids of members are random at both, and are compared by when they were given out. A difference is a bug in refbroker;
none is known, except that refbroker makes the topic before it answers FindCoordinator, and Kafka after.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kclient.protocol.log_records import decode_key, decode_versioned
from kclient.protocol.messages.describe_groups import DescribeGroupsRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.records.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from kclient.protocol.messages.sync_group import SyncGroupRequest
from tests.interop.plays import Pending, Play, two_brokers
from tests.support.waiting import wait_until
from tests.support.wire import Wire

SETTINGS = {"group.initial.rebalance.delay.ms": "500", "group.max.size": "4", "offsets.topic.num.partitions": "4"}
REBALANCING = 27


class MemberPlay(Play):
    """Members of a classic group at one broker."""

    def reported(self, answer: Any) -> str:
        if isinstance(answer, JoinGroupResponse):
            # Kafka has them in the order of their hashes.
            answer.members.sort(key=lambda member: self.named(member.member_id))
        return super().reported(answer)

    # Requests

    def join_request(
        self, member: str = "", protocols: tuple[str, ...] = ("range",), **fields: Any
    ) -> JoinGroupRequest:
        one = JoinGroupRequest.JoinGroupRequestProtocol
        given: dict[str, Any] = {
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [one(name=name, metadata=bytes(10)) for name in protocols],
        }
        return JoinGroupRequest(group_id=self.group, member_id=member, **(given | fields))

    def join(self, member: str = "", version: int = 9, **fields: Any) -> Any:
        return self.end(self.begin(self.join_request(member, **fields), version))

    def begin_join(self, member: str = "", **fields: Any) -> Pending:
        return self.begin(self.join_request(member, **fields), 9)

    def begin_joins(self, *members: tuple[str, ...]) -> list[Pending]:
        """New members with these protocols join, in this order.

        A new group waits for more of them for some time only: all have their ids and connections before.
        """
        requests = [self.join_request(self.join(protocols=each).member_id, protocols=each) for each in members]
        joining = [self.prepare(request, 9) for request in requests]
        for number, each in enumerate(joining, 1):
            each.send()
            wait_until(lambda number=number: len(self._members()) == number)  # type: ignore[misc]
        return joining

    def _members(self) -> list[Any]:
        """Those that have joined, as the group is described."""
        members: list[Any] = self._main.ask(DescribeGroupsRequest(groups=[self.group]), 5).groups[0].members
        return members

    def sync_request(self, member: str, generation: int, *assigned: str, **fields: Any) -> SyncGroupRequest:
        one = SyncGroupRequest.SyncGroupRequestAssignment
        given: dict[str, Any] = {
            "assignments": [one(member_id=each, assignment=bytes(10)) for each in assigned],
            "protocol_type": "consumer",
            "protocol_name": "range",
        }
        return SyncGroupRequest(group_id=self.group, generation_id=generation, member_id=member, **(given | fields))

    def sync(self, member: str, generation: int, *assigned: str, version: int = 5, **fields: Any) -> Any:
        return self.end(self.begin(self.sync_request(member, generation, *assigned, **fields), version))

    def heartbeat_request(self, member: str, generation: int, **fields: Any) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self.group, member_id=member, generation_id=generation, **fields)

    def heartbeat(self, member: str, generation: int, version: int = 4, **fields: Any) -> Any:
        return self.ask(self.heartbeat_request(member, generation, **fields), version)

    def wait_for_rebalance(self, member: str, generation: int) -> None:
        """Wait until a member of the generation has to rejoin."""
        beat = self.heartbeat_request(member, generation)
        wait_until(lambda: self._main.ask(beat, 4).error_code == REBALANCING)

    def leave(self, *members: tuple[str, str | None], version: int = 5) -> Any:
        if version < 3:
            return self.ask(LeaveGroupRequest(group_id=self.group, member_id=members[0][0]), version)
        one = LeaveGroupRequest.MemberIdentity
        identities = [one(member_id=member, group_instance_id=instance) for member, instance in members]
        return self.ask(LeaveGroupRequest(group_id=self.group, members=identities), version)

    def written(self) -> list[tuple[int, str]]:
        """What is in the log about the group, without the times: versions and values."""
        records = []
        for key, data in self.log():
            if decode_key(key) != GroupMetadataKey(group=self.group):
                continue
            assert data is not None
            value = decode_versioned(GroupMetadataValue, data)
            assert value.current_state_timestamp > 0
            value.current_state_timestamp = 0
            value.members.sort(key=lambda member: self.named(member.member_id))
            records.append((struct.unpack_from(">h", data)[0], self.named(str(value))))
        return records


def _membership(play: MemberPlay) -> None:
    """Two members come, work, and go."""
    first, second = play.begin_joins(("range",), ("range",))
    led, followed = play.end(first), play.end(second)
    leader, follower = (led, followed) if led.leader == led.member_id else (followed, led)
    waiting = play.begin(play.sync_request(follower.member_id, 1), 5)
    play.sync(leader.member_id, 1, leader.member_id, follower.member_id)
    play.end(waiting)
    for generation in (0, 1, 2):
        play.heartbeat(follower.member_id, generation)
    play.heartbeat("stranger", 1)
    play.sync(follower.member_id, 1)
    play.sync(follower.member_id, 1, protocol_name="other")
    play.join(follower.member_id)
    play.join(follower.member_id, protocol_type="connect")
    play.join("stranger")
    leads_again = play.begin_join(leader.member_id)
    play.wait_for_rebalance(follower.member_id, 1)
    play.sync(follower.member_id, 1)
    follows_again = play.begin_join(follower.member_id)
    play.end(leads_again)
    play.end(follows_again)
    play.join(follower.member_id)
    play.sync(leader.member_id, 2, leader.member_id)
    play.sync(follower.member_id, 2)
    play.leave((follower.member_id, None), ("stranger", None))
    play.heartbeat(leader.member_id, 2)
    play.leave((leader.member_id, None))
    play.heartbeat(leader.member_id, 2)
    play.join(leader.member_id)


def _static_members(play: MemberPlay) -> None:
    """Static members come back, are fenced, and are removed by name."""
    first = play.join(group_instance_id="one")
    play.sync(first.member_id, 1, first.member_id, group_instance_id="one")
    second = play.begin_join(group_instance_id="two")
    play.wait_for_rebalance(first.member_id, 1)
    led = play.end(play.begin_join(first.member_id, group_instance_id="one"))
    followed = play.end(second)
    play.sync(led.member_id, 2, led.member_id, followed.member_id, group_instance_id="one")
    play.sync(followed.member_id, 2, group_instance_id="two")
    back = play.join(group_instance_id="two")
    play.heartbeat(followed.member_id, 2, group_instance_id="two")
    play.join(followed.member_id, group_instance_id="two")
    play.join(followed.member_id, 5, group_instance_id="two")
    play.sync(followed.member_id, 2, group_instance_id="two")
    play.sync(back.member_id, 2, group_instance_id="two")
    leader = play.join(group_instance_id="one")
    assert leader.skip_assignment
    play.join(leader.member_id, group_instance_id="nobody")
    play.join(group_instance_id="one", version=8)
    play.leave(("", "two"), ("", "nobody"), ("wrong", "one"))


def _refusals(play: MemberPlay) -> None:
    """What is refused before or without a group."""
    play.heartbeat("m", 1)
    play.sync("m", 1)
    play.leave(("m", "i"))
    play.leave(("m", None), version=2)
    play.join("m")
    for timeout in (0, 5_999, 1_800_001):
        play.join(session_timeout_ms=timeout)
    play.join(protocol_type="")
    play.join(protocols=())
    play.sync("m", 1, protocol_type=None)
    play.ask(JoinGroupRequest(session_timeout_ms=6_000, member_id="m"), 9)
    play.ask(SyncGroupRequest(protocol_type="", protocol_name=""), 5)
    play.ask(HeartbeatRequest(), 4)
    play.ask(LeaveGroupRequest(members=[LeaveGroupRequest.MemberIdentity()]), 5)


def _old_versions(play: MemberPlay) -> None:
    """A member with the oldest versions, and the errors after it has left."""
    for version in range(4):
        member = play.join(version=version)
        play.sync(member.member_id, member.generation_id, member.member_id, version=version)
        play.heartbeat(member.member_id, member.generation_id, version=version)
        for _ in range(2):
            play.leave((member.member_id, None), version=min(version, 2))


def _size(play: MemberPlay) -> None:
    """One more than the group may have."""
    joining = play.begin_joins(*[("range",)] * 4)
    answers = {answer.member_id: answer for answer in map(play.end, joining)}
    generation, leader = next((one.generation_id, one.leader) for one in answers.values())
    play.sync(leader, generation, *answers)
    for member in answers:
        play.sync(member, generation)
    play.join()
    play.join(version=3)


def _votes(play: MemberPlay) -> None:
    """Members that prefer different protocols, and one that has none in common."""
    joining = play.begin_joins(("a", "b", "c"), ("c", "b"), ("b", "c", "d"))
    for each in joining:
        play.end(each)
    play.join(protocols=("d", "e"))


SCENES = {
    "membership": _membership,
    "static members": _static_members,
    "refusals": _refusals,
    "old versions": _old_versions,
    "size": _size,
    "votes": _votes,
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Apache Kafka and refbroker with the same settings, both with the topic of groups."""
    with two_brokers(tmp_path_factory.mktemp("member-differences"), SETTINGS) as both:
        yield both


@pytest.mark.parametrize("scene", SCENES)
def test_members_are_answered_alike(brokers: tuple[str, str], scene: str) -> None:
    seen = []
    for bootstrap_servers in brokers:
        with ExitStack() as stack:
            play = MemberPlay(bootstrap_servers, f"group {scene}", stack)
            SCENES[scene](play)
            seen.append((play.answers, play.written()))
    kafka, refbroker = seen
    assert refbroker[0] == kafka[0]
    assert refbroker[1] == kafka[1]


def test_coordinators_are_named_alike(brokers: tuple[str, str]) -> None:
    seen = []
    for bootstrap_servers in brokers:
        port = int(bootstrap_servers.rpartition(":")[2])
        with Wire(bootstrap_servers) as wire:
            answers: list[Any] = [wire.ask(FindCoordinatorRequest(key="g"), version) for version in range(4)]
            for version in range(4, 7):
                answers += wire.ask(FindCoordinatorRequest(coordinator_keys=["g", "", "h"]), version).coordinators
        assert {answer.port for answer in answers} == {port}
        for answer in answers:
            answer.port, answer.host = 0, ""
        seen.append([str(answer) for answer in answers])
    assert seen[0] == seen[1]
