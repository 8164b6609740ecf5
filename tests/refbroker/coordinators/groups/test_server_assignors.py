"""The assignors on the broker: worked examples, what Kafka's own answer, and balance and stickiness whatever comes."""

from __future__ import annotations

import random
from collections import Counter
from uuid import UUID

import pytest

from refbroker.config import BrokerConfig
from refbroker.coordinators.groups.assignors import ASSIGNORS
from refbroker.coordinators.groups.assignors.range import assign_range
from refbroker.coordinators.groups.assignors.spec import Assignment, GroupSpec, MemberSpec
from refbroker.coordinators.groups.assignors.uniform import assign_uniform
from refbroker.coordinators.groups.consumer.settings import assignor_names
from tests.support.assignor_cases import assigned_here
from tests.support.golden_data import golden_rows

T, U, V = UUID(int=1), UUID(int=2), UUID(int=3)


def group(partitions: dict[UUID, int], **members: MemberSpec) -> GroupSpec:
    return GroupSpec(members, partitions)


def on(*topics: UUID, instance_id: str | None = None, **assigned: list[int]) -> MemberSpec:
    names = {"t": T, "u": U, "v": V}
    return MemberSpec(
        frozenset(topics), {names[name]: frozenset(numbers) for name, numbers in assigned.items()}, instance_id
    )


def short(assignments: dict[str, Assignment]) -> dict[str, dict[int, list[int]]]:
    return {
        member: {topic.int: sorted(numbers) for topic, numbers in assignment.items()}
        for member, assignment in assignments.items()
    }


def test_range_gives_the_first_members_one_more_of_each_topic() -> None:
    given = assign_range(group({T: 3, U: 3}, a=on(T, U), b=on(T, U)))
    assert short(given) == {"a": {1: [0, 1], 2: [0, 1]}, "b": {1: [2], 2: [2]}}


def test_range_counts_only_subscribers() -> None:
    given = assign_range(group({T: 3, U: 2}, a=on(T), b=on(T, U), c=on(U)))
    assert short(given) == {"a": {1: [0, 1]}, "b": {1: [2], 2: [0]}, "c": {2: [1]}}


def test_range_orders_static_members_by_their_instance_ids_and_before_the_others() -> None:
    given = assign_range(group({T: 3}, a=on(T), x=on(T, instance_id="2"), y=on(T, instance_id="1")))
    assert short(given) == {"y": {1: [0]}, "x": {1: [1]}, "a": {1: [2]}}


def test_range_leaves_members_beyond_the_number_of_partitions_without_any() -> None:
    assert short(assign_range(group({T: 1}, a=on(T), b=on(T)))) == {"a": {1: [0]}, "b": {}}


def test_uniform_balances_all_topics_together() -> None:
    given = assign_uniform(group({T: 3, U: 3}, a=on(T, U), b=on(T, U)))
    assert short(given) == {"a": {1: [0, 1, 2]}, "b": {2: [0, 1, 2]}}


def test_uniform_moves_no_more_than_a_new_member_needs() -> None:
    given = assign_uniform(group({T: 6}, a=on(T, t=[0, 1, 2]), b=on(T, t=[3, 4, 5]), c=on(T)))
    assert short(given) == {"a": {1: [0, 1]}, "b": {1: [3, 4]}, "c": {1: [2, 5]}}


def test_uniform_lets_keep_the_one_more_who_has_it() -> None:
    given = assign_uniform(group({T: 5}, a=on(T, t=[0, 1]), b=on(T, t=[2, 3, 4])))
    assert short(given) == {"a": {1: [0, 1]}, "b": {1: [2, 3, 4]}}


def test_uniform_takes_back_topics_that_nobody_is_subscribed_to() -> None:
    assert short(assign_uniform(group({U: 1}, a=on(U, t=[0, 1])))) == {"a": {2: [0]}}
    assert short(assign_uniform(group({}, a=on(t=[0])))) == {"a": {}}
    assert assign_uniform(group({})) == {}


def test_uniform_with_different_subscriptions_gives_to_those_with_the_fewest() -> None:
    given = assign_uniform(group({T: 1, U: 2, V: 3}, a=on(T), b=on(T, U), c=on(T, U, V)))
    assert short(given) == {"a": {1: [0]}, "b": {2: [0, 1]}, "c": {3: [0, 1, 2]}}


def test_uniform_with_different_subscriptions_balances_what_was_assigned() -> None:
    given = assign_uniform(group({T: 6, U: 1}, a=on(T, t=[0, 1, 2, 3, 4, 5]), b=on(T, U, u=[0])))
    assert short(given) == {"a": {1: [0, 1, 2, 3]}, "b": {1: [4, 5], 2: [0]}}


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("range", ("range",)),
        ("range,uniform", ("range", "uniform")),
        ("org.example.Mine,range", ("range",)),
        ("org.example.Mine", ("uniform", "range")),
    ],
)
def test_a_broker_has_the_assignors_of_its_setting_that_are_known_here(setting: str, names: tuple[str, ...]) -> None:
    assert assignor_names(BrokerConfig({"group.consumer.assignors": setting})) == names


def test_groups_are_assigned_as_by_kafka() -> None:
    sample = golden_rows("server_assignors")
    assert {case["assignor"] for case in sample} == ASSIGNORS.keys()
    for case in sample:
        assert assigned_here(case) == case["result"], case


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", range(60))
def test_every_partition_of_a_subscribed_topic_has_one_subscriber(name: str, seed: int) -> None:
    rng = random.Random(seed)
    topics = {UUID(int=number): rng.randint(1, 9) for number in range(1, 5)}
    same = seed % 2 == 0
    assigned: dict[str, Assignment] = {}
    for _ in range(4):
        members = {}
        for number in range(rng.randint(1, 7)):
            wanted = frozenset(topics if same else rng.sample(sorted(topics), rng.randint(1, 4)))
            members[f"m{number}"] = MemberSpec(wanted, assigned.get(f"m{number}", {}))
        subscribed = {topic for member in members.values() for topic in member.topics}
        partitions = {topic: count for topic, count in topics.items() if topic in subscribed}
        before, assigned = assigned, ASSIGNORS[name](GroupSpec(members, partitions))
        owned = Counter(
            (topic, number)
            for member_id, assignment in assigned.items()
            for topic, numbers in assignment.items()
            for number in numbers
            if topic in members[member_id].topics
        )
        assert owned == Counter((topic, number) for topic, count in partitions.items() for number in range(count))
        if name == "uniform" and same:
            sizes = [sum(map(len, assignment.values())) for assignment in assigned.values()]
            assert max(sizes) - min(sizes) <= 1
            check_sticky(before, assigned, sum(topics.values()))


def check_sticky(before: dict[str, Assignment], after: dict[str, Assignment], total: int) -> None:
    """Members keep as much as their share allows."""
    least = total // len(after)
    for member_id, assignment in after.items():
        former = before.get(member_id, {})
        kept = sum(len(numbers & former.get(topic, frozenset())) for topic, numbers in assignment.items())
        assert kept >= min(sum(map(len, former.values())), least)
