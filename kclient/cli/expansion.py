"""Topics on the command line that stand for all of their partitions."""

from __future__ import annotations

from collections.abc import Iterable

from kclient.admin import Admin
from kclient.types import TopicPartition


def expanded(client: Admin, wanted: Iterable[TopicPartition | str]) -> list[TopicPartition]:
    """Return the given partitions, and all partitions of the given topics."""
    found: list[TopicPartition] = []
    for each in wanted:
        if isinstance(each, str):
            described = client.describe_topics(each)[each].partitions
            found += (TopicPartition(each, info.partition) for info in described)
        else:
            found.append(each)
    return list(dict.fromkeys(found))
