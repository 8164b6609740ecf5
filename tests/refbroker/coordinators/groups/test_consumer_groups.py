"""The consumer protocol on the broker: every check, every state of a member, and what of it survives a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kclient.errors import (
    FencedMemberEpochError,
    IllegalStateError,
    InvalidRequestError,
    StaleMemberEpochError,
    UnknownServerError,
    UnsupportedAssignorError,
)
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.records.consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
)
from refbroker.coordinators.groups.consumer.heartbeats import check_request
from refbroker.coordinators.groups.consumer.member import ConsumerMember
from refbroker.coordinators.groups.consumer.records import group_tombstones, replay
from refbroker.coordinators.groups.consumer.states import (
    STATES,
    ConsumerGroupState,
    MemberEvent,
    MemberState,
)
from tests.refbroker.coordinators.groups.consumers import GROUP, INTERVAL_MS, REBALANCE_MS, SESSION_MS, Consumers
from tests.support.typed import reread


def with_topic(partitions: int = 4, **settings: Any) -> Consumers:
    groups = Consumers(**settings)
    groups.create("t", partitions)
    return groups


def two_members(**settings: Any) -> Consumers:
    """Members a and b, two partitions each, in epoch 3."""
    groups = with_topic(**settings)
    groups.join("a", "t")
    groups.pass_time(INTERVAL_MS)
    groups.join("b", "t")
    assert groups.settle() == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}
    assert groups.group.state is ConsumerGroupState.STABLE
    return groups


# Joining and leaving


def test_the_first_member_gets_everything_in_its_first_answer() -> None:
    groups = with_topic()
    answer = groups.join("a", "t")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert [one.partitions for one in answer.assignment.topic_partitions] == [[0, 1, 2, 3]]
    assert groups.group.state is ConsumerGroupState.STABLE
    assert groups.beat("a", 2, {"t": [0, 1, 2, 3]}).assignment is None


def test_a_member_without_an_id_is_given_one_before_version_1() -> None:
    answer = with_topic().join("", "t", version=0)
    assert answer.member_id == "new-1"


def test_a_full_request_is_answered_with_the_assignment() -> None:
    groups = two_members()
    told = groups.beat("a", 3, {"t": [0, 1]}, subscribed_topic_names=["t"], rebalance_timeout_ms=1)
    assert told.assignment is not None
    assert groups.group.members["a"].rebalance_timeout_ms == 1


def test_a_partition_goes_to_the_next_member_only_when_the_former_has_given_it_up() -> None:
    groups = with_topic()
    groups.join("a", "t")
    groups.pass_time(INTERVAL_MS)
    second = groups.join("b", "t")
    assert (second.member_epoch, second.assignment.topic_partitions) == (3, [])
    assert groups.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    first = groups.beat("a", 2, {"t": [0, 1, 2, 3]})
    assert (first.member_epoch, first.assignment.topic_partitions[0].partitions) == (2, [0, 1])
    assert groups.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert groups.beat("b", 3, {}).assignment is None
    assert groups.beat("a", 2, {"t": [0, 1, 2]}).member_epoch == 2
    assert groups.group.state is ConsumerGroupState.RECONCILING
    assert groups.beat("a", 2, {"t": [0, 1]}).member_epoch == 3
    assert groups.beat("b", 3, {}).assignment.topic_partitions[0].partitions == [2, 3]
    assert reread(groups.group.state) is ConsumerGroupState.STABLE


def test_a_target_stays_for_the_interval_and_a_later_heartbeat_makes_the_next() -> None:
    groups = with_topic()
    groups.join("a", "t")
    assert groups.join("b", "t").member_epoch == 2
    assert (groups.group.epoch, groups.group.assignment_epoch) == (3, 2)
    assert groups.group.state is ConsumerGroupState.ASSIGNING
    groups.pass_time(INTERVAL_MS)
    groups.beat("b", 2, {})
    assert groups.group.assignment_epoch == 3
    at_once = with_topic(assignment_interval_ms=0)
    at_once.join("a", "t")
    assert at_once.join("b", "t").member_epoch == 3


def test_a_member_that_leaves_frees_its_partitions() -> None:
    groups = two_members()
    left = groups.leave("b")
    assert (left.member_id, left.member_epoch) == ("b", -1)
    assert groups.settle() == {"a": {"t": [0, 1, 2, 3]}}
    groups.leave("a")
    assert groups.group.state is ConsumerGroupState.EMPTY
    assert groups.code(lambda: groups.leave("a")) == "UnknownMemberIdError"
    assert not any("consumer" in name for name in groups.timers)


def test_a_group_has_no_more_members_than_it_may() -> None:
    groups = with_topic(max_size=1)
    groups.join("a", "t")
    assert groups.code(lambda: groups.join("b", "t")) == "GroupMaxSizeReachedError"
    assert groups.code(lambda: groups.join("a", "t")) == ""


def test_what_could_not_be_written_has_not_happened() -> None:
    groups = with_topic()
    groups.failure = UnknownServerError()
    assert groups.code(lambda: groups.join("a", "t")) == "UnknownServerError"
    assert groups.groups == {}
    groups.failure = None
    groups.join("a", "t")
    groups.grow("t", 6)
    groups.pass_time(INTERVAL_MS)
    groups.failure = UnknownServerError()
    assert groups.code(lambda: groups.beat("a", 2)) == "UnknownServerError"
    groups.failure = None
    assert groups.beat("a", 2).member_epoch == 3, "the change of the topic has to be noticed again"


# Epochs


def test_who_is_no_member_gets_the_error() -> None:
    groups = two_members()
    assert groups.code(lambda: groups.beat("c", 3)) == "UnknownMemberIdError"
    groups.groups.clear()
    assert groups.code(lambda: groups.beat("a", 3)) == "GroupIdNotFoundError"
    assert groups.code(lambda: groups.leave("a")) == "GroupIdNotFoundError"


@pytest.mark.parametrize("epoch", [4, 100])
def test_a_later_epoch_is_fenced(epoch: int) -> None:
    groups = two_members()
    assert groups.code(lambda: groups.beat("a", epoch, {"t": [0, 1]})) == "FencedMemberEpochError"


def test_the_epoch_before_is_taken_when_the_answer_may_have_got_lost() -> None:
    groups = two_members()
    assert groups.group.members["a"].previous_epoch == 2
    assert groups.beat("a", 2, {"t": [0]}).member_epoch == 3
    assert groups.code(lambda: groups.beat("a", 2, {"t": [0, 3]})) == "FencedMemberEpochError"
    assert groups.code(lambda: groups.beat("a", 2)) == "FencedMemberEpochError"


def test_a_fenced_member_rejoins_and_gets_what_it_had() -> None:
    groups = two_members()
    again = groups.join("a", "t")
    assert (again.member_epoch, again.assignment.topic_partitions[0].partitions) == (3, [0, 1])


# Sessions


def test_a_member_that_is_silent_for_too_long_is_out() -> None:
    groups = two_members()
    groups.pass_time(SESSION_MS - 1)
    groups.beat("a", 3)
    groups.pass_time(1)
    assert list(groups.group.members) == ["a"]
    assert groups.code(lambda: groups.beat("b", 3)) == "UnknownMemberIdError"
    assert groups.settle() == {"a": {"t": [0, 1, 2, 3]}}


def test_a_member_that_does_not_give_up_its_partitions_in_time_is_out() -> None:
    groups = with_topic()
    groups.join("a", "t")
    groups.pass_time(INTERVAL_MS)
    groups.join("b", "t")
    groups.beat("a", 2, {"t": [0, 1, 2, 3]})
    for _ in range(REBALANCE_MS // 10_000):
        assert "a" in groups.group.members
        groups.beat("b", 3)
        groups.beat("a", 2)
        groups.pass_time(10_000)
    assert list(groups.group.members) == ["b"]


def test_a_member_that_gives_up_its_partitions_in_time_stays() -> None:
    groups = two_members()
    for _ in range(10):
        groups.pass_time(REBALANCE_MS // 2)
        groups.beat("a", 3)
        groups.beat("b", 3)
    assert list(groups.group.members) == ["a", "b"]


# Static members


def test_a_static_member_that_comes_back_has_what_it_had_and_disturbs_nobody() -> None:
    groups = with_topic()
    groups.join("a", "t", instance_id="i")
    groups.pass_time(INTERVAL_MS)
    groups.join("b", "t")
    groups.settle()
    assert groups.leave("a", -2, instance_id="i").member_epoch == -2
    assert groups.group.members["a"].epoch == -2
    assert groups.group.epoch == 3
    back = groups.join("a2", "t", instance_id="i")
    assert (back.member_epoch, back.assignment.topic_partitions[0].partitions) == (3, [0, 1])
    assert (groups.group.epoch, list(groups.group.members)) == (3, ["b", "a2"])
    assert groups.code(lambda: groups.beat("a", 3, instance_id="i")) == "FencedInstanceIdError"


def test_an_instance_id_that_is_in_use_is_not_given_away() -> None:
    groups = with_topic()
    groups.join("a", "t", instance_id="i")
    assert groups.code(lambda: groups.join("b", "t", instance_id="i")) == "UnreleasedInstanceIdError"
    assert groups.code(lambda: groups.leave("b", instance_id="i")) == "FencedInstanceIdError"
    assert groups.code(lambda: groups.beat("a", 2, instance_id="j")) == "UnknownMemberIdError"
    assert groups.leave("a", instance_id="i").member_epoch == -1
    assert groups.group.is_empty


def test_a_static_member_that_stays_away_is_out_after_its_session() -> None:
    groups = with_topic()
    groups.join("a", "t", instance_id="i")
    groups.leave("a", -2, instance_id="i")
    groups.pass_time(SESSION_MS)
    assert groups.group.is_empty
    assert groups.group.static_members == {}


# Subscriptions and topics


def test_a_changed_subscription_changes_the_assignment() -> None:
    groups = two_members()
    groups.create("u", 2)
    told = groups.beat("a", 3, {"t": [0, 1]}, subscribed_topic_names=["u"])
    assert told.assignment.topic_partitions == []
    assert groups.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert groups.settle() == {"a": {"u": [0, 1]}, "b": {"t": [0, 1, 2, 3]}}


def test_a_topic_that_a_member_leaves_is_taken_away_before_the_next_target_is_due() -> None:
    groups = with_topic()
    groups.create("u", 2)
    groups.join("a", "t", "u")
    told = groups.beat("a", 2, {"t": [0, 1, 2, 3], "u": [0, 1]}, subscribed_topic_names=["t"])
    assert (groups.group.epoch, groups.group.assignment_epoch) == (3, 2)
    assert [one.topic_id for one in told.assignment.topic_partitions] == [groups.image.topics["t"].topic_id]


def test_a_member_that_is_giving_up_partitions_gives_up_a_topic_that_it_leaves_too() -> None:
    groups = with_topic()
    groups.create("u", 2)
    groups.join("a", "t", "u")
    groups.pass_time(INTERVAL_MS)
    groups.join("b", "t")
    owned = {"t": [0, 1, 2, 3], "u": [0, 1]}
    groups.beat("a", 2, owned)
    assert groups.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert "u" in groups.assigned()["a"]
    told = groups.beat("a", 2, owned, subscribed_topic_names=["t"])
    assert "u" not in groups.assigned()["a"]
    assert [one.topic_id for one in told.assignment.topic_partitions] == [groups.image.topics["t"].topic_id]
    assert groups.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS


def test_a_topic_that_appears_grows_or_goes_counts_the_epoch_up() -> None:
    groups = Consumers()
    assert groups.join("a", "t").assignment.topic_partitions == []
    for change, has in (
        (lambda: groups.create("t", 2), {"t": [0, 1]}),
        (lambda: groups.grow("t", 3), {"t": [0, 1, 2]}),
        (lambda: groups.delete("t"), {}),
        (lambda: groups.create("t", 1), {"t": [0]}),
    ):
        epoch = groups.group.epoch
        change()
        assert groups.settle() == {"a": has}
        assert groups.group.epoch == epoch + 1
    epoch = groups.group.epoch
    groups.create("other", 1)
    groups.settle()
    assert groups.group.epoch == epoch


def test_the_assignor_most_members_want_is_taken() -> None:
    groups = Consumers(assignment_interval_ms=0)
    groups.create("t", 3)
    groups.create("u", 3)
    groups.join("a", "t", "u", server_assignor="range")
    groups.join("b", "t", "u")
    assert groups.group.preferred_assignor() == "range"
    assert groups.settle() == {"a": {"t": [0, 1], "u": [0, 1]}, "b": {"t": [2], "u": [2]}}


def test_of_two_assignors_that_as_many_members_want_uniform_is_taken() -> None:
    groups = with_topic(assignment_interval_ms=0)
    groups.join("a", "t", server_assignor="range")
    groups.join("b", "t", server_assignor="uniform")
    assert groups.group.preferred_assignor() == "uniform"


# Regular expressions


def test_a_first_member_with_a_pattern_is_not_notified_the_epoch_of_those_who_join() -> None:
    groups = with_topic()
    assert groups.join("a", subscribed_topic_regex="t").member_epoch == 1
    assert groups.group.state is ConsumerGroupState.STABLE
    groups.pass_time(INTERVAL_MS)
    told = groups.beat("a", 1, {})
    assert (told.member_epoch, told.assignment.topic_partitions[0].partitions) == (2, [0, 1, 2, 3])


def test_a_pattern_matches_whole_names_and_new_topics_join_by_themselves() -> None:
    groups = Consumers()
    groups.create("orders-1", 1)
    groups.create("my-orders-1", 1)
    told = groups.join("a", subscribed_topic_regex="orders-.*")
    assert told.assignment.topic_partitions == []
    groups.pass_time(INTERVAL_MS)
    assert groups.settle() == {"a": {"orders-1": [0]}}
    groups.create("orders-2", 2)
    groups.pass_time(10_001)
    groups.settle()
    assert groups.settle() == {"a": {"orders-1": [0], "orders-2": [0, 1]}}
    assert groups.group.patterns["orders-.*"].topics == {"orders-1", "orders-2"}
    groups.beat("a", groups.group.epoch, subscribed_topic_regex="", subscribed_topic_names=["my-orders-1"])
    assert groups.group.patterns == {}
    assert any(isinstance(one.key, ConsumerGroupRegularExpressionKey) and one.value is None for one in groups.written)
    assert groups.settle() == {"a": {"my-orders-1": [0]}}


def test_a_pattern_is_resolved_again_after_ten_seconds_at_the_earliest() -> None:
    groups = with_topic()
    groups.join("a", subscribed_topic_regex="t.*")
    groups.pass_time(0)
    resolved_ms = groups.now_ms
    groups.create("t2", 1)
    while groups.now_ms < resolved_ms + 10_000:
        groups.pass_time(5_000)
        groups.settle()
        assert groups.group.patterns["t.*"].topics == {"t"}
    groups.pass_time(1)
    groups.settle()
    assert groups.group.patterns["t.*"].topics == {"t", "t2"}


def test_a_pattern_that_matches_what_it_did_before_begins_no_rebalance() -> None:
    groups = with_topic()
    groups.join("a", subscribed_topic_regex="t")
    groups.pass_time(0)
    groups.settle()
    epoch, resolved_ms = groups.group.epoch, groups.group.patterns["t"].timestamp_ms
    rebalances = groups.stats.consumer_rebalances
    groups.create("other", 1)
    groups.pass_time(10_001)
    groups.settle()
    groups.pass_time(0)
    assert groups.group.patterns["t"].timestamp_ms > resolved_ms
    assert groups.stats.consumer_rebalances == rebalances
    assert groups.group.epoch == epoch


def test_a_pattern_that_matches_topics_known_by_name_begins_a_rebalance() -> None:
    groups = with_topic(assignment_interval_ms=0)
    groups.join("a", "t")
    groups.join("b", subscribed_topic_regex="t")
    epoch, rebalances = groups.group.epoch, groups.stats.consumer_rebalances
    groups.pass_time(0)
    assert (groups.group.epoch, groups.stats.consumer_rebalances) == (epoch + 1, rebalances + 1)
    assert groups.settle() == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


def test_a_pattern_goes_with_its_last_member() -> None:
    groups = with_topic(assignment_interval_ms=0)
    groups.join("a", subscribed_topic_regex="t")
    groups.pass_time(1)
    second = groups.join("b", subscribed_topic_regex="t")
    assert second.member_epoch == groups.group.epoch == 3, "what it matches is known"
    groups.leave("a")
    assert list(groups.group.patterns) == ["t"]
    groups.leave("b")
    assert groups.group.patterns == {}


def test_a_pattern_that_cannot_be_read_is_refused() -> None:
    groups = with_topic()
    with pytest.raises(
        Exception, match=r"SubscribedTopicRegex `a\(` is not a valid regular expression: missing closing \)\."
    ):
        groups.join("a", subscribed_topic_regex="a(")
    assert groups.groups == {}


# What is stored


def test_epochs_and_assignments_survive_a_restart() -> None:
    groups = two_members()
    groups.join("c", subscribed_topic_regex="t", instance_id="i", rack_id="r", server_assignor="range")
    groups.settle()
    before = vars(groups.group) | {"_checked_epoch": None}
    groups.restart()
    assert vars(groups.group) == before
    epochs = {member.member_id: member.epoch for member in groups.group.members.values()}
    for member_id, has in groups.assigned().items():
        instance = groups.group.members[member_id].instance_id
        assert groups.beat(member_id, epochs[member_id], has, instance_id=instance).assignment is None
    groups.pass_time(SESSION_MS + 1)
    assert groups.group.is_empty


def test_members_that_stay_silent_after_a_restart_are_out_when_a_session_is_over() -> None:
    groups = two_members()
    groups.restart()
    groups.pass_time(SESSION_MS - 1)
    assert list(groups.group.members) == ["a", "b"]
    groups.pass_time(1)
    assert groups.group.is_empty


def test_partitions_without_an_assignment_epoch_take_that_of_their_member() -> None:
    groups = two_members()
    # Brokers before Kafka 4.3 wrote no assignment epochs.
    for record in groups.written:
        if isinstance(record.value, ConsumerGroupCurrentMemberAssignmentValue):
            for topic in (*record.value.assigned_partitions, *record.value.partitions_pending_revocation):
                topic.assignment_epochs = None
    groups.restart()
    topic_id = groups.image.topics["t"].topic_id
    assert groups.group.members["a"].assigned == {topic_id: {0: 3, 1: 3}}
    assert groups.group.members["b"].assigned == {topic_id: {2: 3, 3: 3}}


def test_a_revocation_continues_after_a_restart() -> None:
    groups = with_topic()
    groups.join("a", "t")
    groups.pass_time(INTERVAL_MS)
    groups.join("b", "t")
    groups.beat("a", 2, {"t": [0, 1, 2, 3]})
    groups.restart()
    assert groups.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert groups.settle() == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


def test_a_group_that_is_deleted_leaves_nothing() -> None:
    groups = two_members()
    groups.leave("a")
    groups.leave("b")
    groups.written += group_tombstones(groups.group)
    groups.restart()
    assert groups.groups == {}


def test_what_older_brokers_wrote_of_topics_is_removed() -> None:
    groups = with_topic()
    groups.join("a", "t")
    replay(groups.groups, ConsumerGroupPartitionMetadataKey(GROUP), ConsumerGroupPartitionMetadataValue())
    groups.grow("t", 5)
    groups.beat("a", 2)
    assert groups.written[-1].key == ConsumerGroupPartitionMetadataKey(GROUP)
    assert not groups.group.has_partition_metadata


def test_tombstones_of_what_is_not_there_make_no_group() -> None:
    groups: dict[str, Any] = {}
    assert replay(groups, ConsumerGroupMetadataKey("x"), None) is None
    assert groups == {}


# States


def test_no_member_goes_to_a_state_that_is_not_known() -> None:
    assert set(STATES.states) == set(MemberState)
    assert all(MemberState.UNKNOWN not in STATES.followers(state) for state in MemberState)
    assert MemberState(77) is MemberState.UNKNOWN


def test_a_member_in_an_unknown_state_cannot_be_asked_to_revoke() -> None:
    with pytest.raises(IllegalStateError, match="consumer group member m"):
        STATES.next_state(MemberState.UNKNOWN, MemberEvent.MUST_REVOKE, "m")


def test_a_member_in_a_state_of_a_newer_broker_rejoins() -> None:
    groups = two_members()
    groups.group.put_member(groups.group.members["a"].with_(state=MemberState.UNKNOWN))
    with pytest.raises(FencedMemberEpochError):
        groups.beat("a", 3, {"t": [0, 1]})
    assert groups.join("a", "t").assignment.topic_partitions[0].partitions == [0, 1]
    assert groups.group.state is ConsumerGroupState.STABLE


# Offsets


def test_commits_are_checked_against_the_epoch_in_which_a_partition_was_got() -> None:
    groups = two_members()
    group, topic = groups.group, groups.image.topics["t"].topic_id
    assert group.check_commit("a", 3, 9) is None
    behind = group.check_commit("a", 2, 9)
    assert behind is not None
    behind.check_commit(2, topic, "t", 0)
    with pytest.raises(StaleMemberEpochError, match="t-2 is not assigned"):
        behind.check_commit(2, topic, "t", 2)
    later = group.check_commit("b", 2, 9)
    assert later is not None
    with pytest.raises(StaleMemberEpochError, match="older than assignment epoch 3"):
        later.check_commit(2, topic, "t", 2)
    checks: list[tuple[Callable[[], object], str]] = [
        (lambda: group.check_commit("a", 4, 9), "StaleMemberEpochError"),
        (lambda: group.check_commit("c", 3, 9), "UnknownMemberIdError"),
        (lambda: group.check_commit("", -1, 9), "UnknownMemberIdError"),
        (lambda: group.check_commit("a", 3, 8), "UnsupportedVersionError"),
        (lambda: group.check_fetch("a", 2), "StaleMemberEpochError"),
        (lambda: group.check_fetch("c", 3), "UnknownMemberIdError"),
        (lambda: group.check_fetch(None, -1), ""),
        (lambda: group.check_fetch(None, 0), "UnknownMemberIdError"),
        (lambda: group.check_fetch("a", 3), ""),
    ]
    for check, error in checks:
        assert groups.code(check) == error
    groups.leave("a")
    groups.leave("b")
    assert groups.group.check_commit("", -1, 2) is None
    assert groups.code(lambda: groups.group.check_commit("", 0, 2)) == "UnknownMemberIdError"


# Requests that make no sense


@pytest.mark.parametrize(
    ("fields", "version", "text"),
    [
        ({"member_id": ""}, 1, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": 1}, 0, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1}, 0, "MemberId can't be empty."),
        ({"group_id": ""}, 1, "GroupId can't be empty."),
        ({"instance_id": ""}, 1, "InstanceId can't be empty."),
        ({"rack_id": ""}, 1, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, 1, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, 1, "TopicPartitions must be empty when"),
        ({"topic_partitions": [ConsumerGroupHeartbeatRequest.TopicPartitions()]}, 1, "TopicPartitions must be empty"),
        ({"subscribed_topic_names": None}, 1, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"),
        ({"member_epoch": -2}, 1, "InstanceId can't be null."),
        ({"member_epoch": -3}, 1, "MemberEpoch is invalid."),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(fields: dict[str, Any], version: int, text: str) -> None:
    good = {
        "group_id": "g", "member_id": "m", "rebalance_timeout_ms": 1, "topic_partitions": [],
        "subscribed_topic_names": [],
    }  # fmt: skip
    check_request(ConsumerGroupHeartbeatRequest(**good), version, ("uniform",))  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match=text):
        check_request(ConsumerGroupHeartbeatRequest(**(good | fields)), version, ("uniform",))  # type: ignore[arg-type]


def test_an_assignor_that_is_not_there_is_refused() -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1, server_assignor="mine")
    with pytest.raises(UnsupportedAssignorError, match="Supported assignors: uniform, range"):
        check_request(request, 1, ("uniform", "range"))


def test_a_member_does_not_change() -> None:
    member = ConsumerMember("m")
    with pytest.raises(AttributeError):
        member.epoch = 2  # type: ignore[misc]
