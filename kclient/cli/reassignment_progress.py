"""How far a plan of reassignments has been carried out, for partitions and for replicas in log directories."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from kclient.admin import Admin, PartitionReassignment, ReplicaLogDirInfo, TopicPartitionReplica
from kclient.cli.reassignment_plans import Plan
from kclient.cli.results import succeeded
from kclient.errors import AdminError, BrokerNotAvailableError, UnknownTopicOrPartitionError
from kclient.types import TopicPartition


class Progress(Enum):
    """The state of one move."""

    COMPLETED = "completed"
    IN_PROGRESS = "in progress"
    ELSEWHERE = "elsewhere"
    """No move is in progress, or one to another place."""
    MISSING = "missing"
    """There is no such partition or replica, or its directory or broker is offline."""


class PartitionProgress(msgspec.Struct, frozen=True):
    """The move of one partition: the replicas that it has, and those that the plan names."""

    topic: str
    partition: int
    state: Progress
    replicas: tuple[int, ...]
    target: tuple[int, ...]


class LogDirProgress(msgspec.Struct, frozen=True):
    """The move of one replica to another directory: the one that it is in, and the one that the plan names."""

    topic: str
    partition: int
    broker: int
    state: Progress
    log_dir: str | None
    target: str


def partition_progress(
    plan: Plan,
    ongoing: Mapping[TopicPartition, PartitionReassignment],
    current: Mapping[TopicPartition, tuple[int, ...]],
) -> list[PartitionProgress]:
    """Return the state of each partition of a plan.

    Parameters:
        ongoing: the reassignments in progress.
        current: the replicas of the partitions that exist.
    """
    found = []
    for key, target in sorted(plan.replicas.items()):
        if key in ongoing:
            moving = ongoing[key]
            state = Progress.IN_PROGRESS if moving.target_replicas == target else Progress.ELSEWHERE
            replicas = moving.replicas
        elif key in current:
            replicas = current[key]
            state = Progress.COMPLETED if replicas == target else Progress.ELSEWHERE
        else:
            state, replicas = Progress.MISSING, ()
        found.append(PartitionProgress(*key, state, replicas, target))
    return found


def log_dir_progress(
    targets: Mapping[TopicPartitionReplica, str], infos: Mapping[TopicPartitionReplica, ReplicaLogDirInfo]
) -> list[LogDirProgress]:
    """Return the state of each replica for which a plan names a directory.

    Parameters:
        targets: the directories of the plan.
        infos: where the replicas are; replicas on brokers that are not alive are absent.
    """
    found = []
    for key, target in sorted(targets.items()):
        info = infos.get(key, ReplicaLogDirInfo())
        if info.current_log_dir is None:
            state = Progress.MISSING
        elif info.future_log_dir is None:
            state = Progress.COMPLETED if info.current_log_dir == target else Progress.ELSEWHERE
        else:
            state = Progress.IN_PROGRESS if info.future_log_dir == target else Progress.ELSEWHERE
        found.append(LogDirProgress(*key, state, info.current_log_dir, target))
    return found


def current_replicas(client: Admin, plan: Plan) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of those partitions of a plan that exist."""
    described, error = succeeded(lambda: client.describe_topics({key.topic for key in plan.replicas}))
    _raise_unless(error, UnknownTopicOrPartitionError)
    found = {
        TopicPartition(info.topic, info.partition): info.replicas
        for topic in described.values()
        for info in topic.partitions
    }
    return {key: found[key] for key in plan.replicas if key in found}


def current_log_dirs(
    client: Admin, replicas: Mapping[TopicPartitionReplica, object]
) -> dict[TopicPartitionReplica, ReplicaLogDirInfo]:
    """Return where replicas are, without those whose broker is not alive."""
    found, error = succeeded(lambda: client.describe_replica_log_dirs(replicas))
    _raise_unless(error, BrokerNotAvailableError)
    return found


def _raise_unless(error: AdminError | None, expected: type[Exception]) -> None:
    for each in error.errors.values() if error is not None else ():
        if not isinstance(each, expected):
            raise each
