"""Which assignors a member can do, and which way to rebalance follows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kclient.assignors import (
    COOPERATIVE,
    EAGER,
    NO_RACKS,
    Assignment,
    Assignor,
    CooperativeStickyAssignor,
    Member,
    Racks,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from kclient.config import ConsumerConfig
from kclient.consumer.group.classic.strategy import Strategy
from kclient.errors import ConfigError


class OnlyCooperative(RangeAssignor):
    name = "only-cooperative"
    protocols = (COOPERATIVE,)


class BothWays(RangeAssignor):
    name = "both"
    protocols = (COOPERATIVE, EAGER)


class NeedsArgument(RangeAssignor):
    name = "needs-argument"

    def __init__(self, weight: int) -> None:
        self.weight = weight


class Nameless(Assignor):
    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        return {}


@pytest.mark.parametrize(
    ("choice", "names", "cooperative"),
    [
        (ConsumerConfig().partition_assignment_strategy, ["range", "cooperative-sticky"], False),
        (["cooperative-sticky"], ["cooperative-sticky"], True),
        ("roundrobin, sticky", ["roundrobin", "sticky"], False),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", ["cooperative-sticky"], True),
        ([RoundRobinAssignor, StickyAssignor()], ["roundrobin", "sticky"], False),
        ([CooperativeStickyAssignor(), BothWays()], ["cooperative-sticky", "both"], True),
        ([OnlyCooperative], ["only-cooperative"], True),
    ],
    ids=["default", "a list of one", "names in a text", "Java's class", "a class and an object", "objects", "a class"],
)
def test_a_member_rebalances_in_the_best_way_that_all_its_assignors_can_do(
    choice: object, names: list[str], cooperative: bool
) -> None:
    strategy = Strategy(choice)  # type: ignore[arg-type]
    assert list(strategy.assignors) == names
    assert strategy.cooperative is cooperative


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ([], "must name assignors"),
        (["range", RangeAssignor], "each once"),
        (["rnage"], "there is no assignor 'rnage'; there are 'range', 'roundrobin'"),
        ([7], "a name or an object of a class that derives from kclient.assignors.Assignor, not 7"),
        (RangeAssignor, "must be a list of assignors, not <class"),
        ([NeedsArgument], "NeedsArgument is a class that cannot be called without arguments; give an object of it"),
        ([Nameless], 'Nameless has no name. Give the class one, as name = "mine"'),
        ([OnlyCooperative, "range"], "only-cooperative, range share no rebalance protocol"),
    ],
    ids=["none", "twice", "misspelt", "no assignor", "no list", "a class", "no name", "nothing in common"],
)
def test_what_cannot_be_is_refused(choice: object, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Strategy(choice)  # type: ignore[arg-type]
