"""Elections at intervals: preferred leaders, and leaders for partitions without one."""

from __future__ import annotations

import pytest

from refbroker.controller import brokers
from refbroker.controller.balance import plan_preferred_leaders, plan_unclean_leaders
from tests.support.controlled_cluster import ControlledCluster


@pytest.fixture(name="cluster")
def two_brokers() -> ControlledCluster:
    cluster = ControlledCluster(has_eligible_leaders=False)
    for node in (1, 2):
        cluster.start(node)
    return cluster


def restart(cluster: ControlledCluster, node: int) -> None:
    cluster.commit(brokers.fence(cluster.plans, node))
    cluster.beat(node)


def test_every_partition_gets_its_preferred_leader_back(cluster: ControlledCluster) -> None:
    for name in ("t", "u"):
        cluster.create(name, [1, 2])
    restart(cluster, 1)
    assert cluster.alter_isr("t", 2, 1) == 0
    assert (len(cluster.index.imbalanced()), len(plan_preferred_leaders(cluster.plans).records)) == (2, 1)
    assert cluster.alter_isr("u", 2, 1) == 0
    plan = plan_preferred_leaders(cluster.plans)
    cluster.commit(plan.records)
    assert (plan.has_more, cluster.partition("t").leader, cluster.partition("u").leader) == (False, 1, 1)
    assert plan_preferred_leaders(cluster.plans).records == []


def test_a_check_has_a_limited_number_of_elections(cluster: ControlledCluster) -> None:
    for name in ("t", "u", "v"):
        cluster.create(name, [1, 2])
    restart(cluster, 1)
    for name in ("t", "u", "v"):
        cluster.alter_isr(name, 2, 1)
    counts = []
    while plan := plan_preferred_leaders(cluster.plans, 2):
        cluster.commit(plan.records)
        counts.append((len(plan.records), plan.has_more))
        if not plan.has_more:
            break
    assert counts == [(2, True), (1, False)]


def test_unclean_leaders_only_where_the_topic_allows_them(cluster: ControlledCluster) -> None:
    for name in ("t", "u"):
        cluster.create(name, [1, 2])
    restart(cluster, 2)
    cluster.commit(brokers.fence(cluster.plans, 1))
    assert len(cluster.index.leaderless()) == 2
    assert plan_unclean_leaders(cluster.plans).records == []
    cluster.configure("u", unclean_leader_election_enable="true")
    cluster.commit(plan_unclean_leaders(cluster.plans).records)
    assert (cluster.partition("t").leader, cluster.partition("u").leader) == (-1, 2)


def test_no_unclean_election_while_no_replica_is_alive(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2], unclean_leader_election_enable="true")
    for node in (2, 1):
        cluster.commit(brokers.fence(cluster.plans, node))
    assert plan_unclean_leaders(cluster.plans).records == []
