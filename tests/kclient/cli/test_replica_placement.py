"""The placement of a generated plan: even over brokers, over as many racks as there are, and the same every time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.cli.failures import CommandError
from kclient.cli.replica_placement import place
from kclient.types import TopicPartition


def partitions(count: int, replicas: tuple[int, ...] = (1,), topic: str = "t") -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition(topic, number): replicas for number in range(count)}


@given(
    brokers=st.integers(1, 8),
    racks=st.integers(1, 4),
    count=st.integers(1, 40),
    factor=st.integers(1, 4),
)
def test_leaders_and_racks_are_used_evenly(brokers: int, racks: int, count: int, factor: int) -> None:
    factor = min(factor, brokers)
    of = {broker: f"rack {broker % racks}" for broker in range(brokers)}
    placed = place(partitions(count), of, factor)
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        assert len({of[broker] for broker in replicas}) == min(factor, len(set(of.values())))
    leaders = Counter(dict.fromkeys(of, 0))
    leaders.update(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders.values()) <= 1
    if brokers % racks == 0 or racks >= brokers:
        load = Counter(dict.fromkeys(of, 0))
        load.update(broker for replicas in placed.values() for broker in replicas)
        assert max(load.values()) - min(load.values()) <= 2


def test_the_same_cluster_gives_the_same_plan() -> None:
    racks = dict.fromkeys((3, 1, 2), "r")
    first = place(partitions(6), racks, 2)
    assert place(partitions(6), dict(reversed(racks.items())), 2) == first


def test_several_topics_are_spread_together() -> None:
    current = partitions(1, topic="a") | partitions(1, topic="b") | partitions(1, topic="c")
    placed = place(current, dict.fromkeys((1, 2, 3), None))
    assert sorted(placed.values()) == [(1,), (2,), (3,)]


def test_each_partition_keeps_its_number_of_replicas() -> None:
    current = {TopicPartition("t", 0): (1,), TopicPartition("t", 1): (1, 2, 3)}
    placed = place(current, dict.fromkeys((1, 2, 3, 4), None))
    assert [len(replicas) for replicas in placed.values()] == [1, 3]


def test_replicas_stay_where_they_are_if_that_is_even() -> None:
    current = {TopicPartition("t", number): ((number + 1) % 3, number % 3) for number in range(3)}
    assert place(current, dict.fromkeys(range(3), None)) == current


def test_the_followers_of_a_leader_differ_so_that_its_failure_burdens_all() -> None:
    placed = place(partitions(12), dict.fromkeys((1, 2, 3, 4), None), 2)
    pairs = Counter(placed.values())
    assert len(pairs) >= 8, pairs


def test_more_replicas_than_brokers_are_an_error() -> None:
    with pytest.raises(CommandError, match="t-0 needs 3 brokers for its replicas, and there is 1, 2"):
        place(partitions(1), {1: None, 2: None}, 3)
