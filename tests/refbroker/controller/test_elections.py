"""Who leads a partition when brokers come and go, and which replicas stay eligible (KIP-966)."""

from __future__ import annotations

import pytest

from kclient import errors
from refbroker.controller import brokers
from refbroker.controller.elections import plan_election
from refbroker.controller.partition_changes import RECOVERED, RECOVERING, Election
from refbroker.metadata.image import PartitionState
from tests.support.controlled_cluster import ControlledCluster, directories_of, registration

NO_LEADER = -1


@pytest.fixture(name="cluster")
def three_brokers() -> ControlledCluster:
    cluster = ControlledCluster()
    for node in (1, 2, 3):
        cluster.start(node)
    return cluster


def fence(cluster: ControlledCluster, *nodes: int) -> None:
    for node in nodes:
        cluster.commit(brokers.fence(cluster.plans, node))


def crash(cluster: ControlledCluster, node: int) -> None:
    """Restart a broker that has lost what was not flushed."""
    fence(cluster, node)
    cluster.now_ms += 60_000
    cluster.register(registration(node, incarnation=cluster.image.next_offset))


def view(state: PartitionState) -> tuple[int, list[int], list[int], list[int]]:
    return state.leader, state.isr, state.eligible_leader_replicas, state.last_known_elr


def test_the_first_live_replica_in_sync_leads_after_the_leader(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 3, 2])
    fence(cluster, 1)
    state = cluster.partition("t")
    assert (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == (3, [3, 2], 1, 1)


def test_a_follower_leaves_the_in_sync_set_without_a_new_leader_epoch(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2, 3])
    fence(cluster, 3)
    state = cluster.partition("t")
    assert (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == (1, [1, 2], 0, 1)


def test_below_metadata_version_12_a_smaller_in_sync_set_begins_an_epoch() -> None:
    cluster = ControlledCluster(level=11, has_eligible_leaders=False)
    for node in (1, 2):
        cluster.start(node)
    cluster.create("t", [1, 2])
    fence(cluster, 2)
    state = cluster.partition("t")
    assert (state.leader, state.isr, state.leader_epoch) == (1, [1], 1)


def test_replicas_that_leave_below_min_isr_stay_eligible(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2, 3], min_insync_replicas="2")
    fence(cluster, 1)
    assert view(cluster.partition("t")) == (2, [2, 3], [], [])
    fence(cluster, 2)
    assert view(cluster.partition("t")) == (3, [3], [2], [])
    fence(cluster, 3)
    assert view(cluster.partition("t")) == (NO_LEADER, [], [2, 3], [3])


def test_an_eligible_replica_leads_as_soon_as_it_is_back(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2, 3], min_insync_replicas="2")
    fence(cluster, 1, 2, 3)
    cluster.beat(1)
    assert view(cluster.partition("t")) == (NO_LEADER, [], [2, 3], [3])
    cluster.beat(2)
    state = cluster.partition("t")
    assert view(state) == (2, [2], [3], [])
    assert state.leader_recovery_state == RECOVERED


def test_a_replica_that_lost_its_data_is_no_longer_eligible(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2, 3], min_insync_replicas="2")
    fence(cluster, 1, 2, 3)
    crash(cluster, 2)
    assert view(cluster.partition("t")) == (NO_LEADER, [], [3], [3])
    cluster.beat(2)
    assert cluster.partition("t").leader == NO_LEADER


def test_the_last_known_leader_recovers_if_no_replica_is_eligible(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2, 3], min_insync_replicas="2")
    fence(cluster, 1, 2, 3)
    crash(cluster, 2)
    crash(cluster, 3)
    assert view(cluster.partition("t")) == (NO_LEADER, [], [], [3])
    cluster.beat(2)
    assert cluster.partition("t").leader == NO_LEADER
    cluster.beat(3)
    state = cluster.partition("t")
    assert view(state) == (3, [3], [], [])
    assert state.leader_recovery_state == RECOVERING


def test_without_eligible_leaders_the_last_replica_stays_in_sync() -> None:
    cluster = ControlledCluster(has_eligible_leaders=False)
    for node in (1, 2):
        cluster.start(node)
    cluster.create("t", [1, 2])
    fence(cluster, 1, 2)
    assert view(cluster.partition("t")) == (NO_LEADER, [2], [], [])
    cluster.beat(1)
    assert cluster.partition("t").leader == NO_LEADER
    cluster.beat(2)
    assert view(cluster.partition("t")) == (2, [2], [], [])


def test_a_topic_that_allows_it_gets_an_unclean_leader_at_once() -> None:
    cluster = ControlledCluster(has_eligible_leaders=False)
    for node in (1, 2):
        cluster.start(node)
    cluster.create("t", [1, 2], unclean_leader_election_enable="true")
    fence(cluster, 2)
    cluster.beat(2)
    assert cluster.partition("t").isr == [1]
    fence(cluster, 1)
    state = cluster.partition("t")
    assert view(state) == (2, [2], [], [])
    assert state.leader_recovery_state == RECOVERING


def test_a_broker_that_shuts_down_gives_its_leaderships_away_first(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2])
    before = len(cluster.log)
    plan = cluster.beat(1, shut_down=True)
    assert [type(record).__name__ for record in cluster.log[before:]] == [
        "BrokerRegistrationChangeRecord",
        "PartitionChangeRecord",
    ]
    assert (plan.response.is_fenced, plan.response.should_shut_down) == (False, False)
    assert view(cluster.partition("t"))[:2] == (2, [2])


def test_a_broker_that_shuts_down_is_not_elected(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2, 3])
    cluster.create("u", [2])
    cluster.beat(2, shut_down=True)
    fence(cluster, 1)
    assert cluster.partition("t").leader == 3


def test_replicas_in_a_failed_directory_leave_the_in_sync_set(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2])
    registered = cluster.image.brokers[1]
    cluster.commit(brokers.take_offline(cluster.plans, registered, directories_of(1)))
    state = cluster.partition("t")
    assert (state.leader, state.isr) == (2, [2])


# ElectLeaders


def test_a_preferred_election_returns_the_first_replica(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2])
    fence(cluster, 1)
    cluster.beat(1)
    assert cluster.alter_isr("t", 2, 1) == 0
    cluster.commit([plan_election(cluster.plans, "t", 0, Election.PREFERRED)])
    state = cluster.partition("t")
    assert (state.leader, state.isr, state.leader_epoch) == (1, [2, 1], 2)
    with pytest.raises(errors.ElectionNotNeededError):
        plan_election(cluster.plans, "t", 0, Election.PREFERRED)


def test_no_preferred_election_while_the_first_replica_is_behind(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2])
    fence(cluster, 1)
    cluster.beat(1)
    with pytest.raises(errors.PreferredLeaderNotAvailableError):
        plan_election(cluster.plans, "t", 0, Election.PREFERRED)
