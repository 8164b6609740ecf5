"""Where new partitions are placed: racks, fenced brokers, and placements by hand."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kclient import errors
from refbroker.controller import brokers
from refbroker.controller.placement import UsableBroker, check_assignment, check_replicas, place, usable_brokers
from tests.support.controlled_cluster import ControlledCluster, directories_of


def rack_of(node: int) -> str:
    return "abc"[node % 3]


def test_each_replica_is_in_a_rack_of_its_own(rng: random.Random) -> None:
    nodes = [UsableBroker(node, rack_of(node), fenced=False) for node in range(9)]
    placed = place(nodes, 60, 3, rng)
    assert all({rack_of(node) for node in replicas} == {"a", "b", "c"} for replicas in placed)
    assert all(len(set(replicas)) == 3 for replicas in placed)


def test_leaders_and_replicas_are_spread_over_all_brokers(rng: random.Random) -> None:
    nodes = [UsableBroker(node, None, fenced=False) for node in range(6)]
    placed = place(nodes, 60, 3, rng)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}
    assert set(Counter(node for replicas in placed for node in replicas).values()) == {30}


def test_fenced_brokers_come_last_and_never_first(rng: random.Random) -> None:
    nodes = [UsableBroker(node, None, fenced=node >= 3) for node in range(6)]
    assert all(node < 3 for replicas in place(nodes, 40, 3, rng) for node in replicas)
    for replicas in place(nodes, 40, 5, rng):
        assert {node for node in replicas[:3] if node < 3} == {0, 1, 2}
        assert len(set(replicas)) == 5


def test_the_leader_is_unfenced_even_in_another_rack(rng: random.Random) -> None:
    nodes = [UsableBroker(node, rack_of(node), fenced=rack_of(node) != "b") for node in range(9)]
    assert all(rack_of(replicas[0]) == "b" for replicas in place(nodes, 30, 3, rng))


@pytest.mark.parametrize(
    ("fenced", "replicas", "text"),
    [
        ([False], 0, "must be positive"),
        ([False, True], 3, "only 2 broker(s) are registered"),
        ([True, True], 1, "All brokers are currently fenced"),
        ([], 1, "All brokers are currently fenced"),
    ],
)
def test_a_placement_that_cannot_be(rng: random.Random, fenced: list[bool], replicas: int, text: str) -> None:
    nodes = [UsableBroker(node, None, one) for node, one in enumerate(fenced)]
    with pytest.raises(errors.InvalidReplicationFactorError) as refused:
        place(nodes, 1, replicas, rng)
    assert text in refused.value.message


def test_brokers_that_shut_down_or_are_cordoned_get_no_partitions() -> None:
    cluster = ControlledCluster()
    for node in (1, 2, 3, 4):
        cluster.start(node)
    cluster.create("t", [1, 2])
    cluster.beat(1, shut_down=True)
    cluster.commit(brokers.cordon(cluster.image.brokers[3], directories_of(3)))
    cluster.commit(brokers.fence(cluster.plans, 4))
    assert usable_brokers(cluster.image) == [UsableBroker(2, None, fenced=False), UsableBroker(4, None, fenced=True)]


@pytest.mark.parametrize(
    ("replicas", "factor", "text"),
    [
        ([], None, "an empty replica list"),
        ([1, 9], None, "no such broker is registered"),
        ([2, 1, 2], None, "includes the broker 2 more than once"),
        ([1], 2, "not consistent with previous partitions, which have 2 replica(s)"),
    ],
)
def test_an_assignment_by_hand_that_is_refused(replicas: list[int], factor: int | None, text: str) -> None:
    cluster = ControlledCluster()
    for node in (1, 2):
        cluster.start(node)
    with pytest.raises(errors.InvalidReplicaAssignmentError) as refused:
        check_replicas(cluster.image, replicas, factor)
    assert text in refused.value.message


def test_one_broker_of_an_assignment_must_be_active() -> None:
    cluster = ControlledCluster()
    for node in (1, 2):
        cluster.start(node)
    cluster.commit(brokers.fence(cluster.plans, 1))
    assert check_assignment(cluster.image, 0, [1, 2], 2) == [1, 2]
    with pytest.raises(errors.InvalidReplicaAssignmentError, match="partition 3 are fenced"):
        check_assignment(cluster.image, 3, [1], None)
