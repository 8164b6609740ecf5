"""How the protocol lists partitions: by topic, each with its own; the one way to group them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def by_topic(entries: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    """Pairs of a topic and something of it, as a TopicPartition is with its number, in their order."""
    found: dict[str, list[T]] = {}
    for topic, entry in entries:
        found.setdefault(topic, []).append(entry)
    return found
