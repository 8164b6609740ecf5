"""The partitions that `kclient topics describe` shows: those of the topics, or those that a filter selects.

The filters mean what those of Kafka's kafka-topics.sh mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto

import msgspec

from kclient.admin import Admin, ConfigResource, PartitionReassignment, TopicDescription
from kclient.cli.results import succeeded
from kclient.errors import AdminError, ClusterAuthorizationError, UnknownTopicOrPartitionError, UnsupportedVersionError
from kclient.types import PartitionInfo, TopicPartition

_MIN_ISR = "min.insync.replicas"
_TOPICS_PER_REQUEST = 200
"""A broker returns all settings of a topic, some 5 KB, although only one is needed."""


class Filter(Enum):
    """Which partitions to show."""

    UNDER_REPLICATED = auto()
    UNDER_MIN_ISR = auto()
    AT_MIN_ISR = auto()
    UNAVAILABLE = auto()


def described(client: Admin, names: Iterable[str] | None) -> tuple[dict[str, TopicDescription], AdminError | None]:
    """Return the descriptions of topics, and the error of those that are missing.

    Parameters:
        names: the topics; without any all of them, where one that is deleted meanwhile is no error.
    """
    if names:
        return succeeded(lambda: client.describe_topics(names))
    listed = client.list_topics(include_internal=True)
    found, error = succeeded(lambda: client.describe_topics(listed))
    for each in error.errors.values() if error is not None else ():
        if not isinstance(each, UnknownTopicOrPartitionError):
            return found, error
    return found, None


def reassignments_in_progress(client: Admin) -> dict[TopicPartition, PartitionReassignment]:
    """Return all reassignments in progress; none if the client may not know, or the broker is older than 2.4."""
    try:
        return client.list_partition_reassignments()
    except (ClusterAuthorizationError, UnsupportedVersionError):
        return {}


def selected(
    client: Admin,
    topics: Mapping[str, TopicDescription],
    ongoing: Mapping[TopicPartition, PartitionReassignment],
    filters: set[Filter],
) -> dict[str, TopicDescription]:
    """Return the topics with those partitions that one of the filters selects, without topics that have none."""
    needs_min_isr = bool(filters & {Filter.UNDER_MIN_ISR, Filter.AT_MIN_ISR})
    min_isr = _min_isr(client, topics) if needs_min_isr else {}
    alive = set(client.describe_cluster().brokers) if Filter.UNAVAILABLE in filters else set()
    found = {}
    for name, topic in topics.items():
        partitions = tuple(
            info
            for info in topic.partitions
            if filters.intersection(
                _fulfilled(info, ongoing.get(TopicPartition(name, info.partition)), min_isr.get(name), alive)
            )
        )
        if partitions:
            found[name] = msgspec.structs.replace(topic, partitions=partitions)
    return found


def _fulfilled(
    info: PartitionInfo, reassignment: PartitionReassignment | None, min_isr: int | None, alive: set[int]
) -> Iterator[Filter]:
    in_sync = len(info.in_sync_replicas)
    if in_sync < _replication_factor(info, reassignment):
        yield Filter.UNDER_REPLICATED
    if min_isr is not None and (info.leader is None or in_sync < min_isr):
        yield Filter.UNDER_MIN_ISR
    if in_sync == min_isr:
        yield Filter.AT_MIN_ISR
    if info.leader not in alive:
        yield Filter.UNAVAILABLE


def _replication_factor(info: PartitionInfo, reassignment: PartitionReassignment | None) -> int:
    """Return how many replicas should be in sync; those that a reassignment adds need not be yet."""
    if reassignment is None:
        return len(info.replicas)
    changing = {*reassignment.adding_replicas, *reassignment.removing_replicas}
    if changing.isdisjoint(info.replicas):
        return len(info.replicas)  # the reassignment ended between the two requests
    return len(reassignment.replicas) - len(reassignment.adding_replicas)


def _min_isr(client: Admin, topics: Iterable[str]) -> dict[str, int]:
    names = list(topics)
    found: dict[str, int] = {}
    for start in range(0, len(names), _TOPICS_PER_REQUEST):
        asked = [ConfigResource.topic(name) for name in names[start : start + _TOPICS_PER_REQUEST]]
        for resource, entries in client.describe_configs(asked).items():
            entry = entries.get(_MIN_ISR)
            if entry is not None and entry.value is not None:
                found[resource.name] = int(entry.value)
    return found
