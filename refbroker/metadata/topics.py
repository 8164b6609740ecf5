"""What becomes of a wish for a topic or for more partitions: the records that bring it about, or the error.

The checks and their texts are those of Kafka's controller (names, counts, replication factors, manual
assignments, settings). One node holds every replica. Policies for creating topics are left out.
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
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.metadata.controller import Controller
from refbroker.metadata.directories import default_directory, takes_new_partitions
from refbroker.metadata.image import TOPIC_RESOURCE, ClusterImage
from refbroker.runtime.file_limit import file_limit
from refbroker.settings.cross_checks import check_topic
from refbroker.settings.definitions import topic_settings
from refbroker.settings.effective import BrokerLayers

LONGEST_NAME = 249
BROKERS_CHOICE = -1
MOST_PARTITIONS = 10_000
"""How many partitions one request may make: Kafka's limit, which it has for its memory's sake."""

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(slots=True)
class NewTopic:
    """A topic somebody wants.

    Attributes:
        num_partitions, replication_factor: -1 leaves them to the broker.
        assignments: each partition with its brokers, when the replicas are placed by hand.
        configs: settings of its own; None is no value and is refused.
    """

    name: str
    num_partitions: int = BROKERS_CHOICE
    replication_factor: int = BROKERS_CHOICE
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class TopicPlan:
    """How it will be made."""

    topic_id: UUID
    num_partitions: int
    replication_factor: int
    configs: dict[str, str]
    records: list[Message]


def check_name(name: str) -> None:
    """See that a topic can have this name.

    Raises:
        InvalidTopicError: it cannot.
    """
    trouble = None
    if not name:
        trouble = "the empty string is not allowed"
    elif name in (".", ".."):
        trouble = f"'{name}' is not allowed"
    elif len(name) > LONGEST_NAME:
        trouble = f"the length of '{name}' is longer than the max allowed length {LONGEST_NAME}"
    elif not _NAME.fullmatch(name):
        trouble = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if trouble is not None:
        raise InvalidTopicError(f"Topic name is invalid: {trouble}")


def plan_topic(
    controller: Controller, topic: NewTopic, others: Iterable[str] = (), *, room: int | None = None
) -> TopicPlan:
    """Find out how a topic is made.

    Parameters:
        others: names of topics that are made at the same time.
        room: for how many partitions there are files; None to find that out.

    Raises:
        InvalidTopicError, TopicExistsError, InvalidPartitionsError, InvalidReplicationFactorError,
        InvalidReplicaAssignmentError, InvalidRequestError, InvalidConfigurationError, PolicyViolationError: it
            cannot be.
    """
    image = controller.image
    if topic.name == METADATA_TOPIC:
        # Its log is the cluster's state: nobody else may write there, or delete it.
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
    """The records that give a topic more partitions.

    Parameters:
        count: how many it shall have.
        assignments: the brokers of each new one, when they are placed by hand.
        room: for how many partitions there are files.

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
        placed = [_place(controller, replication_factor)] * (count - present)
    else:
        placed = [
            _check_placed(controller.image, number, replicas, replication_factor)
            for number, replicas in enumerate(assignments, present)
        ]
    _check_room(count - present, room)
    return partition_records(controller, topic.topic_id, present, placed)


def _check_room(count: int, room: int) -> None:
    """See that the logs of new partitions can be open: without files Kafka's broker ends, as it cannot roll a log."""
    if count > room:
        raise PolicyViolationError(
            f"There is no room for {count} more partitions: each has a file open, and of the {file_limit()} that the "
            f"broker may open {max(room, 0)} are left for them; raise that limit (ulimit -n)"
        )


def partition_records(
    controller: Controller, topic_id: UUID, first: int, assignments: Sequence[Sequence[int]]
) -> list[Message]:
    """The records of new partitions, numbered from `first` on."""
    image = controller.image
    records: list[Message] = []
    for number, replicas in enumerate(assignments, first):
        in_sync = [node for node in replicas if image.brokers[node].is_active]
        records.append(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=in_sync,
                leader=in_sync[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[default_directory(image, replica) for replica in replicas],
            )
        )
    return records


def check_configs(
    configs: Mapping[str, str | None], layers: BrokerLayers, present: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """See that a topic can have these settings.

    Parameters:
        configs: all that it will have.
        layers: what is set on the broker.
        present: what it has now.

    Raises:
        InvalidConfigurationError: one does not exist, or cannot have its value, or they do not go together.
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
        # Names of metrics have no dots, so that these two would be one.
        plain = name.replace(".", "_")
        for other in (*image.topics, *others):
            if other.replace(".", "_") == plain:
                raise InvalidTopicError(f"Topic '{name}' collides with existing topic: {other}")


def _assign(controller: Controller, topic: NewTopic) -> list[list[int]]:
    """The brokers of each partition."""
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
        return [_place(controller, replicas)] * partitions
    except InvalidReplicationFactorError as error:
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {replicas} time(s): {error.message}"
        ) from None


def _assign_by_hand(image: ClusterImage, topic: NewTopic) -> list[list[int]]:
    """The brokers of each partition; what is wrong is told in the order in which Kafka's controller finds it."""
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
        placed[number] = _check_placed(image, number, replicas, replication_factor)
        replication_factor = len(replicas)
    if sorted(placed) != list(range(len(placed))):
        raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
    return [placed[number] for number in range(len(placed))]


def _place(controller: Controller, replicas: int) -> list[int]:
    registered = controller.image.brokers
    # Those that are fenced come last, as long as there is one to lead.
    brokers = sorted(
        (node for node, one in registered.items() if takes_new_partitions(one.record)),
        key=lambda node: (registered[node].fenced, node),
    )
    if not brokers or registered[brokers[0]].fenced:
        raise InvalidReplicationFactorError(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    if replicas > len(brokers):
        raise InvalidReplicationFactorError(
            f"The target replication factor of {replicas} cannot be reached because only {len(brokers)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    return brokers[:replicas]


def check_replicas(image: ClusterImage, replicas: Sequence[int], replication_factor: int | None = None) -> list[int]:
    """See that a partition can have these replicas.

    Parameters:
        replication_factor: how many they must be; None for any number.

    Raises:
        InvalidReplicaAssignmentError: a broker is not there, or there twice, or there is none, or another number.
    """
    if not replicas:
        raise InvalidReplicaAssignmentError("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if broker == previous:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
        previous = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        raise InvalidReplicaAssignmentError(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    return list(replicas)


def _check_placed(
    image: ClusterImage, number: int, replicas: Sequence[int], replication_factor: int | None
) -> list[int]:
    """See that a new partition can have these replicas, one of which must be able to lead it."""
    checked = check_replicas(image, replicas, replication_factor)
    if not any(image.brokers[node].is_active for node in checked):
        raise InvalidReplicaAssignmentError(
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
            "controlled shutdown."
        )
    return checked
