"""The same requests about consumer groups (KIP-848) to Apache Kafka and to refbroker: what is answered, and what is
written to `__consumer_offsets`, when members come and go in order and when they are refused.

A difference is a bug in refbroker unless it is explained here:

- What is wrong with a regular expression is reported by RE2 in its own words, which are others in C++ and in Java.
- A JoinGroup of a member that is unknown has Kafka forget an empty consumer group, without a record that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kclient.protocol.consumer_protocol import ConsumerProtocolAssignment
from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest
from kclient.protocol.messages.describe_groups import DescribeGroupsRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from tests.interop.consumer_play import TOPICS, ConsumerPlay, T, U
from tests.interop.plays import two_brokers
from tests.support.waiting import wait_until

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.max.size": "4",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "4",
    "broker.rack": "rack1",
}
DOWNGRADE = 2


def _refusals(play: ConsumerPlay) -> None:
    """What is refused before or without a group."""
    for version in (0, 1):
        for epoch in (0, 1, -1, -2):
            play.beat("", epoch, version=version)
        play.beat("", 0, {}, version=version, rebalance_timeout_ms=1, subscribed_topic_names=[], group_id="")
        for fields in ({"group_id": ""}, {"instance_id": ""}, {"rack_id": ""}, {"server_assignor": "nope"}):
            play.join("m", T, version=version, **fields)
        play.join("m", T, version=version, rebalance_timeout_ms=-1)
        play.join("m", T, version=version, topic_partitions=None)
        play.beat("m", 0, {T: [0]}, version=version, rebalance_timeout_ms=1, subscribed_topic_names=[T])
        play.beat("m", 0, {}, version=version, rebalance_timeout_ms=1)
        for epoch in (1, -1, -2, -3):
            play.beat("m", epoch, version=version)
        play.beat("m", -2, version=version, instance_id="i")
        play.beat("m", 7, version=version, server_assignor="nope")
    play.join("m", subscribed_topic_regex="(")
    play.describe()
    play.describe("", "play-nobody", "play-nobody")


def _membership(play: ConsumerPlay) -> None:
    """Two members come, work, and go."""
    play.join("a", T)
    play.describe()
    play.join("b", T, rack_id="rack1")
    play.describe()
    play.beat("a", 2, {T: [0, 1, 2, 3]})
    play.beat("a", 2)
    play.beat("a", 2, {T: [0, 1]})
    play.describe(version=0)
    play.beat("b", 3, {})
    play.beat("b", 3, {T: [2, 3]})
    play.describe()
    play.beat("a", 4)
    play.beat("a", 2, {T: [0, 1]})
    play.beat("a", 2, {T: [0, 3]})
    play.beat("a", 2)
    play.beat("stranger", 3)
    play.beat("a", 3, {T: [0, 1]}, rebalance_timeout_ms=60_000, subscribed_topic_names=[T])
    play.beat("a", 3, rebalance_timeout_ms=70_000)
    play.join("a", T)
    play.beat("b", -1)
    play.beat("b", 3)
    play.beat("b", -1)
    play.beat("a", 3)
    play.beat("a", -1, instance_id="i")
    play.beat("a", -1)
    play.describe()
    play.beat("a", 4)
    play.join("c", T)


def _static_members(play: ConsumerPlay) -> None:
    """Static members leave temporarily, return, are fenced, and leave permanently."""
    play.join("a", T, instance_id="one")
    play.join("b", T, instance_id="two")
    play.beat("a", 2, {T: [0, 1]}, instance_id="one")
    play.beat("b", 3, {}, instance_id="two")
    play.join("c", T, instance_id="two")
    play.join("b", T, instance_id="two")
    play.beat("b", 3, instance_id="nobody")
    play.beat("c", 3, instance_id="two")
    play.beat("c", -2, instance_id="two")
    play.beat("b", -2, instance_id="two")
    play.beat("b", -2, instance_id="two")
    play.describe()
    play.beat("b", 3, instance_id="two")
    play.join("c", T, instance_id="two")
    play.beat("b", 3, instance_id="two")
    play.beat("b", -1, instance_id="two")
    play.beat("c", -2, instance_id="two")
    play.join("d", T, U, instance_id="two")
    play.describe()
    play.beat("d", -1, instance_id="two")
    play.beat("d", -1, instance_id="two")
    play.beat("a", 3, {T: [0, 1]}, instance_id="one")
    play.leave(("", "one"), ("", "two"), ("wrong", "one"))
    play.describe()


def _subscriptions(play: ConsumerPlay) -> None:
    """Subscriptions and assignors change; some topics are missing, some members want none."""
    play.join("a", T, "play-missing")
    play.beat("a", 2, subscribed_topic_names=[T, U])
    play.beat("a", 3, subscribed_topic_names=[U])
    play.beat("a", 3, {U: [0, 1], T: [0]})
    play.beat("a", 3, {U: [0, 1]})
    play.beat("a", 4, server_assignor="range")
    play.join("b", U, server_assignor="uniform")
    play.describe()
    play.join("c", server_assignor="range")
    play.describe()
    play.beat("a", 4, {U: [0]})
    play.beat("a", 5, subscribed_topic_names=[])
    play.beat("a", 6, {})
    play.describe()
    play.beat("b", 5, {})
    play.beat("b", 7, subscribed_topic_names=[T], server_assignor="nope")
    play.beat("b", 7, rack_id="elsewhere")
    play.describe()


def _patterns(play: ConsumerPlay) -> None:
    """Regular expressions come, are shared, changed, and given up."""
    play.join("a", subscribed_topic_regex="play-[t]")
    play.wait_for_epoch("a", 1)
    play.describe()
    play.join("b", subscribed_topic_regex="play-[t]")
    play.join("c", subscribed_topic_regex="*")
    play.beat("a", 2, subscribed_topic_regex="[")
    play.beat("a", 2, {})
    play.beat("b", 3)
    play.describe()
    play.beat("b", 3, subscribed_topic_regex="")
    play.beat("b", 3, {}, subscribed_topic_names=[T], subscribed_topic_regex="play-[t]")
    play.beat("a", 5, {})
    play.beat("a", -1)
    play.beat("b", -1)
    play.describe()


def _size(play: ConsumerPlay) -> None:
    """One more than the group may have."""
    for member in "abcd":
        play.join(member, T)
    play.join("e", T)
    play.join("", T, version=0)
    play.join("a", T)
    play.beat("e", 4)
    play.classic_join("", T)
    play.classic_join("", T, group_instance_id="i")
    play.beat("e", -1)


def _old_version(play: ConsumerPlay) -> None:
    """Version 0, where the broker makes the ids of members."""
    member = play.join("", T, version=0).member_id
    play.beat(member, 1, version=0)
    play.beat(member, -1, version=0)
    play.beat("", 0, {}, version=0, rebalance_timeout_ms=5, subscribed_topic_names=[T], instance_id="i")


def _kinds(play: ConsumerPlay) -> None:
    """Requests about a group of the other kind, and what happens to an empty one."""
    member = play.classic_member(protocol_type="connect")
    joined = play.classic_join(member, protocol_type="connect")
    play.sync(member, joined.generation_id, protocol_type="connect", assignment=b"all")
    play.join("a", T)
    for epoch in (1, -1):
        play.beat("a", epoch)
    play.beat("a", -2, instance_id="i")
    play.describe()
    play.leave((member, None))
    play.beat("a", 1)
    play.join("a", T)
    play.ask(DescribeGroupsRequest(groups=[play.group]), 5)
    play.ask(DescribeGroupsRequest(groups=[play.group]), 6)
    play.ask(DeleteGroupsRequest(groups_names=[play.group]), 2)
    play.beat("a", -1)
    play.sync("m", 1)
    play.classic_beat("m", 1)
    play.leave(("m", None))
    member = play.classic_member(T)
    play.classic_join(member, T)
    play.describe()


def _custom_assignors(play: ConsumerPlay) -> None:
    """A classic group stays one when its members' bytes cannot be kept or read."""
    member = play.classic_member(T)
    joined = play.classic_join(member, T)
    one = ConsumerProtocolAssignment.TopicPartition
    assignment = ConsumerProtocolAssignment([one(T, [0, 1, 2, 3])], user_data=b"mine")
    play.sync(member, joined.generation_id, assignment=encode_versioned(assignment, 1))
    play.join("a", T)
    play.leave((member, None))
    bad = JoinGroupRequest.JoinGroupRequestProtocol("range", b"\0")
    member = play.classic_member(protocols=[bad])
    joined = play.classic_join(member, protocols=[bad])
    play.sync(member, joined.generation_id, assignment=b"all")
    play.join("a", T)
    play.leave((member, None))


def _upgrade(play: ConsumerPlay) -> None:
    """A member of the consumer protocol comes to a classic group, and goes."""
    member = play.classic_member(T)
    joined = play.classic_join(member, T)
    one = ConsumerProtocolAssignment.TopicPartition
    assignment = ConsumerProtocolAssignment([one(T, [0, 1, 2, 3])])
    play.sync(member, joined.generation_id, assignment=encode_versioned(assignment, 1))
    play.join("a", T)
    play.describe()
    play.classic_beat(member, 1)
    play.classic_beat(member, 2)
    play.beat(member, 1)
    play.sync(member, 1)
    rejoined = play.classic_join(member, T, owned={T: [0, 1, 2, 3]})
    play.classic_beat(member, rejoined.generation_id)
    play.sync(member, rejoined.generation_id)
    play.sync(member, rejoined.generation_id, protocol_name="other")
    play.sync(member, rejoined.generation_id, protocol_type="connect")
    play.beat("a", 2, {})
    rejoined = play.classic_join(member, T, owned={T: [0, 1]})
    play.sync(member, rejoined.generation_id)
    play.classic_beat(member, rejoined.generation_id)
    play.beat("a", 2, {})
    play.describe()
    for request in (play.classic_beat, play.sync):
        request("a", 2)
        request("stranger", 2)
        request(member, 2, group_instance_id="nobody")
    play.classic_join(member, protocols=[JoinGroupRequest.JoinGroupRequestProtocol("other", b"")])
    play.classic_join(member, T, protocol_type="connect")
    play.classic_join("stranger", T, group_instance_id="nobody")
    play.commit(member, 2, version=8)
    play.commit(member, 3)
    play.beat("a", -1)
    play.classic_beat(member, 2)
    play.ask(DescribeGroupsRequest(groups=[play.group]), 5)


def _static_migration(play: ConsumerPlay) -> None:
    """A static member goes from one protocol to the other and back."""
    joined = play.classic_join("", T, group_instance_id="one")
    one = ConsumerProtocolAssignment.TopicPartition
    assignment = ConsumerProtocolAssignment([one(T, [0, 1, 2, 3])])
    play.sync(joined.member_id, 1, group_instance_id="one", assignment=encode_versioned(assignment, 1))
    play.join("a", T, instance_id="one")
    play.describe()
    play.classic_beat(joined.member_id, 1, group_instance_id="one")
    play.beat("a", 2, {T: [0, 1, 2, 3]}, instance_id="one")
    play.beat("a", -2, instance_id="one")
    back = play.classic_join("", T, group_instance_id="one")
    play.describe()
    play.sync(back.member_id, back.generation_id, group_instance_id="one")
    play.classic_beat(back.member_id, back.generation_id, group_instance_id="one")
    play.ask(DescribeGroupsRequest(groups=[play.group]), 5)


def _offsets(play: ConsumerPlay) -> None:
    """Members commit and read in their own epoch, in an older one, and as somebody else."""
    play.join("a", T)
    play.join("b", T)
    play.beat("a", 2, {T: [0, 1, 2, 3]})
    play.beat("a", 2, {T: [0, 1]})
    for version in (8, 9, 10):
        for epoch in (-1, 0, 1, 2, 3, 4):
            play.commit("a", epoch, version=version)
        play.commit("a", 3, 0, 3, version=version)
        play.commit("stranger", 3, version=version)
        play.commit("", -1, version=version)
    play.beat("b", 3, {})
    play.commit("b", 2, 0, 2)
    play.commit("b", 3, 0, 2)
    for member, epoch in (("a", 3), ("a", 2), ("a", 4), ("stranger", 3), (None, -1), ("", -1), ("a", -1)):
        play.fetch(member, epoch)
    play.fetch(None, -1, 8)
    play.delete_offsets(0, 3)
    play.beat("a", -1)
    play.beat("b", -1)
    play.commit("", -1)
    play.delete_offsets(0, 3)
    play.commit("a", 4)
    play.fetch("a", 3)


def _interval(play: ConsumerPlay) -> None:
    """A target stays for a while, and a later heartbeat makes the next one; groups have settings of their own."""
    epoch = play.join("a", T).member_epoch
    play.configure(consumer_assignment_interval_ms="3000", consumer_heartbeat_interval_ms="7000")
    play.wait_for_interval("a", epoch, 7000)
    play.beat("a", epoch)
    play.join("b", T)
    play.beat("a", 2, {T: [0, 1, 2, 3]})
    play.describe()
    play.wait_for_epoch("b", 2)
    play.beat("a", 2, {T: [0, 1, 2, 3]})
    play.configure(consumer_session_timeout_ms="1")
    play.configure(no_such_setting="1")


def _too_late(play: ConsumerPlay) -> None:
    """Members that do not give up their partitions, do not join again, or do not ask for their assignment are out."""
    play.join("a", T, rebalance_timeout_ms=300)
    play.join("b", T)
    play.beat("a", 2)
    play.wait_until_fenced("a", 2)
    play.beat("b", 3, {})
    play.describe()
    member = play.classic_member(T, rebalance_timeout_ms=300)
    joined = play.classic_join(member, T, rebalance_timeout_ms=300)
    play.wait_until_out(member, joined.generation_id)
    play.beat("b", 4, {T: [0, 1, 2, 3]})
    # This one asks for its assignment in time.
    member = play.classic_member(T, rebalance_timeout_ms=2000)
    joined = play.classic_join(member, T, rebalance_timeout_ms=2000)
    play.sync(member, joined.generation_id)
    play.beat("b", 6, {T: [0, 1, 2, 3]}, subscribed_topic_names=[U])
    play.classic_beat(member, joined.generation_id)
    play.wait_until_out(member, joined.generation_id)
    play.describe()


SCENES = {
    "refusals": _refusals,
    "membership": _membership,
    "static members": _static_members,
    "subscriptions": _subscriptions,
    "patterns": _patterns,
    "size": _size,
    "old version": _old_version,
    "kinds": _kinds,
    "custom assignors": _custom_assignors,
    "upgrade": _upgrade,
    "static migration": _static_migration,
    "offsets": _offsets,
    "interval": _interval,
    "too late": _too_late,
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Apache Kafka and refbroker with the same settings, both with the topics and the one of groups."""
    with two_brokers(tmp_path_factory.mktemp("consumer-group-differences"), SETTINGS) as both:
        for bootstrap_servers in both:
            with ExitStack() as stack:
                probe = ConsumerPlay(bootstrap_servers, "probe", stack)
                wait_until(lambda probe=probe: probe.join("a", *TOPICS).assignment.topic_partitions)  # type: ignore[misc]
        yield both


@pytest.mark.parametrize("scene", SCENES)
def test_consumer_groups_are_answered_alike(brokers: tuple[str, str], scene: str) -> None:
    kafka, refbroker = (_play(bootstrap_servers, scene, SCENES[scene]) for bootstrap_servers in brokers)
    for ours, theirs in zip(refbroker, kafka, strict=True):
        assert ours == theirs


def test_the_protocol_is_refused_alike_without_its_feature(brokers: tuple[str, str]) -> None:
    def without(play: ConsumerPlay) -> None:
        play.finalize(0, upgrade_type=DOWNGRADE)
        try:
            play.join("a", T)
            play.beat("a", -1)
            play.describe()
        finally:
            play.finalize(1)
        play.join("a", T)

    kafka, refbroker = (_play(bootstrap_servers, "without the feature", without) for bootstrap_servers in brokers)
    assert refbroker == kafka


def _play(bootstrap_servers: str, name: str, scene: Callable[[ConsumerPlay], None]) -> list[str]:
    """What was answered, and what is in the log then."""
    with ExitStack() as stack:
        play = ConsumerPlay(bootstrap_servers, f"group {name}", stack)
        scene(play)
        return play.answers + play.written()
