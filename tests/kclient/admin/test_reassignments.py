"""Reassignments: what is sent to the controller, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.admin.reassignments import (
    PartitionReassignment,
    alter_partition_reassignments,
    list_partition_reassignments,
)
from kclient.errors import (
    AdminError,
    ClusterAuthorizationError,
    InvalidReplicaAssignmentError,
    NoReassignmentInProgressError,
    UnsupportedVersionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kclient.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kclient.types import TopicPartition
from tests.kclient.admin.scripted import Cluster, ScriptedCore, finished, soon

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ALTER = AlterPartitionReassignmentsResponse
LIST = ListPartitionReassignmentsResponse
NOT_CONTROLLER = 41


def altered(codes: dict[TopicPartition, int], *before: int, **core: Any) -> tuple[ScriptedCore, Any]:
    """A core whose controller gives these codes, after whole answers with the codes `before`."""
    left = list(before)

    def alter(node: int, request: AlterPartitionReassignmentsRequest) -> Message:
        if left:
            return ALTER(error_code=left.pop(0), error_message="as a whole")
        return ALTER(
            responses=[
                ALTER.ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        ALTER.ReassignablePartitionResponse(
                            partition_index=each.partition_index,
                            error_code=codes.get(TopicPartition(topic.name, each.partition_index), 0),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return ScriptedCore(Cluster(AlterPartitionReassignments=alter), **core), alter


def alter(core: ScriptedCore, targets: Any, keep_factor: bool = False) -> Any:
    return finished(alter_partition_reassignments(core, targets, not keep_factor, soon("alter")))


def test_targets_and_cancellations_are_sent_by_topic() -> None:
    core, _ = altered({})
    assert alter(core, {T0: (1, 2), U0: [3], T1: None}) == {T0: None, U0: None, T1: None}
    ((_, request, _),) = core.asked
    assert isinstance(request, AlterPartitionReassignmentsRequest)
    sent = {topic.name: [(p.partition_index, p.replicas) for p in topic.partitions] for topic in request.topics}
    assert sent == {"t": [(0, [1, 2]), (1, None)], "u": [(0, [3])]}


def test_a_refused_partition_does_not_hide_the_others() -> None:
    core, _ = altered({T0: NoReassignmentInProgressError.code, U0: InvalidReplicaAssignmentError.code})
    with pytest.raises(AdminError) as caught:
        alter(core, {T0: None, T1: [1], U0: [9]})
    assert caught.value.results == {T1: None}
    refused = caught.value.errors
    assert {key: type(each) for key, each in refused.items()} == {
        T0: NoReassignmentInProgressError,
        U0: InvalidReplicaAssignmentError,
    }
    assert "list_partition_reassignments shows those that are. [topic t, partition 0]" in str(refused[T0])


def test_a_controller_that_has_moved_is_asked_again() -> None:
    core, _ = altered({}, NOT_CONTROLLER, NOT_CONTROLLER)
    assert alter(core, {T0: [1]}) == {T0: None}
    assert len(core.asked) == 3


def test_a_refusal_of_the_whole_request_is_raised() -> None:
    core, _ = altered({}, ClusterAuthorizationError.code)
    with pytest.raises(ClusterAuthorizationError, match="as a whole"):
        alter(core, {T0: [1]})


def test_no_partitions_are_no_request() -> None:
    core, _ = altered({})
    assert (alter(core, {}), core.asked) == ({}, [])


@pytest.mark.parametrize("replicas", ["12", 3, ["1"], [True]])
def test_replicas_are_a_list_of_broker_ids(replicas: Any) -> None:
    core, _ = altered({})
    with pytest.raises(TypeError, match="alter takes"):
        alter(core, {T0: replicas})
    assert core.asked == []


def test_an_old_broker_cannot_keep_the_replication_factor() -> None:
    old, _ = altered({}, newest={AlterPartitionReassignmentsRequest: 0})
    with pytest.raises(UnsupportedVersionError, match=r"since Apache Kafka 4\.1"):
        alter(old, {T0: [1]}, keep_factor=True)
    assert alter(old, {T0: [1]}) == {T0: None}
    new, _ = altered({})
    alter(new, {T0: [1]}, keep_factor=True)
    assert [request.allow_replication_factor_change for _, request, _ in new.asked] == [False]  # type: ignore[attr-defined]


def listing(core: list[ListPartitionReassignmentsRequest]) -> ScriptedCore:
    def answer(node: int, request: ListPartitionReassignmentsRequest) -> Message:
        core.append(request)
        moving = LIST.OngoingPartitionReassignment(
            partition_index=1, replicas=[3, 2, 1], adding_replicas=[3], removing_replicas=[1]
        )
        return LIST(topics=[LIST.OngoingTopicReassignment(name="t", partitions=[moving])])

    return ScriptedCore(Cluster(ListPartitionReassignments=answer))


@pytest.mark.parametrize("wanted", [None, [T0, T1, U0, T1]], ids=["all", "some"])
def test_reassignments_in_progress_are_listed(wanted: list[TopicPartition] | None) -> None:
    asked: list[ListPartitionReassignmentsRequest] = []
    found = finished(list_partition_reassignments(listing(asked), wanted, soon("list")))
    assert found == {T1: PartitionReassignment((3, 2, 1), (3,), (1,))}
    assert found[T1].target_replicas == (3, 2)
    topics = asked[0].topics
    assert topics is None if wanted is None else topics is not None
    if topics is not None:
        assert {topic.name: topic.partition_indexes for topic in topics} == {"t": [0, 1], "u": [0]}


def test_no_partitions_to_list_are_no_request() -> None:
    asked: list[ListPartitionReassignmentsRequest] = []
    assert finished(list_partition_reassignments(listing(asked), [], soon("list"))) == {}
    assert asked == []
