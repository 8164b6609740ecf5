"""The divisions that every Kafka client agrees on, worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kclient.assignors import (
    Assignment,
    Assignor,
    CooperativeStickyAssignor,
    Member,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from kclient.assignors.sticky import decode_user_data, encode_user_data
from kclient.types import TopicPartition

T0_T1_T2 = {"t0": 1, "t1": 2, "t2": 3}
UNEQUAL = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}


def short(assignment: Assignment) -> dict[str, str]:
    """An assignment as the examples write it: `{"C0": "t0p0 t0p1"}`."""
    return {
        member_id: " ".join(f"{topic}p{number}" for topic, number in sorted(given))
        for member_id, given in assignment.items()
    }


def subscribed(subscriptions: Mapping[str, Sequence[str]]) -> dict[str, Member]:
    return {member_id: Member(topics) for member_id, topics in subscriptions.items()}


def everyone(*member_ids: str, topics: Sequence[str]) -> dict[str, Member]:
    return subscribed(dict.fromkeys(member_ids, topics))


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (3, {"C0": "t0p0 t0p1 t1p0 t1p1", "C1": "t0p2 t1p2"}),
        (4, {"C0": "t0p0 t0p1 t1p0 t1p1", "C1": "t0p2 t0p3 t1p2 t1p3"}),
    ],
)
def test_range(count: int, expected: dict[str, str]) -> None:
    members = everyone("C0", "C1", topics=["t0", "t1"])
    assert short(RangeAssignor().assign({"t0": count, "t1": count}, members)) == expected


def test_round_robin() -> None:
    members = everyone("C0", "C1", topics=["t0", "t1"])
    assert short(RoundRobinAssignor().assign({"t0": 3, "t1": 3}, members)) == {
        "C0": "t0p0 t0p2 t1p1",
        "C1": "t0p1 t1p0 t1p2",
    }


def test_round_robin_with_unequal_subscriptions() -> None:
    assert short(RoundRobinAssignor().assign(T0_T1_T2, subscribed(UNEQUAL))) == {
        "C0": "t0p0",
        "C1": "t1p0",
        "C2": "t1p1 t2p0 t2p1 t2p2",
    }


@pytest.mark.parametrize("second", [["t0", "t1"], ["t1"]])
@pytest.mark.parametrize("assignor", [StickyAssignor, CooperativeStickyAssignor])
def test_sticky_with_unequal_subscriptions(assignor: type[Assignor], second: list[str]) -> None:
    members = subscribed({**UNEQUAL, "C1": second})
    assert short(assignor().assign(T0_T1_T2, members)) == {"C0": "t0p0", "C1": "t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}


def test_sticky_keeps_what_it_can_when_a_member_leaves() -> None:
    topics = {f"t{number}": 2 for number in range(4)}
    first = StickyAssignor().assign(topics, everyone("C0", "C1", "C2", topics=list(topics)))
    assert short(first) == {"C0": "t0p0 t1p1 t3p0", "C1": "t0p1 t2p0 t3p1", "C2": "t1p0 t2p1"}
    left = {
        member_id: Member(list(topics), user_data=encode_user_data(first[member_id], 1)) for member_id in ("C0", "C2")
    }
    second = StickyAssignor().assign(topics, left)
    for member_id, given in second.items():
        assert set(first[member_id]) <= set(given)
        assert len(given) == 4


def test_cooperative_sticky_gives_what_moves_to_nobody_at_first() -> None:
    topics = {"t": 4}
    owned = [TopicPartition("t", number) for number in range(4)]
    members = {"C0": Member(["t"], owned=owned, generation=1), "C1": Member(["t"])}
    assert short(CooperativeStickyAssignor().assign(topics, members)) == {"C0": "tp0 tp1", "C1": ""}
    members["C0"] = Member(["t"], owned=owned[:2], generation=2)
    assert short(CooperativeStickyAssignor().assign(topics, members)) == {"C0": "tp0 tp1", "C1": "tp2 tp3"}


def test_of_two_claims_the_later_generation_counts_and_of_equal_ones_neither() -> None:
    p0, p1 = TopicPartition("t", 0), TopicPartition("t", 1)
    members = {
        "A": Member(["t"], owned=[p0, p1], generation=4),
        "B": Member(["t"], owned=[p0], generation=5),
    }
    # A has missed a rebalance: it must give up what B has, and B keeps it.
    assert short(CooperativeStickyAssignor().assign({"t": 2}, members)) == {"A": "tp1", "B": "tp0"}
    assert short(CooperativeStickyAssignor().assign({"t": 1}, {**members, "B": Member(["t"])})) == {"A": "tp0", "B": ""}
    sticky = {
        member_id: Member(["t"], user_data=encode_user_data(member.owned, member.generation))
        for member_id, member in members.items()
    }
    assert short(StickyAssignor().assign({"t": 2}, sticky)) == {"A": "tp1", "B": "tp0"}


def test_static_members_keep_their_place_whatever_their_member_ids_are() -> None:
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor()):
        given = {}
        for ids in (("x", "y"), ("y", "x")):
            members = {
                ids[0]: Member(["t"], instance_id="one"),
                ids[1]: Member(["t"], instance_id="two"),
            }
            assigned = assignor.assign({"t": 5}, members)
            given[ids] = [sorted(assigned[member_id]) for member_id in ids]
        assert given["x", "y"] == given["y", "x"]


def test_a_member_is_given_nothing_that_does_not_exist_or_that_it_does_not_want() -> None:
    gone = [TopicPartition("gone", 0), TopicPartition("t", 7), TopicPartition("u", 0)]
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()):
        members = {
            "A": Member(["t", "gone"], owned=gone, user_data=encode_user_data(gone, 3)),
            "B": Member([]),
        }
        assert short(assignor.assign({"t": 1, "u": 1}, members)) == {"A": "tp0", "B": ""}
        assert assignor.assign({"t": 1}, {}) == {}


def test_what_a_sticky_member_says_is_javas_format() -> None:
    owned = [TopicPartition("ab", 3), TopicPartition("c", 0), TopicPartition("ab", 1)]
    data = encode_user_data(owned, 9)
    assert data.hex() == (
        "00000002" + "0002" + "6162" + "00000002" + "00000003" + "00000001"
        "0001" + "63" + "00000001" + "00000000" + "00000009"
    )  # fmt: skip
    assert decode_user_data(data) == ([owned[0], owned[2], owned[1]], 9)
    assert decode_user_data(data[:-4])[1] == -1, "before 2.3 there was no generation"


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x7f\xff\xff\xff", bytes.fromhex("0000000100016100ffffff00000000")])
def test_invalid_user_data_counts_as_no_claim(data: bytes) -> None:
    assert decode_user_data(data) == ((), -1)
