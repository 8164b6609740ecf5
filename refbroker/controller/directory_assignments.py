"""AssignReplicasToDirs: a broker tells in which data directory each of its replicas is (KIP-858).

A replica in a directory that the broker has not registered as online is offline: the broker leaves the in-sync set.
Source: `handleAssignReplicasToDirs` of Kafka's `ReplicationControlManager`.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from kclient.errors import (
    BrokerError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from kclient.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.controller.cluster import Cluster
from refbroker.controller.elections import plan_updates, rules_of
from refbroker.controller.partition_changes import Target, plan_change
from refbroker.controller.partition_index import PartitionId
from refbroker.metadata.versions import DIRECTORIES

Directory = AssignReplicasToDirsResponse.DirectoryData
Topic = AssignReplicasToDirsResponse.TopicData
Partition = AssignReplicasToDirsResponse.PartitionData


class AssignmentPlan(NamedTuple):
    """The outcome of a request: the records to be stored, and the response to be sent then."""

    records: list[PartitionChangeRecord]
    response: AssignReplicasToDirsResponse


def plan_assignment(cluster: Cluster, request: AssignReplicasToDirsRequest) -> AssignmentPlan:
    """Return what follows from a request; each partition has its own result.

    Raises:
        StaleBrokerEpochError: the broker is not registered, or in another epoch.
        UnsupportedVersionError: the metadata of this cluster has no directories yet.
    """
    if cluster.image.metadata_version < DIRECTORIES:
        raise UnsupportedVersionError("Directory assignment is not supported yet.")
    cluster.registered(request.broker_id, request.broker_epoch)
    plan = AssignmentPlan([], AssignReplicasToDirsResponse())
    offline: dict[PartitionId, None] = {}
    for directory in request.directories:
        online = cluster.is_online(request.broker_id, directory.id)
        answers = Directory(id=directory.id)
        plan.response.directories.append(answers)
        for topic in directory.topics:
            answer = Topic(topic_id=topic.topic_id)
            answers.topics.append(answer)
            for wanted in topic.partitions:
                result = Partition(partition_index=wanted.partition_index)
                answer.partitions.append(result)
                partition = PartitionId(topic.topic_id, wanted.partition_index)
                try:
                    change = _plan(cluster, request.broker_id, partition, directory.id)
                except BrokerError as error:
                    result.error_code = error.code
                    continue
                plan.records.extend([] if change is None else [change])
                if not online:
                    offline[partition] = None
    plan.records.extend(plan_updates(cluster, offline, removed=request.broker_id))
    return plan


def _plan(cluster: Cluster, broker: int, partition: PartitionId, directory: UUID) -> PartitionChangeRecord | None:
    topic = cluster.image.topics_by_id.get(partition.topic_id)
    if topic is None:
        raise UnknownTopicIdError(str(partition.topic_id))
    state = topic.partitions.get(partition.number)
    if state is None:
        raise UnknownTopicOrPartitionError(topic=topic.name, partition=partition.number)
    if broker not in state.replicas:
        raise NotLeaderOrFollowerError(topic=topic.name, partition=partition.number)
    target = Target.of(state)
    target.directories = {broker: directory}
    return plan_change(topic.topic_id, state, target, rules_of(cluster, topic, state))
