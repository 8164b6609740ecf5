"""New topics and partitions: the records of the change, or the error.

Checks and messages are those of Kafka's controller (names, counts, replication factors, manual assignments, settings).
Elsewhere: on which brokers partitions are placed (`placement`). Not implemented: policies for creating topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

from kclient.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    PolicyViolationError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import ConfigRecord, PartitionRecord, TopicRecord
from refbroker.controller.controller import Controller
from refbroker.controller.placement import check_assignment, place, usable_brokers
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.metadata.image import TOPIC_RESOURCE, ClusterImage
from refbroker.runtime.file_limit import file_limit
from refbroker.settings.cross_checks import check_topic
from refbroker.settings.definitions import topic_settings
from refbroker.settings.effective import BrokerLayers

LONGEST_NAME = 249
BROKERS_CHOICE = -1
MOST_PARTITIONS = 10_000
"""The maximum of new partitions in one request; Kafka has this limit for its memory."""

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(slots=True)
class NewTopic:
    """A requested topic.

    Attributes:
        num_partitions, replication_factor: -1 for the broker's default.
        assignments: the brokers of each partition, for a manual assignment.
        configs: its settings; None is refused as a value.
    """

    name: str
    num_partitions: int = BROKERS_CHOICE
    replication_factor: int = BROKERS_CHOICE
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class TopicPlan:
    """How a topic will be created."""

    topic_id: UUID
    num_partitions: int
    replication_factor: int
    configs: dict[str, str]
    records: list[Message]


def check_name(name: str) -> None:
    """Check the name of a topic.

    Raises:
        InvalidTopicError: the name is invalid.
    """
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > LONGEST_NAME:
        problem = f"the length of '{name}' is longer than the max allowed length {LONGEST_NAME}"
    elif not _NAME.fullmatch(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if problem is not None:
        raise InvalidTopicError(f"Topic name is invalid: {problem}")


def plan_topic(
    controller: Controller, topic: NewTopic, others: Iterable[str] = (), *, room: int | None = None
) -> TopicPlan:
    """Plan the creation of a topic.

    Parameters:
        others: the names of topics that are created at the same time.
        room: the number of partitions for which files may be opened; None to determine it.

    Raises:
        InvalidTopicError, TopicExistsError, InvalidPartitionsError, InvalidReplicationFactorError,
        InvalidReplicaAssignmentError, InvalidRequestError, InvalidConfigurationError, PolicyViolationError: it
            cannot be.
    """
    image = controller.image
    if topic.name == METADATA_TOPIC:
        # Its log is the state of the cluster: clients must not write to it or delete it.
        raise InvalidRequestError(f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    _check_new_name(image, topic.name, others)
    configs = check_configs(topic.configs, controller.config.layers)
    assignments = _assign(controller, topic)
    _check_room(len(assignments), controller.room_for_files() if room is None else room)
    topic_id = controller.new_uuid()
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    records += partition_records(controller, topic_id, 0, assignments)
    return TopicPlan(topic_id, len(assignments), len(assignments[0]), configs, records)


def plan_partitions(
    controller: Controller, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, room: int
) -> list[Message]:
    """Return the records that add partitions to a topic.

    Parameters:
        count: the new number of partitions.
        assignments: the brokers of each new partition, for a manual assignment.
        room: the number of partitions for which files may be opened.

    Raises:
        UnknownTopicOrPartitionError, InvalidPartitionsError, InvalidReplicaAssignmentError, PolicyViolationError: it
            cannot be.
    """
    topic = controller.image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(topic=name)
    present = len(topic.partitions)
    if count == present:
        raise InvalidPartitionsError(f"Topic already has {present} partition(s).")
    if count < present:
        raise InvalidPartitionsError(
            f"The topic {name} currently has {present} partition(s); {count} would not be an increase."
        )
    replication_factor = len(topic.partitions[0].replicas)
    if assignments is not None and len(assignments) != count - present:
        raise InvalidReplicaAssignmentError(
            f"Attempted to add {count - present} additional partition(s), but only {len(assignments)} "
            f"assignment(s) were specified."
        )
    if count - present > MOST_PARTITIONS:
        raise PolicyViolationError("Unable to perform excessively large batch operation.")
    if assignments is None:
        placed = _place(controller, count - present, replication_factor)
    else:
        placed = [
            check_assignment(controller.image, number, replicas, replication_factor)
            for number, replicas in enumerate(assignments, present)
        ]
    _check_room(count - present, room)
    return partition_records(controller, topic.topic_id, present, placed)


def _check_room(count: int, room: int) -> None:
    """Check that the logs of new partitions can be opened; without file descriptors, Kafka's broker terminates when it
    cannot roll a log.
    """
    if count > room:
        raise PolicyViolationError(
            f"There is no room for {count} more partitions: each has a file open, and of the {file_limit()} that the "
            f"broker may open {max(room, 0)} are left for them; raise that limit (ulimit -n)"
        )


def partition_records(
    controller: Controller, topic_id: UUID, first: int, assignments: Sequence[Sequence[int]]
) -> list[Message]:
    """Return the records of new partitions, numbered from `first` on."""
    cluster = controller.cluster
    records: list[Message] = []
    for number, replicas in enumerate(assignments, first):
        in_sync = [node for node in replicas if cluster.is_active(node)]
        records.append(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=in_sync,
                leader=in_sync[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[cluster.default_directory(replica) for replica in replicas],
            )
        )
    return records


def check_configs(
    configs: Mapping[str, str | None], layers: BrokerLayers, present: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Check the settings of a topic.

    Parameters:
        configs: all settings of the topic after the change.
        layers: the settings of the broker.
        present: its current settings.

    Raises:
        InvalidConfigurationError: one does not exist or has an invalid value, or they contradict each other.
    """
    without_value = [name for name, value in configs.items() if value is None]
    if without_value:
        raise InvalidConfigurationError(f"Null value not supported for topic configs: {','.join(without_value)}")
    checked = {name: value for name, value in configs.items() if value is not None}
    for name in checked:
        if name not in topic_settings():
            raise InvalidConfigurationError(f"Unknown topic config name: {name}")
    for name, value in checked.items():
        topic_settings()[name].check(value)
    check_topic(checked, layers, present)
    return checked


def _check_new_name(image: ClusterImage, name: str, others: Iterable[str]) -> None:
    check_name(name)
    if name in image.topics:
        raise TopicExistsError(f"Topic '{name}' already exists.")
    if "." in name or "_" in name:
        # Names of metrics have no dots, so these two would be the same.
        plain = name.replace(".", "_")
        for other in (*image.topics, *others):
            if other.replace(".", "_") == plain:
                raise InvalidTopicError(f"Topic '{name}' collides with existing topic: {other}")


def _assign(controller: Controller, topic: NewTopic) -> list[list[int]]:
    """Return the brokers of each partition."""
    if topic.assignments:
        return _assign_by_hand(controller.image, topic)
    if topic.replication_factor < BROKERS_CHOICE or topic.replication_factor == 0:
        raise InvalidReplicationFactorError("Replication factor must be larger than 0, or -1 to use the default value.")
    if topic.num_partitions < BROKERS_CHOICE or topic.num_partitions == 0:
        raise InvalidPartitionsError("Number of partitions was set to an invalid non-positive value.")
    partitions, replicas = topic.num_partitions, topic.replication_factor
    if partitions == BROKERS_CHOICE:
        partitions = controller.config.integer("num.partitions")
    if replicas == BROKERS_CHOICE:
        replicas = controller.config.integer("default.replication.factor")
    try:
        return _place(controller, partitions, replicas)
    except InvalidReplicationFactorError as error:
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {replicas} time(s): {error.message}"
        ) from None


def _assign_by_hand(image: ClusterImage, topic: NewTopic) -> list[list[int]]:
    """Return the brokers of each partition; errors are raised in the order of Kafka's controller."""
    if topic.replication_factor != BROKERS_CHOICE:
        raise InvalidRequestError(
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    if topic.num_partitions != BROKERS_CHOICE:
        raise InvalidRequestError("A manual partition assignment was specified, but numPartitions was not set to -1.")
    placed: dict[int, list[int]] = {}
    replication_factor = None
    for number, replicas in topic.assignments:
        if number in placed:
            raise InvalidReplicaAssignmentError(f"Found multiple manual partition assignments for partition {number}")
        placed[number] = check_assignment(image, number, replicas, replication_factor)
        replication_factor = len(replicas)
    if sorted(placed) != list(range(len(placed))):
        raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
    return [placed[number] for number in range(len(placed))]


def _place(controller: Controller, partitions: int, replicas: int) -> list[list[int]]:
    placed = place(usable_brokers(controller.image), partitions, replicas, controller.rng)
    if not all(any(map(controller.cluster.is_active, nodes)) for nodes in placed):
        raise InvalidReplicationFactorError("All brokers are currently fenced or in controlled shutdown.")
    return placed
