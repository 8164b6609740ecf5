"""Brokers that tell in which data directories their replicas are (KIP-858)."""

from __future__ import annotations

from uuid import UUID

import pytest

from kclient import errors
from kclient.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from refbroker.controller.directory_assignments import plan_assignment
from tests.support.controlled_cluster import ControlledCluster, directories_of, registration


@pytest.fixture(name="cluster")
def broker_with_two_directories() -> ControlledCluster:
    cluster = ControlledCluster()
    cluster.register(registration(1, incarnation=1, directories=2))
    cluster.beat(1)
    cluster.start(2)
    cluster.create("t", [1, 2])
    return cluster


def assign(cluster: ControlledCluster, directory: UUID, topic_id: UUID, number: int = 0, node: int = 1) -> int:
    one = AssignReplicasToDirsRequest
    partition = one.PartitionData(partition_index=number)
    request = one(
        broker_id=node,
        broker_epoch=cluster.image.brokers[node].broker_epoch,
        directories=[
            one.DirectoryData(id=directory, topics=[one.TopicData(topic_id=topic_id, partitions=[partition])])
        ],
    )
    plan = plan_assignment(cluster.plans, request)
    cluster.commit(plan.records)
    return plan.response.directories[0].topics[0].partitions[0].error_code


def test_a_replica_is_assigned_to_a_directory_without_a_leader_epoch(cluster: ControlledCluster) -> None:
    topic_id, (first, second) = cluster.image.topics["t"].topic_id, directories_of(1, 2)
    assert cluster.partition("t").directories == [UUID(int=1), *directories_of(2)]
    for directory in (first, second):
        assert assign(cluster, directory, topic_id) == 0
        state = cluster.partition("t")
        assert (state.directories, state.leader_epoch) == ([directory, *directories_of(2)], 0)
    end = len(cluster.log)
    assert (assign(cluster, second, topic_id), len(cluster.log)) == (0, end)


def test_a_replica_in_an_unknown_directory_is_offline(cluster: ControlledCluster) -> None:
    assert assign(cluster, UUID(int=4242), cluster.image.topics["t"].topic_id) == 0
    state = cluster.partition("t")
    assert (state.leader, state.isr, state.directories[0]) == (2, [2], UUID(int=4242))


def test_each_partition_has_its_own_error(cluster: ControlledCluster) -> None:
    (directory,), topic_id = directories_of(2), cluster.image.topics["t"].topic_id
    assert assign(cluster, directory, UUID(int=5)) == errors.UnknownTopicIdError.code
    assert assign(cluster, directory, topic_id, number=7) == errors.UnknownTopicOrPartitionError.code
    alone = cluster.create("u", [1])
    assert assign(cluster, directory, alone, node=2) == errors.NotLeaderOrFollowerError.code


def test_a_request_of_another_epoch_or_before_level_17_is_refused(cluster: ControlledCluster) -> None:
    with pytest.raises(errors.StaleBrokerEpochError):
        plan_assignment(cluster.plans, AssignReplicasToDirsRequest(broker_id=1, broker_epoch=0))
    old = ControlledCluster(level=16, has_eligible_leaders=False)
    with pytest.raises(errors.UnsupportedVersionError):
        plan_assignment(old.plans, AssignReplicasToDirsRequest())
