"""The leader: what it makes of the members' metadata, and what it lets no assignor do."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from kclient.assignors import COOPERATIVE, Assignment, Assignor, CooperativeStickyAssignor, Member, Racks, RangeAssignor
from kclient.assignors.base import NO_RACKS
from kclient.consumer.group.classic.leader import Division, partition_counts
from kclient.consumer.group.classic.protocol import GroupSubscription, decode_assignment, encode_subscription
from kclient.consumer.group.events import JoinedMember
from kclient.errors import IllegalStateError, LeaderNotAvailableError, ProtocolError, UnknownTopicOrPartitionError
from kclient.net.cluster import Cluster, TopicInfo
from kclient.types import Node, PartitionInfo, TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def cluster(**topics: int) -> Cluster:
    infos = {}
    for name, count in topics.items():
        partitions = tuple(PartitionInfo(name, n, 1 + n % 2, 0, (1 + n % 2,), (1 + n % 2,)) for n in range(count))
        infos[name] = TopicInfo(name, uuid.UUID(int=1), partitions, False, None)
    brokers = {1: Node(1, "h", 1, "north"), 2: Node(2, "h", 2, "south")}
    return Cluster(1, "c", None, brokers, infos)


def member(name: str, *topics: str, instance_id: str | None = None, **told: object) -> JoinedMember:
    return JoinedMember(name, instance_id, encode_subscription(GroupSubscription(topics, **told)))  # type: ignore[arg-type]


class Scripted(Assignor):
    """Gives what a test says, and keeps what it was asked."""

    name = "scripted"
    protocols = (COOPERATIVE,)

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.asked: tuple[Mapping[str, int], Mapping[str, Member], Racks] | None = None

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        self.asked = partitions, members, racks
        return self.assignment


def test_every_member_receives_its_share_also_when_it_has_none() -> None:
    division = Division([member("a", "t"), member("b", "t"), member("c", "missing")])
    assert division.topics == {"t", "missing"}
    told = division.divide(RangeAssignor(), cluster(t=3), cooperative=False)
    assert {name: decode_assignment(data) for name, data in told.items()} == {"a": [T0, T1], "b": [T2], "c": []}


def test_the_assignor_gets_user_data_and_existing_topics_only() -> None:
    scripted = Scripted({})
    told = member("a", "t", "gone", instance_id="i", owned=[T1], generation=3, rack="north", user_data=b"u")
    Division([told]).divide(scripted, cluster(t=2, other=4), cooperative=True)
    assert scripted.asked is not None
    partitions, members, racks = scripted.asked
    assert partitions == {"t": 2}
    assert members == {"a": Member(("gone", "t"), (T1,), 3, "i", "north", b"u")}
    assert racks == {T0: frozenset({"north"}), T1: frozenset({"south"})}
    Division([member("a", "t")]).divide(scripted, cluster(t=2), cooperative=True)
    assert scripted.asked[2] == {}  # nobody has said where it is


def test_partitions_may_go_to_several_members_and_not_to_strangers() -> None:
    division = Division([member("a", "t"), member("b", "t")])
    told = division.divide(Scripted({"a": [T0], "b": [T0]}), cluster(t=1), cooperative=True)
    assert [decode_assignment(data) for data in told.values()] == [[T0], [T0]]
    with pytest.raises(IllegalStateError, match="'scripted' gave partitions to z, which is not a member"):
        division.divide(Scripted({"z": [T0]}), cluster(t=1), cooperative=True)


def test_cooperative_assignor_must_leave_what_moves_to_nobody() -> None:
    division = Division([member("a", "t", owned=[T0, T1]), member("b", "t")])
    with pytest.raises(IllegalStateError, match="assigned t-1 while another member still reads it"):
        division.divide(Scripted({"a": [T0], "b": [T1]}), cluster(t=2), cooperative=True)
    division.divide(Scripted({"a": [T0]}), cluster(t=2), cooperative=True)
    # Members of an eager group have given up everything; what they say they own means nothing.
    division.divide(Scripted({"a": [T0], "b": [T1]}), cluster(t=2), cooperative=False)


def test_claim_that_is_out_of_date_does_not_stop_cooperative_sticky() -> None:
    division = Division([member("a", "t", owned=[T0], generation=1), member("b", "t", owned=[T0, T1], generation=2)])
    told = division.divide(CooperativeStickyAssignor(), cluster(t=2), cooperative=True)
    assert len(decode_assignment(told["b"])) >= 1


def test_metadata_that_is_no_subscription_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        Division([JoinedMember("a", None, b"\x00")])


def test_counts_distinguish_deleted_topics_from_those_with_errors() -> None:
    known = cluster(t=3)
    known.topics["gone"] = TopicInfo("gone", uuid.UUID(int=2), (), False, UnknownTopicOrPartitionError())
    known.topics["ill"] = TopicInfo("ill", uuid.UUID(int=3), (), False, LeaderNotAvailableError())
    before = {"t": 1, "gone": 4, "ill": 5, "never": 0}
    assert partition_counts(known, before, before) == {"t": 3, "gone": 0, "ill": 5, "never": 0}
