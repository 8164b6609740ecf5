"""How far a plan of reassignments is."""

from __future__ import annotations

import pytest

from kclient.admin import PartitionReassignment, ReplicaLogDirInfo, TopicPartitionReplica
from kclient.cli.reassignment_plans import Plan
from kclient.cli.reassignment_progress import Progress, log_dir_progress, partition_progress
from kclient.types import TopicPartition

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("ongoing", "current", "state", "replicas"),
    [
        (None, (2, 3), Progress.COMPLETED, (2, 3)),
        (None, (3, 2), Progress.ELSEWHERE, (3, 2)),
        (None, (1, 2), Progress.ELSEWHERE, (1, 2)),
        (PartitionReassignment((2, 3, 1), (3,), (1,)), (2, 3, 1), Progress.IN_PROGRESS, (2, 3, 1)),
        (PartitionReassignment((2, 4, 1), (4,), (1,)), (2, 4, 1), Progress.ELSEWHERE, (2, 4, 1)),
        (None, None, Progress.MISSING, ()),
    ],
    ids=["done", "other leader", "not started", "moving", "to another place", "deleted"],
)
def test_a_partition_is_where_the_plan_wants_it_or_not(
    ongoing: PartitionReassignment | None,
    current: tuple[int, ...] | None,
    state: Progress,
    replicas: tuple[int, ...],
) -> None:
    plan = Plan({T0: (2, 3)}, {})
    (found,) = partition_progress(plan, {T0: ongoing} if ongoing else {}, {T0: current} if current else {})
    assert (found.topic, found.partition, found.target) == ("t", 0, (2, 3))
    assert (found.state, found.replicas) == (state, replicas)


@pytest.mark.parametrize(
    ("info", "state"),
    [
        (ReplicaLogDirInfo("/b", 0), Progress.COMPLETED),
        (ReplicaLogDirInfo("/a", 0), Progress.ELSEWHERE),
        (ReplicaLogDirInfo("/a", 0, "/b", 9), Progress.IN_PROGRESS),
        (ReplicaLogDirInfo("/a", 0, "/c", 9), Progress.ELSEWHERE),
        (ReplicaLogDirInfo(), Progress.MISSING),
        (None, Progress.MISSING),
    ],
    ids=["done", "not started", "moving", "to another place", "offline", "no broker"],
)
def test_a_replica_is_in_the_directory_that_the_plan_wants_or_not(
    info: ReplicaLogDirInfo | None, state: Progress
) -> None:
    key = TopicPartitionReplica("t", 0, 1)
    (found,) = log_dir_progress({key: "/b"}, {key: info} if info else {})
    assert (found.topic, found.partition, found.broker, found.target) == ("t", 0, 1, "/b")
    assert found.state is state
    assert found.log_dir == (info.current_log_dir if info else None)
