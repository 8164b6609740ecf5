"""In-sync sets that leaders propose: which the controller accepts, and the error of each that it refuses."""

from __future__ import annotations

from uuid import UUID

import pytest

from kclient import errors
from kclient.protocol.messages.alter_partition import AlterPartitionRequest
from refbroker.controller import brokers
from refbroker.controller.isr import plan_alter_partition
from refbroker.controller.partition_changes import RECOVERED, RECOVERING
from refbroker.controller.reassignments import plan_reassignment
from tests.support.controlled_cluster import ControlledCluster

OK = 0
INVALID = errors.InvalidRequestError.code


@pytest.fixture(name="cluster")
def one_replica_behind() -> ControlledCluster:
    """Partition 0 of `t` on brokers 1 to 3, of which 3 is not in sync."""
    cluster = ControlledCluster()
    for node in (1, 2, 3):
        cluster.start(node)
    cluster.create("t", [1, 2, 3], min_insync_replicas="2")
    cluster.commit(brokers.fence(cluster.plans, 3))
    cluster.beat(3)
    assert cluster.partition("t").isr == [1, 2]
    return cluster


def test_a_replica_joins_in_the_same_leader_epoch(cluster: ControlledCluster) -> None:
    before = cluster.partition("t").partition_epoch
    assert cluster.alter_isr("t", 1, 2, 3) == OK
    state = cluster.partition("t")
    assert (state.isr, state.leader_epoch, state.partition_epoch) == ([1, 2, 3], 0, before + 1)


def test_a_replica_that_leaves_below_min_isr_is_eligible(cluster: ControlledCluster) -> None:
    assert cluster.alter_isr("t", 1) == OK
    assert (cluster.partition("t").isr, cluster.partition("t").eligible_leader_replicas) == ([1], [2])
    assert cluster.alter_isr("t", 1, 2) == OK
    assert cluster.partition("t").eligible_leader_replicas == []


def test_the_response_is_the_state_of_the_partition_after_the_change(cluster: ControlledCluster) -> None:
    state, one = cluster.partition("t"), AlterPartitionRequest
    data = one.PartitionData(
        partition_index=0, leader_epoch=0, partition_epoch=state.partition_epoch, new_isr=[1, 2, 3]
    )
    topic = one.TopicData(topic_id=cluster.image.topics["t"].topic_id, partitions=[data])
    request = one(broker_id=1, broker_epoch=cluster.image.brokers[1].broker_epoch, topics=[topic])
    (answer,) = plan_alter_partition(cluster.plans, request, 2).response.topics[0].partitions
    assert (answer.error_code, answer.leader_id, answer.leader_epoch, answer.isr) == (OK, 1, 0, [1, 2, 3])
    assert answer.partition_epoch == state.partition_epoch + 1


@pytest.mark.parametrize(
    ("isr", "changed", "code"),
    [
        pytest.param([1, 2], {"leader_epoch": 1}, errors.NotControllerError.code, id="later leader epoch"),
        pytest.param([1, 2], {"partition_epoch": 9}, errors.NotControllerError.code, id="later partition epoch"),
        pytest.param([1, 2], {"leader_epoch": -1}, errors.FencedLeaderEpochError.code, id="earlier leader epoch"),
        pytest.param([1, 2], {"partition_epoch": 0}, errors.InvalidUpdateVersionError.code, id="earlier version"),
        pytest.param([1, 4], {}, INVALID, id="not a replica"),
        pytest.param([1, 1], {}, INVALID, id="a replica twice"),
        pytest.param([2, 3], {}, INVALID, id="without the leader"),
        pytest.param([], {}, INVALID, id="empty"),
        pytest.param([1], {"leader_recovery_state": RECOVERING}, INVALID, id="recovering again"),
        pytest.param([1], {"leader_recovery_state": 7}, INVALID, id="unknown recovery state"),
        pytest.param([1], {"partition_index": 3}, errors.UnknownTopicOrPartitionError.code, id="unknown partition"),
    ],
)
def test_a_proposal_that_is_refused(
    cluster: ControlledCluster, isr: list[int], changed: dict[str, int], code: int
) -> None:
    end = len(cluster.log)
    assert cluster.alter_isr("t", *isr, **changed) == code
    assert len(cluster.log) == end


def test_replicas_that_are_fenced_or_shut_down_are_ineligible(cluster: ControlledCluster) -> None:
    ineligible = errors.IneligibleReplicaError.code
    cluster.commit(brokers.fence(cluster.plans, 3))
    assert cluster.alter_isr("t", 1, 2, 3) == ineligible
    cluster.beat(3)
    cluster.create("u", [3])
    cluster.beat(3, shut_down=True)
    assert cluster.alter_isr("t", 1, 2, 3) == ineligible
    cluster.commit(brokers.unregister(cluster.plans, 3))
    assert cluster.alter_isr("t", 1, 2, 3) == ineligible


def test_a_replica_that_restarted_since_it_was_caught_up_is_ineligible(cluster: ControlledCluster) -> None:
    state, one = cluster.partition("t"), AlterPartitionRequest
    epoch = cluster.image.brokers[3].broker_epoch
    data = one.PartitionData(
        partition_epoch=state.partition_epoch,
        new_isr_with_epochs=[
            one.BrokerState(broker_id=1),
            one.BrokerState(broker_id=3, broker_epoch=epoch - 1),
        ],
    )
    topic = one.TopicData(topic_id=cluster.image.topics["t"].topic_id, partitions=[data])
    request = one(broker_id=1, broker_epoch=cluster.image.brokers[1].broker_epoch, topics=[topic])
    plan = plan_alter_partition(cluster.plans, request, 3)
    assert plan.response.topics[0].partitions[0].error_code == errors.IneligibleReplicaError.code
    data.new_isr_with_epochs[1].broker_epoch = epoch
    assert plan_alter_partition(cluster.plans, request, 3).records != []


def test_only_the_leader_may_propose(cluster: ControlledCluster) -> None:
    one = AlterPartitionRequest
    data = one.PartitionData(
        partition_epoch=cluster.partition("t").partition_epoch, new_isr_with_epochs=[one.BrokerState(broker_id=1)]
    )
    topic_id = cluster.image.topics["t"].topic_id
    request = one(broker_id=2, broker_epoch=cluster.image.brokers[2].broker_epoch)
    request.topics = [one.TopicData(topic_id=known, partitions=[data]) for known in (topic_id, UUID(int=5))]
    plan = plan_alter_partition(cluster.plans, request, 3)
    codes = [topic.partitions[0].error_code for topic in plan.response.topics]
    assert (codes, plan.records) == ([INVALID, errors.UnknownTopicIdError.code], [])


def test_a_broker_of_another_epoch_is_refused_as_a_whole(cluster: ControlledCluster) -> None:
    for node, epoch in ((1, 0), (8, -1)):
        with pytest.raises(errors.StaleBrokerEpochError):
            plan_alter_partition(cluster.plans, AlterPartitionRequest(broker_id=node, broker_epoch=epoch), 3)


def test_a_leader_recovers_before_others_join() -> None:
    cluster = ControlledCluster(has_eligible_leaders=False)
    for node in (1, 2):
        cluster.start(node)
    cluster.create("t", [1, 2], unclean_leader_election_enable="true")
    for node in (2, 1):
        cluster.commit(brokers.fence(cluster.plans, node))
    cluster.beat(2)
    cluster.beat(1)
    assert cluster.partition("t").leader_recovery_state == RECOVERING
    assert cluster.alter_isr("t", 2, 1) == INVALID
    assert cluster.alter_isr("t", 2, leader_recovery_state=RECOVERED) == OK
    assert cluster.alter_isr("t", 2, 1) == OK
    assert cluster.partition("t").leader_recovery_state == RECOVERED


def test_a_reassignment_is_complete_when_the_new_replicas_are_in_sync(cluster: ControlledCluster) -> None:
    cluster.create("m", [1, 2])
    change = plan_reassignment(cluster.plans, "m", 0, [2, 3], may_change_count=False)
    assert change is not None
    cluster.commit([change])
    state = cluster.partition("m")
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ([2, 3, 1], [3], [1])
    # The leader is among the replicas that are removed, so another one leads when it is done.
    assert cluster.alter_isr("m", 1, 2, 3) == errors.NewLeaderElectedError.code
    assert (state.replicas, state.isr, state.leader) == ([2, 3], [2, 3], 2)
    assert (state.adding_replicas, state.removing_replicas) == ([], [])
