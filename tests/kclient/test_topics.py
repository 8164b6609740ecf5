"""Partitions by topic, as requests list them."""

from __future__ import annotations

from kclient._topics import by_topic
from kclient.types import TopicPartition


def test_topics_and_what_is_of_them_keep_their_order() -> None:
    grouped = by_topic([TopicPartition("b", 2), TopicPartition("a", 0), TopicPartition("b", 1)])
    assert list(grouped.items()) == [("b", [2, 1]), ("a", [0])]
    assert by_topic([]) == {}
