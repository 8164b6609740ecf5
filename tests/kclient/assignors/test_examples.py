"""The assignors of the examples, each as it stands in its program."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path

import pytest

from kclient.assignors import Assignment, Assignor, Member
from kclient.types import TopicPartition

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def example(file: str, name: str) -> Assignor:
    made: Assignor = runpy.run_path(str(EXAMPLES / file), run_name="example")[name]()
    return made


def numbers(assignment: Assignment) -> dict[str, list[str]]:
    return {member_id: [f"{topic}p{number}" for topic, number in given] for member_id, given in assignment.items()}


def everyone(*member_ids: str, topics: Sequence[str]) -> dict[str, Member]:
    return {member_id: Member(topics) for member_id in member_ids}


def test_broadcast_gives_everything_to_everyone_who_wants_it() -> None:
    members = {"A": Member(["t", "u"]), "B": Member(["t"]), "C": Member(["gone"])}
    assert numbers(example("broadcast_assignor.py", "BroadcastAssignor").assign({"t": 2, "u": 1}, members)) == {
        "A": ["tp0", "tp1", "up0"],
        "B": ["tp0", "tp1"],
        "C": [],
    }


def test_range_over_all_topics_divides_nine_partitions_into_the_first_five_and_four() -> None:
    topics = ["t0", "t1", "t2"]
    assignor = example("range_over_all_topics.py", "RangeOverAllTopics")
    assert numbers(assignor.assign(dict.fromkeys(topics, 3), everyone("C0", "C1", topics=topics))) == {
        "C0": ["t0p0", "t0p1", "t0p2", "t1p0", "t1p1"],
        "C1": ["t1p2", "t2p0", "t2p1", "t2p2"],
    }
    assert numbers(assignor.assign({"t0": 1}, everyone("C0", "C1", topics=topics))) == {"C0": ["t0p0"], "C1": []}
    with pytest.raises(ValueError, match="all members must subscribe to the same topics"):
        assignor.assign({"t0": 1}, {"C0": Member(["t0"]), "C1": Member(["t1"])})


def test_hash_order_deals_evenly_and_always_alike() -> None:
    topics = [f"t{number}" for number in range(10)]
    assignor = example("hash_order_assignor.py", "HashOrderAssignor")
    members = everyone("C0", "C1", topics=topics)
    first = assignor.assign(dict.fromkeys(topics, 2), members)
    assert [len(given) for given in first.values()] == [10, 10]
    assert assignor.assign(dict.fromkeys(reversed(topics), 2), dict(reversed(members.items()))) == first
    assert len({number for _, number in first["C0"]}) == 2, "round robin would give it all partitions 0"


def test_hash_order_passes_over_members_that_do_not_subscribe() -> None:
    members = {"C0": Member(["t"]), "C1": Member(["u"]), "C2": Member([])}
    given = example("hash_order_assignor.py", "HashOrderAssignor").assign({"t": 3, "u": 2}, members)
    assert {member_id: set(each) for member_id, each in given.items()} == {
        "C0": {TopicPartition("t", number) for number in range(3)},
        "C1": {TopicPartition("u", number) for number in range(2)},
        "C2": set(),
    }
