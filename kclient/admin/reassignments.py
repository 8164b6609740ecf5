"""Reassignments: start and cancel moves of partitions to other brokers, and list those in progress (KIP-455, KIP-860).

Elsewhere: moves between the directories of a broker (`log_dirs`); plans and throttles, which are those of the command
line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kclient.admin.arguments import mapping, number, partition, partitions
from kclient.admin.core import AdminCore, Outcomes, settled
from kclient.errors import KafkaError, UnsupportedVersionError, error_from_code, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kclient.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kclient.types import TopicPartition

_FACTOR_KEPT_FROM = 1
"""The first version with an option to keep the replication factor (KIP-860)."""


class PartitionReassignment(msgspec.Struct, frozen=True):
    """A reassignment in progress.

    Attributes:
        replicas: the ids of all brokers that have a replica now, including those that are added and removed.
        adding_replicas: those that are added.
        removing_replicas: those that will be removed once the added ones are in sync.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.removing_replicas)


def alter_partition_reassignments(
    core: AdminCore,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    allow_replication_factor_change: bool,
    deadline: Deadline,
) -> Operation[dict[TopicPartition, None]]:
    wanted = mapping(targets, partition, _replicas, deadline.name)
    if not wanted:
        return {}
    kind = AlterPartitionReassignmentsRequest
    by_topic: dict[str, list[AlterPartitionReassignmentsRequest.ReassignablePartition]] = {}
    for key, replicas in wanted.items():
        entry = kind.ReassignablePartition(partition_index=key.partition, replicas=replicas)
        by_topic.setdefault(key.topic, []).append(entry)
    topics = [kind.ReassignableTopic(name=name, partitions=entries) for name, entries in by_topic.items()]

    def build(version: int) -> AlterPartitionReassignmentsRequest:
        return kind(
            topics=topics,
            allow_replication_factor_change=allow_replication_factor_change,
            timeout_ms=int(deadline.remaining() * 1000),
        )

    def attempt() -> Operation[AlterPartitionReassignmentsResponse]:
        minimum = None if allow_replication_factor_change else _FACTOR_KEPT_FROM
        answer: AlterPartitionReassignmentsResponse = yield from core.request(
            core.controller(), kind, build, deadline, minimum
        )
        raise_for_code(answer.error_code, answer.error_message)
        return answer

    try:
        answer = yield from core.retry(attempt, deadline)
    except UnsupportedVersionError as error:
        if allow_replication_factor_change:
            raise
        text = f"{error.message}; brokers keep the replication factor on request since Apache Kafka 4.1"
        raise UnsupportedVersionError(text, broker=error.broker, api=error.api) from error
    outcomes: Outcomes[TopicPartition, None] = {
        TopicPartition(topic.name, each.partition_index): _failure(topic.name, each)
        for topic in answer.responses
        for each in topic.partitions
    }
    return settled(wanted, outcomes)


def list_partition_reassignments(
    core: AdminCore, wanted: Iterable[TopicPartition] | None, deadline: Deadline
) -> Operation[dict[TopicPartition, PartitionReassignment]]:
    kind = ListPartitionReassignmentsRequest
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = None
    if wanted is not None:
        by_topic: dict[str, list[int]] = {}
        for key in dict.fromkeys(partitions(wanted, deadline.name)):
            by_topic.setdefault(key.topic, []).append(key.partition)
        if not by_topic:
            return {}
        topics = [
            kind.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
            for name, numbers in by_topic.items()
        ]

    def attempt() -> Operation[ListPartitionReassignmentsResponse]:
        answer: ListPartitionReassignmentsResponse = yield from core.request(
            core.controller(),
            kind,
            lambda version: kind(topics=topics, timeout_ms=int(deadline.remaining() * 1000)),
            deadline,
        )
        raise_for_code(answer.error_code, answer.error_message)
        return answer

    answer = yield from core.retry(attempt, deadline)
    found = {
        TopicPartition(topic.name, each.partition_index): PartitionReassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }
    return dict(sorted(found.items()))


def _replicas(given: object, what: str) -> list[int] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"{what} takes the ids of the brokers, or None to cancel, not {given!r}")
    return [number(broker, what) for broker in given]


def _failure(topic: str, entry: AlterPartitionReassignmentsResponse.ReassignablePartitionResponse) -> KafkaError | None:
    if not entry.error_code:
        return None
    return error_from_code(entry.error_code, entry.error_message, topic=topic, partition=entry.partition_index)
