"""What holds for every division: against the Java client's own, and for random groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.assignors import (
    Assignment,
    CooperativeStickyAssignor,
    Member,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from kclient.assignors.sticky import encode_user_data
from kclient.types import TopicPartition
from tests.support.golden_data import golden_assignor_rows


def parsed(names: Iterable[str]) -> set[TopicPartition]:
    return {TopicPartition(topic, int(number)) for topic, _, number in (name.rpartition("-") for name in names)}


def as_sets(assignment: Mapping[str, Iterable[TopicPartition]]) -> dict[str, set[TopicPartition]]:
    return {member_id: set(given) for member_id, given in assignment.items()}


def loads(assignment: Mapping[str, Sequence[Any]]) -> list[int]:
    return sorted((len(given) for given in assignment.values()), reverse=True)


@pytest.mark.parametrize("kind", ["range", "roundrobin", "range_racks"])
def test_it_is_exactly_what_the_java_client_does(kind: str) -> None:
    for case in golden_assignor_rows(kind):
        instances, racks = case.get("instances", {}), case.get("memberRacks", {})
        members = {
            member_id: Member(topics, instance_id=instances.get(member_id), rack=racks.get(member_id))
            for member_id, topics in case["subscriptions"].items()
        }
        replicas = {
            partition: frozenset(found)
            for name, found in case.get("partitionRacks", {}).items()
            for partition in parsed([name])
        }
        assignor = RoundRobinAssignor() if kind == "roundrobin" else RangeAssignor()
        expected = {member_id: parsed(names) for member_id, names in case["assignment"].items()}
        assert as_sets(assignor.assign(case["topics"], members, replicas)) == expected


def test_sticky_is_at_least_as_balanced_and_as_sticky_as_the_java_client() -> None:
    for case in golden_assignor_rows("sticky"):
        before: dict[str, set[TopicPartition]] = {}
        for generation, step in enumerate(case["steps"]):
            members = {
                member_id: Member(topics, user_data=encode_user_data(before.get(member_id, ()), generation))
                for member_id, topics in step["subscriptions"].items()
            }
            ours = StickyAssignor().assign(case["topics"], members)
            java = {member_id: parsed(step["assignment"].get(member_id, ())) for member_id in members}
            kept = sum(len(set(mine) & before.get(member_id, set())) for member_id, mine in ours.items())
            assert set().union(*ours.values()) == set().union(*java.values())
            assert loads(ours) <= loads({member_id: list(given) for member_id, given in java.items()})
            assert kept >= step["kept"]
            before = java


topics = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 6), max_size=4)
groups = st.dictionaries(st.sampled_from("ABCDEF"), st.lists(st.sampled_from("abcde"), unique=True), max_size=6)


def check(partitions: Mapping[str, int], group: Mapping[str, list[str]], assignment: Assignment) -> None:
    """Everything that someone wants has exactly one owner, who wants it."""
    dealt = list(itertools.chain.from_iterable(assignment.values()))
    wanted = {topic for subscription in group.values() for topic in subscription}
    assert len(dealt) == len(set(dealt))
    assert set(dealt) == {
        TopicPartition(topic, number)
        for topic, count in partitions.items()
        for number in range(count)
        if topic in wanted
    }
    for member_id, mine in assignment.items():
        assert {partition.topic for partition in mine} <= set(group[member_id])


@given(partitions=topics, group=groups)
def test_every_partition_has_one_owner_who_wants_it(partitions: dict[str, int], group: dict[str, list[str]]) -> None:
    members = {member_id: Member(subscription) for member_id, subscription in group.items()}
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()):
        check(partitions, group, assignor.assign(partitions, members))


def balance(assignment: Mapping[str, Sequence[TopicPartition]]) -> int:
    return sum(len(mine) ** 2 for mine in assignment.values())


def best_balance(partitions: Mapping[str, int], group: Mapping[str, list[str]]) -> int:
    """The least sum of squares that any division has, found by trying them all, a partition at a time."""
    order = sorted(group)
    found = {tuple([0] * len(order))}
    for topic, count in partitions.items():
        takers = [index for index, member_id in enumerate(order) if topic in group[member_id]]
        for _ in range(count if takers else 0):
            found = {
                tuple(load + (index == taker) for index, load in enumerate(state))
                for state in found
                for taker in takers
            }
    return min(sum(load**2 for load in state) for state in found)


small_topics = st.dictionaries(st.sampled_from("abc"), st.integers(0, 4), max_size=3)
small_groups = st.dictionaries(
    st.sampled_from("ABCD"), st.lists(st.sampled_from("abc"), unique=True), min_size=1, max_size=4
)


@given(partitions=small_topics, groups=st.lists(small_groups, min_size=2, max_size=4))
def test_sticky_stays_as_balanced_as_can_be_however_the_group_changes(
    partitions: dict[str, int], groups: list[dict[str, list[str]]]
) -> None:
    before: Assignment = {}
    for generation, group in enumerate(groups):
        members = {
            member_id: Member(topics, user_data=encode_user_data(before.get(member_id, ()), generation))
            for member_id, topics in group.items()
        }
        after = StickyAssignor().assign(partitions, members)
        check(partitions, group, after)
        assert balance(after) == best_balance(partitions, group)
        if generation and group == groups[generation - 1]:
            assert as_sets(after) == as_sets(before), "nothing changed, so nothing moves"
        before = after


@given(count=st.integers(0, 40), first=st.integers(1, 6), second=st.integers(1, 6))
def test_with_equal_subscriptions_no_more_moves_than_balance_demands(count: int, first: int, second: int) -> None:
    partitions = {"t": count}
    before = StickyAssignor().assign(partitions, {f"m{number}": Member(["t"]) for number in range(first)})
    members = {
        member_id: Member(["t"], user_data=encode_user_data(before.get(member_id, ()), 1))
        for member_id in (f"m{number}" for number in range(second))
    }
    after = StickyAssignor().assign(partitions, members)
    quota, extra = divmod(count, second)
    held = sorted((len(before.get(member_id, ())) for member_id in members), reverse=True)
    at_best = sum(min(load, quota + (index < extra)) for index, load in enumerate(held))
    assert sum(len(set(after[m]) & set(before.get(m, ()))) for m in members) == at_best


@given(partitions=small_topics, groups=st.lists(small_groups, min_size=2, max_size=4))
def test_cooperative_members_never_share_and_end_where_sticky_ones_do(
    partitions: dict[str, int], groups: list[dict[str, list[str]]]
) -> None:
    owned: Assignment = {}
    generation = 0
    for group in groups:
        owned = {member_id: [p for p in owned.get(member_id, ()) if p.topic in group[member_id]] for member_id in group}
        for _ in range(3):
            generation += 1
            members = {
                member_id: Member(topics, owned=owned[member_id], generation=generation)
                for member_id, topics in group.items()
            }
            after = CooperativeStickyAssignor().assign(partitions, members)
            for member_id, mine in after.items():
                others = {p for other, theirs in owned.items() if other != member_id for p in theirs}
                assert not others & set(mine), "its owner has not given it up yet"
            settled = as_sets(after) == as_sets(owned)
            owned = after
        assert settled
        check(partitions, group, owned)
        assert balance(owned) == best_balance(partitions, group)
