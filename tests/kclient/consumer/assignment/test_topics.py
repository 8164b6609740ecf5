"""Which topics names and patterns mean."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from kclient.consumer.assignment.topics import choose
from kclient.errors import IllegalStateError, KafkaError, LeaderNotAvailableError, UnknownTopicOrPartitionError
from kclient.net.cluster import TopicInfo
from kclient.types import SubscriptionPattern


def known(*names: str, internal: bool = False, error: KafkaError | None = None) -> dict[str, TopicInfo]:
    return {name: TopicInfo(name, UUID(int=1), (), internal, error) for name in names}


def test_names_stand_whether_they_exist_or_not() -> None:
    choice = choose(["a", "b", "a"])
    assert choice.names == ("a", "b")
    assert choice.select({}, ()) == ("a", "b")
    assert choose("abc").names == ("abc",)


def test_patterns_match_whole_names_of_what_exists() -> None:
    choice = choose([re.compile("order.*"), re.compile("bill"), "fixed"])
    assert choice.select(known("orders", "reorders", "bill", "bills", "x"), ()) == ("fixed", "bill", "orders")


def test_what_is_excluded_does_not_match_unless_it_is_named() -> None:
    choice = choose([re.compile("o.*"), "old"], exclude=["out", re.compile("ol.")])
    assert choice.select(known("orders", "out", "old", "ole"), ()) == ("old", "orders")
    assert str(choice) == "old, /o.*/ without out, /ol./"


def test_internal_topics_are_omitted_unless_asked_for() -> None:
    topics = known("__consumer_offsets", internal=True) | known("__mine")
    assert choose(re.compile("__.*")).select(topics, ()) == ("__mine",)
    assert choose(re.compile("__.*"), with_internal=True).select(topics, ()) == ("__consumer_offsets", "__mine")


def test_a_topic_with_an_error_is_kept_and_removed_when_it_is_deleted() -> None:
    choice = choose(re.compile("."))
    failing = known("a", error=LeaderNotAvailableError())
    assert choice.select(failing, ()) == ()
    assert choice.select(failing, ("a",)) == ("a",)
    assert choice.select(known("a", error=UnknownTopicOrPartitionError()), ("a",)) == ()


@pytest.mark.parametrize("wrong", [[3], [""], [None], [re.compile(b"x")], ["a", ("b",)]])
def test_what_is_no_topic_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="a topic is a name or a compiled pattern"):
        choose(wrong)  # type: ignore[arg-type]


def test_exclude_without_a_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no pattern"):
        choose("a", exclude="b")


def test_brokers_match_a_pattern_that_stands_alone() -> None:
    choice = choose(SubscriptionPattern("o.*"), brokers_match=True)
    assert (choice.names, choice.patterns, choice.regex) == ((), (), "o.*")
    assert choice.select(known("orders"), ()) == ()
    assert str(choice) == "/o.*/"
    assert choose([SubscriptionPattern("o.*")], brokers_match=True) == choice
    with pytest.raises(ValueError, match="the only subscription"):
        choose([SubscriptionPattern("o.*"), "t"], brokers_match=True)
    with pytest.raises(ValueError, match="the only subscription"):
        choose(re.compile("o.*"), exclude=SubscriptionPattern("old"), brokers_match=True)
    with pytest.raises(TypeError, match="name or a compiled pattern"):
        choose(SubscriptionPattern(""), brokers_match=True)


def test_pattern_that_no_broker_would_match_is_refused() -> None:
    with pytest.raises(IllegalStateError, match=r"re\.compile"):
        choose(SubscriptionPattern("o.*"))
