"""Calls about groups over coordinators that move, load, are old, or answer nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.admin.group_lag import PartitionLag, group_lag
from kclient.admin.group_offsets import alter_group_offsets, list_group_offsets
from kclient.admin.groups import (
    GroupState,
    GroupType,
    MemberIdentity,
    delete_groups,
    describe_groups,
    list_groups,
    named,
    remove_group_members,
)
from kclient.errors import (
    AdminError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    DisconnectedError,
    GroupAuthorizationError,
    GroupIdNotFoundError,
    NotCoordinatorError,
    ProtocolError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
    UnsupportedVersionError,
)
from kclient.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kclient.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kclient.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kclient.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kclient.types import OffsetAndMetadata, TopicPartition
from tests.kclient.admin.scripted import Answer, Cluster, ScriptedCore, finished, metadata, nodes_asked, soon

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def deleted(node: int, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeleteGroupsResponse.DeletableGroupResult(group_id=group) for group in request.groups_names]
    )


def test_each_coordinator_is_asked_once_about_all_its_groups() -> None:
    core = ScriptedCore(Cluster({"a": 1, "b": 2, "c": 1}, DeleteGroups=deleted))
    assert finished(delete_groups(core, ["a", "b", "c"], soon())) == {"a": None, "b": None, "c": None}
    assert nodes_asked(core, DeleteGroupsRequest) == [1, 2]
    assert len(nodes_asked(core, FindCoordinatorRequest)) == 1


def test_before_version_4_coordinators_are_looked_up_one_by_one() -> None:
    core = ScriptedCore(Cluster({"a": 1, "b": 2}, DeleteGroups=deleted), {FindCoordinatorRequest: 3})
    assert finished(delete_groups(core, ["a", "b"], soon())) == {"a": None, "b": None}
    assert len(nodes_asked(core, FindCoordinatorRequest)) == 2
    assert nodes_asked(core, DeleteGroupsRequest) == [1, 2]


@pytest.mark.parametrize(
    "error", [NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError, DisconnectedError]
)
def test_a_coordinator_that_moves_or_loads_is_looked_up_and_asked_again(error: type[Any]) -> None:
    def moving(node: int, request: DeleteGroupsRequest) -> Answer:
        if node == 2:
            return deleted(node, request)
        cluster.homes["a"] = 2
        if error.code is None:
            return error("gone")  # type: ignore[no-any-return]
        answer = deleted(node, request)
        answer.results[0].error_code = error.code
        return answer

    cluster = Cluster({"a": 1}, DeleteGroups=moving)
    core = ScriptedCore(cluster)
    assert finished(delete_groups(core, ["a"], soon())) == {"a": None}
    assert nodes_asked(core, DeleteGroupsRequest) == [1, 2]


def test_a_group_without_coordinator_fails_for_itself_alone() -> None:
    def find(node: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        answer = Cluster().find(request)
        for one in answer.coordinators:
            if one.key == "secret":
                one.error_code, one.error_message = GroupAuthorizationError.code, "not for you"
        return answer

    core = ScriptedCore(Cluster(FindCoordinator=find, DeleteGroups=deleted))
    with pytest.raises(AdminError) as caught:
        finished(delete_groups(core, ["a", "secret"], soon()))
    assert caught.value.results == {"a": None}
    assert isinstance(caught.value.errors["secret"], GroupAuthorizationError)
    assert "not for you" in str(caught.value.errors["secret"])


def test_the_list_has_the_groups_of_all_brokers_and_the_errors_of_those_that_failed() -> None:
    def listed(node: int, request: ListGroupsRequest) -> Answer:
        if node == 2:
            return ListGroupsResponse(error_code=GroupAuthorizationError.code)
        kind = ListGroupsResponse.ListedGroup
        return ListGroupsResponse(groups=[kind(group_id="b", group_state="Stable", group_type="consumer"), kind("a")])

    core = ScriptedCore(Cluster(ListGroups=listed))
    with pytest.raises(AdminError) as caught:
        finished(list_groups(core, [], [], soon()))
    assert list(caught.value.results) == ["a", "b"]
    assert caught.value.results["b"].type is GroupType.CONSUMER
    assert {node: type(error) for node, error in caught.value.errors.items()} == {2: GroupAuthorizationError}


def test_a_filter_that_a_broker_does_not_know_is_not_omitted() -> None:
    core = ScriptedCore(Cluster(), {ListGroupsRequest: 4})
    with pytest.raises(AdminError) as caught:
        finished(list_groups(core, [], [GroupType.CLASSIC], soon()))
    assert isinstance(caught.value.errors[1], UnsupportedVersionError)


def test_states_of_later_versions_are_unknown() -> None:
    assert named(GroupState, "Meditating") is GroupState.UNKNOWN
    assert named(GroupState, "preparingrebalance") is GroupState.PREPARING_REBALANCE


def classic(group: str, **fields: Any) -> DescribeGroupsResponse.DescribedGroup:
    return DescribeGroupsResponse.DescribedGroup(
        group_id=group, **{"group_state": "Stable", "protocol_type": "consumer", **fields}
    )


def test_groups_are_described_by_either_protocol() -> None:
    def consumer(node: int, request: ConsumerGroupDescribeRequest) -> Answer:
        kind = ConsumerGroupDescribeResponse
        return kind(
            groups=[
                kind.DescribedGroup(group_id="new", group_state="Stable", group_epoch=3, assignor_name="uniform"),
                kind.DescribedGroup(group_id="old", error_code=GroupIdNotFoundError.code),
            ]
        )

    def old(node: int, request: DescribeGroupsRequest) -> Answer:
        assert request.groups == ["old"]
        return DescribeGroupsResponse(groups=[classic("old", protocol_data="range")])

    core = ScriptedCore(Cluster(ConsumerGroupDescribe=consumer, DescribeGroups=old))
    found = finished(describe_groups(core, ["new", "old"], soon()))
    assert [(group.type, group.assignor, group.epoch) for group in found.values()] == [
        (GroupType.CONSUMER, "uniform", 3),
        (GroupType.CLASSIC, "range", None),
    ]
    core = ScriptedCore(Cluster(DescribeGroups=old), {ConsumerGroupDescribeRequest: -1})
    assert finished(describe_groups(core, ["old"], soon()))["old"].type is GroupType.CLASSIC


def test_a_dead_group_of_an_old_broker_does_not_exist() -> None:
    def old(node: int, request: DescribeGroupsRequest) -> Answer:
        return DescribeGroupsResponse(groups=[classic("g", group_state="Dead", protocol_type="")])

    core = ScriptedCore(Cluster(DescribeGroups=old), {ConsumerGroupDescribeRequest: -1, DescribeGroupsRequest: 5})
    with pytest.raises(AdminError) as caught:
        finished(describe_groups(core, ["g"], soon()))
    assert isinstance(caught.value.errors["g"], GroupIdNotFoundError)


def test_metadata_of_other_protocol_types_is_ignored_and_of_consumers_is_checked() -> None:
    def old(node: int, request: DescribeGroupsRequest) -> Answer:
        member = DescribeGroupsResponse.DescribedGroupMember(member_id="m", member_assignment=b"\xff\xff\xff")
        return DescribeGroupsResponse(
            groups=[
                classic("workers", protocol_type="connect", members=[member]),
                classic("broken", members=[member]),
            ]
        )

    core = ScriptedCore(Cluster(DescribeGroups=old), {ConsumerGroupDescribeRequest: -1})
    with pytest.raises(AdminError) as caught:
        finished(describe_groups(core, ["workers", "broken"], soon()))
    assert caught.value.results["workers"].members[0].assignment == ()
    assert isinstance(caught.value.errors["broken"], ProtocolError)
    assert "the subscription or assignment of member m is malformed" in str(caught.value.errors["broken"])


def test_a_member_that_answers_with_both_ids_is_found_by_the_one_it_was_removed_by() -> None:
    def left(node: int, request: LeaveGroupRequest) -> Answer:
        assert [(member.group_instance_id, member.reason) for member in request.members] == [("one", "x" * 255)]
        kind = LeaveGroupResponse.MemberResponse
        return LeaveGroupResponse(members=[kind(member_id="m-1", group_instance_id="one")])

    core = ScriptedCore(Cluster(LeaveGroup=left))
    removed = finished(remove_group_members(core, "g", [], ["one"], False, "x" * 300, soon()))
    assert removed == {MemberIdentity("", "one"): None}


def fetched(node: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Each group has committed 5 for t-0 and nothing for t-1."""
    kind = OffsetFetchResponse
    if request.groups:
        new = kind.OffsetFetchResponsePartitions
        topic = kind.OffsetFetchResponseTopics(
            name="t", partitions=[new(committed_offset=5), new(partition_index=1, committed_offset=-1)]
        )
        return kind(
            groups=[kind.OffsetFetchResponseGroup(group_id=group.group_id, topics=[topic]) for group in request.groups]
        )
    old = kind.OffsetFetchResponsePartition
    return kind(
        topics=[
            kind.OffsetFetchResponseTopic(
                name="t", partitions=[old(committed_offset=5), old(partition_index=1, committed_offset=-1)]
            )
        ]
    )


@pytest.mark.parametrize(("newest", "requests"), [(10, 1), (8, 1), (7, 2), (2, 2)])
def test_offsets_of_several_groups_are_asked_for_at_once_where_that_can_be(newest: int, requests: int) -> None:
    core = ScriptedCore(Cluster(OffsetFetch=fetched), {OffsetFetchRequest: newest})
    found = finished(list_group_offsets(core, {"a": None, "b": [T0, T1]}, False, soon()))
    assert found == {group: {T0: OffsetAndMetadata(5), T1: None} for group in "ab"}
    assert [version for _, request, version in core.asked if isinstance(request, OffsetFetchRequest)] == [
        min(newest, 9)
    ] * requests


def test_no_partitions_asked_for_are_none_and_not_all() -> None:
    def counted(node: int, request: OffsetFetchRequest) -> Answer:
        assert request.groups[0].topics == []
        return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup(group_id="a")])

    core = ScriptedCore(Cluster(OffsetFetch=counted))
    assert finished(list_group_offsets(core, {"a": []}, False, soon())) == {"a": {}}


def test_stable_offsets_are_waited_for() -> None:
    codes = [UnstableOffsetCommitError.code, 0]

    def unstable(node: int, request: OffsetFetchRequest) -> Answer:
        assert request.require_stable
        answer = fetched(node, request)
        answer.groups[0].topics[0].partitions[0].error_code = codes.pop(0)
        return answer

    core = ScriptedCore(Cluster(OffsetFetch=unstable))
    assert finished(list_group_offsets(core, {"a": None}, True, soon()))["a"][T0] == OffsetAndMetadata(5)
    assert codes == []


def test_an_old_broker_cannot_be_asked_for_stable_offsets() -> None:
    core = ScriptedCore(Cluster(OffsetFetch=fetched), {OffsetFetchRequest: 6})
    with pytest.raises(AdminError) as caught:
        finished(list_group_offsets(core, {"a": None}, True, soon()))
    assert isinstance(caught.value.errors["a"], UnsupportedVersionError)


def test_an_error_of_a_partition_names_it() -> None:
    def denied(node: int, request: OffsetFetchRequest) -> Answer:
        answer = fetched(node, request)
        answer.groups[0].topics[0].partitions[1].error_code = TopicAuthorizationError.code
        return answer

    core = ScriptedCore(Cluster(OffsetFetch=denied))
    with pytest.raises(AdminError) as caught:
        finished(list_group_offsets(core, {"a": None}, False, soon()))
    error = caught.value.errors["a"]
    assert isinstance(error, TopicAuthorizationError)
    assert (error.topic, error.partition) == ("t", 1)


def test_only_the_offsets_that_failed_are_committed_again() -> None:
    committed: list[list[int]] = []

    def commit(node: int, request: OffsetCommitRequest) -> Answer:
        committed.append([each.partition_index for each in request.topics[0].partitions])
        kind = OffsetCommitResponse
        first = len(committed) == 1
        codes = {1: CoordinatorLoadInProgressError.code} if first else {}
        partitions = [
            kind.OffsetCommitResponsePartition(partition_index=number, error_code=codes.get(number, 0))
            for number in committed[-1]
        ]
        return kind(topics=[kind.OffsetCommitResponseTopic(name="t", partitions=partitions)])

    core = ScriptedCore(Cluster(OffsetCommit=commit))
    assert finished(alter_group_offsets(core, "g", {T0: 1, T1: OffsetAndMetadata(2)}, soon())) == {T0: None, T1: None}
    assert committed == [[0, 1], [1]]


def test_lag_of_a_partition_that_is_gone_has_no_end() -> None:
    gone = TopicPartition("gone", 0)

    def old(node: int, request: DescribeGroupsRequest) -> Answer:
        return DescribeGroupsResponse(groups=[classic("g", group_state="Empty")])

    def two(node: int, request: OffsetFetchRequest) -> Answer:
        answer = fetched(node, request)
        kind = OffsetFetchResponse
        answer.groups[0].topics.append(
            kind.OffsetFetchResponseTopics(name="gone", partitions=[kind.OffsetFetchResponsePartitions(0, 7)])
        )
        return answer

    def known(node: int, request: MetadataRequest) -> Answer:
        answer = metadata(("t",))
        answer.topics.append(
            MetadataResponse.MetadataResponseTopic(name="gone", error_code=UnknownTopicOrPartitionError.code)
        )
        return answer

    def ends(node: int, request: ListOffsetsRequest) -> Answer:
        kind = ListOffsetsResponse
        # The end was read before the commit that went beyond it.
        offsets = [kind.ListOffsetsPartitionResponse(partition_index=number, offset=4) for number in range(2)]
        return kind(topics=[kind.ListOffsetsTopicResponse(name="t", partitions=offsets)])

    cluster = Cluster(DescribeGroups=old, OffsetFetch=two, Metadata=known, ListOffsets=ends)
    core = ScriptedCore(cluster, {ConsumerGroupDescribeRequest: -1})
    assert finished(group_lag(core, ["g"], "read_uncommitted", soon())) == {
        "g": {
            gone: PartitionLag(7, None, None, None),
            T0: PartitionLag(5, 4, 0, None),
            T1: PartitionLag(None, 4, None, None),
        }
    }
