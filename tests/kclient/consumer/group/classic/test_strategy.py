"""Which assignors a member can do, and which way to rebalance follows."""

from __future__ import annotations

import pytest

from kclient.assignors import (
    COOPERATIVE,
    EAGER,
    CooperativeStickyAssignor,
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
        ([7], "a name or an Assignor, not 7"),
        ([OnlyCooperative, "range"], "only-cooperative, range have no way to rebalance in common"),
    ],
    ids=["none", "twice", "misspelt", "no assignor", "nothing in common"],
)
def test_what_cannot_be_is_refused(choice: object, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Strategy(choice)  # type: ignore[arg-type]
