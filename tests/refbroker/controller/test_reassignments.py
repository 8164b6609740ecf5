"""Reassignments of partitions over several brokers: their stages, and their cancellation."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kclient import errors
from refbroker.controller import brokers
from refbroker.controller.partition_changes import RECOVERING
from refbroker.controller.reassignments import is_reassigning, plan_cancellation, plan_reassignment
from tests.support.controlled_cluster import ControlledCluster


@pytest.fixture(name="cluster")
def four_brokers() -> ControlledCluster:
    cluster = ControlledCluster()
    for node in (1, 2, 3, 4):
        cluster.start(node)
    cluster.create("t", [1, 2])
    return cluster


def reassign(cluster: ControlledCluster, replicas: Sequence[int]) -> None:
    change = plan_reassignment(cluster.plans, "t", 0, replicas, may_change_count=True)
    assert change is not None
    cluster.commit([change])


def cancel(cluster: ControlledCluster) -> None:
    change = plan_cancellation(cluster.plans, "t", 0)
    assert change is not None
    cluster.commit([change])


def stage(cluster: ControlledCluster) -> tuple[list[int], list[int], list[int], list[int]]:
    state = cluster.partition("t")
    return state.replicas, state.isr, state.adding_replicas, state.removing_replicas


def test_new_replicas_are_added_before_old_ones_are_removed(cluster: ControlledCluster) -> None:
    reassign(cluster, [3, 4])
    assert stage(cluster) == ([3, 4, 1, 2], [1, 2], [3, 4], [1, 2])
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (1, 0)
    assert cluster.alter_isr("t", 1, 2, 3) == 0
    assert stage(cluster) == ([3, 4, 1, 2], [1, 2, 3], [3, 4], [1, 2])
    assert cluster.alter_isr("t", 1, 2, 3, 4) == errors.NewLeaderElectedError.code
    assert stage(cluster) == ([3, 4], [3, 4], [], [])
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (3, 1)


def test_another_order_of_the_same_replicas_is_complete_at_once(cluster: ControlledCluster) -> None:
    reassign(cluster, [2, 1])
    assert stage(cluster) == ([2, 1], [1, 2], [], [])
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (1, 0)


def test_a_removed_replica_begins_a_leader_epoch(cluster: ControlledCluster) -> None:
    reassign(cluster, [1])
    assert stage(cluster) == ([1], [1], [], [])
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (1, 1)


def test_fewer_replicas_wait_until_all_that_stay_are_in_sync(cluster: ControlledCluster) -> None:
    cluster.create("u", [1, 2, 3])
    cluster.commit(brokers.fence(cluster.plans, 2))
    change = plan_reassignment(cluster.plans, "u", 0, [2, 1], may_change_count=True)
    assert change is not None
    cluster.commit([change])
    state = cluster.partition("u")
    assert (state.replicas, state.isr, state.removing_replicas) == ([2, 1, 3], [1, 3], [3])
    cluster.beat(2)
    assert cluster.alter_isr("u", 1, 3, 2) == 0
    assert (state.replicas, state.isr, is_reassigning(state)) == ([2, 1], [1, 2], False)


def test_a_cancelled_reassignment_removes_the_new_replicas(cluster: ControlledCluster) -> None:
    reassign(cluster, [3, 4])
    cluster.alter_isr("t", 1, 2, 3)
    cancel(cluster)
    assert stage(cluster) == ([1, 2], [1, 2], [], [])
    assert cluster.partition("t").leader_epoch == 1
    with pytest.raises(errors.NoReassignmentInProgressError):
        plan_cancellation(cluster.plans, "t", 0)


def test_a_reassignment_in_progress_can_get_another_target(cluster: ControlledCluster) -> None:
    reassign(cluster, [3, 4])
    reassign(cluster, [1, 3])
    assert stage(cluster) == ([1, 3, 2, 4], [1, 2], [3, 4], [2, 4])


def test_only_new_replicas_in_sync_cannot_be_cancelled(cluster: ControlledCluster) -> None:
    reassign(cluster, [3, 4])
    assert cluster.alter_isr("t", 1, 3) == 0
    cluster.commit(brokers.fence(cluster.plans, 1))
    assert stage(cluster)[1] == [3]
    with pytest.raises(errors.InvalidReplicaAssignmentError):
        plan_cancellation(cluster.plans, "t", 0)
    cluster.configure("t", unclean_leader_election_enable="true")
    cancel(cluster)
    assert stage(cluster) == ([1, 2], [2], [], [])
    assert cluster.partition("t").leader_recovery_state == RECOVERING


def test_the_number_of_replicas_stays_if_it_must(cluster: ControlledCluster) -> None:
    with pytest.raises(errors.InvalidReplicationFactorError):
        plan_reassignment(cluster.plans, "t", 0, [1, 2, 3], may_change_count=False)
    reassign(cluster, [3, 4])
    assert plan_reassignment(cluster.plans, "t", 0, [2, 4], may_change_count=False) is not None


def test_a_removed_replica_is_no_longer_eligible(cluster: ControlledCluster) -> None:
    cluster.create("u", [1, 2, 3], min_insync_replicas="3")
    cluster.commit(brokers.fence(cluster.plans, 3))
    assert cluster.partition("u").eligible_leader_replicas == [3]
    change = plan_reassignment(cluster.plans, "u", 0, [1, 2, 4], may_change_count=False)
    assert change is not None
    cluster.commit([change])
    assert cluster.partition("u").eligible_leader_replicas == [3]
    assert cluster.alter_isr("u", 1, 2, 4) == 0
    state = cluster.partition("u")
    assert (state.replicas, state.isr, state.eligible_leader_replicas) == ([1, 2, 4], [1, 2, 4], [])


def test_a_replica_removed_below_min_isr_does_not_keep_others_from_leading(cluster: ControlledCluster) -> None:
    cluster.create("u", [1, 2], min_insync_replicas="2")
    cluster.commit(brokers.fence(cluster.plans, 2))
    change = plan_reassignment(cluster.plans, "u", 0, [1], may_change_count=True)
    # Two replicas become one: it waits for nothing, and the other one is not needed any longer.
    assert change is not None
    cluster.commit([change])
    state = cluster.partition("u")
    assert (state.replicas, state.isr, state.eligible_leader_replicas) == ([1], [1], [])
    cluster.commit(brokers.fence(cluster.plans, 1))
    cluster.beat(1)
    assert state.leader == 1
