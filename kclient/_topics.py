"""Grouping of partitions by topic, as the protocol lists them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def by_topic(entries: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    """Group pairs of a topic and anything else, such as `TopicPartition`, by topic; the order is kept."""
    found: dict[str, list[T]] = {}
    for topic, entry in entries:
        found.setdefault(topic, []).append(entry)
    return found
