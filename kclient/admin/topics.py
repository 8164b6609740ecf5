"""Topics: create, delete, add partitions.

A change returns once every broker that can be reached shows it in its metadata, so that the next call sees the change
(the Java client returns earlier). Elsewhere: descriptions (`topic_descriptions`), reassignments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

import msgspec

from kclient.admin.arguments import instance, mapping, number, optional, several, text
from kclient.admin.configs import ConfigEntry, ConfigValue, config_source, config_text
from kclient.admin.core import AdminCore, Outcomes
from kclient.errors import (
    DisconnectedError,
    KafkaError,
    LeaderNotAvailableError,
    TopicAuthorizationError,
    UnsupportedVersionError,
    error_from_code,
)
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kclient.protocol.messages.metadata import MetadataResponse
from kclient.security.secret import shown

_LOST_CONNECTIONS = 3
"""The number of lost connections for the same request after which a broker is not asked again."""
_DEFAULTS_FROM = 4
"""The first version of CreateTopics in which -1 is the broker's default (KIP-464)."""
_NO_DEFAULTS = (
    "; brokers choose defaults for a new topic since Apache Kafka 2.4: set num_partitions and replication_factor"
)


class NewTopic(msgspec.Struct, frozen=True):
    """A topic to create.

    Parameters:
        num_partitions, replication_factor: -1 takes the broker's default.
        replica_assignment: broker ids of each partition, instead of the two above.
        configs: topic settings by Kafka's names, such as {"retention.ms": 3600000}.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, ConfigValue | None] = {}

    def __post_init__(self) -> None:
        text(self.name, "NewTopic(name=)")
        number(self.num_partitions, "NewTopic(num_partitions=)")
        number(self.replication_factor, "NewTopic(replication_factor=)")
        optional(self.replica_assignment, Mapping, "NewTopic(replica_assignment=)")  # type: ignore[type-abstract]
        instance(self.configs, Mapping, "NewTopic(configs=)")  # type: ignore[type-abstract]

    def __repr__(self) -> str:
        numbers = f"num_partitions={self.num_partitions}, replication_factor={self.replication_factor}"
        assignment = "" if self.replica_assignment is None else f", replica_assignment={self.replica_assignment!r}"
        configs = ", ".join(f"{name!r}: {shown(name, value)}" for name, value in self.configs.items())
        return f"NewTopic({self.name!r}, {numbers}{assignment}, configs={{{configs}}})"


class NewPartitions(msgspec.Struct, frozen=True):
    """The new total number of a topic's partitions; `assignments` has the brokers of each new one."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        number(self.total_count, "NewPartitions(total_count=)")
        optional(self.assignments, Sequence, "NewPartitions(assignments=)")  # type: ignore[type-abstract]


class CreatedTopic(msgspec.Struct, frozen=True):
    """A topic that was created.

    Brokers before Apache Kafka 2.4 return no details: `configs` is empty and the numbers are -1. Before 2.8 there are
    no ids: zero.
    """

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, ConfigEntry]


def create_topics(
    core: AdminCore, topics: NewTopic | Iterable[NewTopic], validate_only: bool, deadline: Deadline
) -> Operation[dict[str, CreatedTopic]]:
    wanted = {topic.name: _creatable(topic) for topic in several(topics, NewTopic, deadline.name)}

    def attempt(names: list[str]) -> Operation[Outcomes[str, CreatedTopic]]:
        def build(version: int) -> CreateTopicsRequest:
            return CreateTopicsRequest(
                topics=[wanted[name] for name in names],
                timeout_ms=int(deadline.remaining() * 1000),
                validate_only=validate_only,
            )

        minimum = _DEFAULTS_FROM if any(_takes_defaults(wanted[name]) for name in names) else None
        try:
            answer: CreateTopicsResponse = yield from core.request_until_answered(
                core.controller(), CreateTopicsRequest, build, deadline, minimum
            )
        except UnsupportedVersionError as error:
            if minimum is None:
                raise
            raise UnsupportedVersionError(error.message + _NO_DEFAULTS, broker=error.broker, api=error.api) from error
        return {
            topic.name: error_from_code(topic.error_code, topic.error_message, topic=topic.name)
            if topic.error_code
            else _created(topic)
            for topic in answer.topics
        }

    try:
        created = yield from core.keyed(wanted, attempt, deadline)
    finally:
        core.engine.metadata.request_update()
    if not validate_only:
        yield from _until(core, list(created), _has_leaders, deadline)
    return created


def delete_topics(core: AdminCore, topics: Iterable[str], deadline: Deadline) -> Operation[dict[str, None]]:
    def attempt(names: list[str]) -> Operation[Outcomes[str, None]]:
        def build(version: int) -> DeleteTopicsRequest:
            timeout_ms = int(deadline.remaining() * 1000)
            if version < 6:
                return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)
            states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
            return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

        answer: DeleteTopicsResponse = yield from core.request_until_answered(
            core.controller(), DeleteTopicsRequest, build, deadline
        )
        return {
            topic.name or "": error_from_code(topic.error_code, topic.error_message, topic=topic.name)
            if topic.error_code
            else None
            for topic in answer.responses
        }

    deleted = yield from core.keyed(several(topics, str, deadline.name), attempt, deadline)
    yield from _until(core, list(deleted), lambda topic: not topic.partitions and bool(topic.error_code), deadline)
    return deleted


def create_partitions(
    core: AdminCore, new: Mapping[str, NewPartitions], validate_only: bool, deadline: Deadline
) -> Operation[dict[str, None]]:
    new = mapping(new, text, lambda total, what: instance(total, NewPartitions, what), deadline.name)

    def attempt(names: list[str]) -> Operation[Outcomes[str, None]]:
        def build(version: int) -> CreatePartitionsRequest:
            return CreatePartitionsRequest(
                topics=[_more_partitions(name, new[name]) for name in names],
                timeout_ms=int(deadline.remaining() * 1000),
                validate_only=validate_only,
            )

        answer: CreatePartitionsResponse = yield from core.request_until_answered(
            core.controller(), CreatePartitionsRequest, build, deadline
        )
        return {
            topic.name: error_from_code(topic.error_code, topic.error_message, topic=topic.name)
            if topic.error_code
            else None
            for topic in answer.results
        }

    grown = yield from core.keyed(new, attempt, deadline)
    if not validate_only:
        yield from _until(
            core,
            list(grown),
            lambda topic: len(topic.partitions) >= new[topic.name or ""].total_count and _has_leaders(topic),
            deadline,
        )
    return grown


def _until(
    core: AdminCore,
    names: list[str],
    satisfied: Callable[[MetadataResponse.MetadataResponseTopic], bool],
    deadline: Deadline,
) -> Operation[None]:
    """Wait until the metadata of every broker shows all the topics as they should be.

    Brokers learn of a change one after the other, and the next call may go to any of them. A topic that the client may
    not describe cannot be waited for: permission to create or delete it is enough for the change. A broker that cannot
    be reached, or has left the cluster, is skipped. After a lost connection the broker is asked again, a limited number
    of times.
    """

    def behind(node: int) -> Operation[Outcomes[int, bool]]:
        answer = yield from core.metadata(node, names, deadline)
        return {
            node: not all(
                topic.error_code == TopicAuthorizationError.code or satisfied(topic) for topic in answer.topics
            )
        }

    lost: Counter[int] = Counter()

    def again(node: int, outcome: bool | KafkaError) -> bool:
        if not isinstance(outcome, DisconnectedError):
            return outcome is True
        lost[node] += 1
        known = node == ANY_NODE or node in core.engine.metadata.cluster.brokers
        return known and lost[node] < _LOST_CONNECTIONS

    attempts = 0
    # A cluster whose only broker was fenced for a moment returns no brokers.
    waiting = (list(core.engine.metadata.cluster.brokers) or [ANY_NODE]) if names else []
    while waiting:
        found = yield from core.gather({node: behind(node) for node in waiting}, {node: [node] for node in waiting})
        waiting = [node for node, outcome in found.items() if again(node, outcome)]
        if waiting:
            error = LeaderNotAvailableError(
                "the change was made, but is not in every broker's metadata yet", topic=names[0], broker=waiting[0]
            )
            attempts += 1
            yield from core.back_off(attempts, deadline, error)


def _has_leaders(topic: MetadataResponse.MetadataResponseTopic) -> bool:
    return (
        not topic.error_code
        and bool(topic.partitions)
        and all(partition.leader_id >= 0 and not partition.error_code for partition in topic.partitions)
    )


def _creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    assignment = topic.replica_assignment or {}
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignment else topic.num_partitions,
        replication_factor=-1 if assignment else topic.replication_factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in assignment.items()
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=config_text(name, value))
            for name, value in topic.configs.items()
        ],
    )


def _takes_defaults(topic: CreateTopicsRequest.CreatableTopic) -> bool:
    return not topic.assignments and -1 in (topic.num_partitions, topic.replication_factor)


def _created(topic: CreateTopicsResponse.CreatableTopicResult) -> CreatedTopic:
    configs = {
        entry.name: ConfigEntry(
            entry.name,
            entry.value,
            source=config_source(entry.config_source),
            is_read_only=entry.read_only,
            is_sensitive=entry.is_sensitive,
        )
        for entry in topic.configs or []
    }
    return CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor, configs)


def _more_partitions(name: str, new: NewPartitions) -> CreatePartitionsRequest.CreatePartitionsTopic:
    assignments = None
    if new.assignments is not None:
        assignments = [
            CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in new.assignments
        ]
    return CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=new.total_count, assignments=assignments)
