"""The state of the cluster, and the effect of each metadata record.

A plain object with dicts that every part may read and only `ClusterImage.replay` changes, for a record of the log or a
snapshot. Records that this broker does not use (controllers) are kept unchanged, because a snapshot must contain them.
Lists are replaced and never modified, so that another thread can write a snapshot from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from refbroker.metadata.versions import LATEST, METADATA_VERSION

NO_LEADER_CHANGE = -2
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
KRAFT_VERSION = "kraft.version"
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32


@dataclass(slots=True)
class BrokerRegistration:
    """A broker that has registered.

    Attributes:
        endpoints: listener name -> (host, port).
        record: its registration with later changes, except `fenced` and `in_controlled_shutdown`.
        fenced: whether it must not lead partitions, as before its first heartbeat.
    """

    broker_id: int
    broker_epoch: int
    incarnation_id: UUID
    endpoints: dict[str, tuple[str, int]]
    rack: str | None
    record: RegisterBrokerRecord
    fenced: bool = True
    in_controlled_shutdown: bool = False

    @property
    def is_active(self) -> bool:
        """Whether it may lead partitions."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(slots=True)
class PartitionState:
    """The replicas, directories and leader of a partition."""

    partition_id: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: list[UUID]
    removing_replicas: list[int]
    adding_replicas: list[int]
    leader_recovery_state: int = 0
    eligible_leader_replicas: list[int] = field(default_factory=list)
    last_known_elr: list[int] = field(default_factory=list)


@dataclass(slots=True)
class TopicState:
    """A topic and its partitions by number."""

    name: str
    topic_id: UUID
    partitions: dict[int, PartitionState] = field(default_factory=dict)


class ClusterImage:
    """The state of the cluster up to `next_offset`.

    Attributes:
        brokers, controllers: by id.
        topics, topics_by_id: the same topics, by name and by id.
        configs: (resource type, name) -> setting -> value.
        features: feature -> finalized level, including features that this broker does not support (see `features`).
        quotas: (entity, quota) -> record; an entity is the set of its (type, name).
        acls: by id.
        scram: (mechanism, user) -> credential.
        tokens: delegation tokens by id.
        next_producer_id: the first one that is in no block.
        next_offset: the offset of the next record to replay.
    """

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerRegistration] = {}
        self.controllers: dict[int, RegisterControllerRecord] = {}
        self.topics: dict[str, TopicState] = {}
        self.topics_by_id: dict[UUID, TopicState] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.quotas: dict[tuple[frozenset[tuple[str, str | None]], str], ClientQuotaRecord] = {}
        self.acls: dict[UUID, AccessControlEntryRecord] = {}
        self.scram: dict[tuple[int, str], UserScramCredentialRecord] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}
        self.next_producer_id = 0
        self.next_offset = 0

    @property
    def metadata_version(self) -> int:
        """The level of `metadata.version`; the latest one until the log has it."""
        return self.features.get(METADATA_VERSION, LATEST)

    def partition(self, topic: str | UUID, partition: int) -> PartitionState | None:
        """Return the state of a partition, None if it does not exist.

        Parameters:
            topic: by name or by id.
        """
        found = self.topics.get(topic) if isinstance(topic, str) else self.topics_by_id.get(topic)
        return None if found is None else found.partitions.get(partition)

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """Return the settings of a topic, broker, group or client metrics subscription; "" stands for all brokers."""
        return self.configs.get((resource_type, name), {})

    def replay(self, record: Message) -> None:
        """Apply a record."""
        act = _ACTIONS.get(record.message_name)
        if act is not None:
            act(self, record)


def _register_broker(image: ClusterImage, record: RegisterBrokerRecord) -> None:
    image.brokers[record.broker_id] = BrokerRegistration(
        record.broker_id,
        record.broker_epoch,
        record.incarnation_id,
        {point.name: (point.host, point.port) for point in record.end_points},
        record.rack,
        record,
        record.fenced,
        record.in_controlled_shutdown,
    )


def _change_registration(image: ClusterImage, record: BrokerRegistrationChangeRecord) -> None:
    broker = image.brokers.get(record.broker_id)
    if broker is not None and broker.broker_epoch == record.broker_epoch:
        # 1 stands for true and -1 for false.
        broker.fenced = {1: True, -1: False}.get(record.fenced, broker.fenced)
        broker.in_controlled_shutdown = broker.in_controlled_shutdown or record.in_controlled_shutdown == 1
        if record.log_dirs:
            broker.record = msgspec.structs.replace(broker.record, log_dirs=record.log_dirs)
        if record.cordoned_log_dirs is not None:
            broker.record = msgspec.structs.replace(broker.record, cordoned_log_dirs=record.cordoned_log_dirs)


def _unregister_broker(image: ClusterImage, record: UnregisterBrokerRecord) -> None:
    image.brokers.pop(record.broker_id, None)


def _fence(image: ClusterImage, record: FenceBrokerRecord | UnfenceBrokerRecord) -> None:
    if record.id in image.brokers:
        image.brokers[record.id].fenced = isinstance(record, FenceBrokerRecord)


def _register_controller(image: ClusterImage, record: RegisterControllerRecord) -> None:
    image.controllers[record.controller_id] = record


def _add_topic(image: ClusterImage, record: TopicRecord) -> None:
    image.topics[record.name] = image.topics_by_id[record.topic_id] = TopicState(record.name, record.topic_id)


def _remove_topic(image: ClusterImage, record: RemoveTopicRecord) -> None:
    topic = image.topics_by_id.pop(record.topic_id, None)
    if topic is not None:
        image.topics.pop(topic.name, None)
        image.configs.pop((TOPIC_RESOURCE, topic.name), None)


def _set_partition(image: ClusterImage, record: PartitionRecord) -> None:
    topic = image.topics_by_id.get(record.topic_id)
    if topic is not None:
        topic.partitions[record.partition_id] = PartitionState(
            record.partition_id,
            record.replicas,
            record.isr,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.directories,
            record.removing_replicas,
            record.adding_replicas,
            record.leader_recovery_state,
            record.eligible_leader_replicas or [],
            record.last_known_elr or [],
        )


_LISTS = (
    "replicas",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)


def _change_partition(image: ClusterImage, record: PartitionChangeRecord) -> None:
    topic = image.topics_by_id.get(record.topic_id)
    partition = None if topic is None else topic.partitions.get(record.partition_id)
    if partition is None:
        return
    for name in _LISTS:
        value = getattr(record, name)
        if value is not None:
            setattr(partition, name, value)
    if record.leader != NO_LEADER_CHANGE:
        # A new leader epoch starts even if the leader stays the same.
        partition.leader = record.leader
        partition.leader_epoch += 1
    if record.leader_recovery_state >= 0:
        partition.leader_recovery_state = record.leader_recovery_state
    partition.partition_epoch += 1


def _clear_eligible_leaders(image: ClusterImage, record: ClearElrRecord) -> None:
    """Clear the eligible leaders of one topic, or of all if none is named."""
    for topic in image.topics.values():
        if record.topic_name in ("", topic.name):
            for partition in topic.partitions.values():
                partition.eligible_leader_replicas, partition.last_known_elr = [], []


def _set_config(image: ClusterImage, record: ConfigRecord) -> None:
    key = (record.resource_type, record.resource_name)
    settings = image.configs.setdefault(key, {})
    if record.value is None:
        settings.pop(record.name, None)
    else:
        settings[record.name] = record.value
    if not settings:
        del image.configs[key]


def _set_feature(image: ClusterImage, record: FeatureLevelRecord) -> None:
    if record.name == KRAFT_VERSION:
        # Early releases stored it here; it belongs to the control records of the log (KAFKA-18979).
        return
    if record.feature_level == 0:
        image.features.pop(record.name, None)
    else:
        image.features[record.name] = record.feature_level


def _take_producer_ids(image: ClusterImage, record: ProducerIdsRecord) -> None:
    image.next_producer_id = record.next_producer_id


def _set_quota(image: ClusterImage, record: ClientQuotaRecord) -> None:
    key = frozenset((part.entity_type, part.entity_name) for part in record.entity), record.key
    if record.remove:
        image.quotas.pop(key, None)
    else:
        image.quotas[key] = record


def _add_acl(image: ClusterImage, record: AccessControlEntryRecord) -> None:
    image.acls[record.id] = record


def _remove_acl(image: ClusterImage, record: RemoveAccessControlEntryRecord) -> None:
    image.acls.pop(record.id, None)


def _set_scram(image: ClusterImage, record: UserScramCredentialRecord) -> None:
    image.scram[record.mechanism, record.name] = record


def _remove_scram(image: ClusterImage, record: RemoveUserScramCredentialRecord) -> None:
    image.scram.pop((record.mechanism, record.name), None)


def _set_token(image: ClusterImage, record: DelegationTokenRecord) -> None:
    image.tokens[record.token_id] = record


def _remove_token(image: ClusterImage, record: RemoveDelegationTokenRecord) -> None:
    image.tokens.pop(record.token_id, None)


_ACTIONS: dict[str, Callable[[ClusterImage, Any], None]] = {
    "RegisterBrokerRecord": _register_broker,
    "BrokerRegistrationChangeRecord": _change_registration,
    "UnregisterBrokerRecord": _unregister_broker,
    "FenceBrokerRecord": _fence,
    "UnfenceBrokerRecord": _fence,
    "TopicRecord": _add_topic,
    "RemoveTopicRecord": _remove_topic,
    "PartitionRecord": _set_partition,
    "PartitionChangeRecord": _change_partition,
    "ConfigRecord": _set_config,
    "FeatureLevelRecord": _set_feature,
    "ProducerIdsRecord": _take_producer_ids,
    "RegisterControllerRecord": _register_controller,
    "ClearElrRecord": _clear_eligible_leaders,
    "ClientQuotaRecord": _set_quota,
    "AccessControlEntryRecord": _add_acl,
    "RemoveAccessControlEntryRecord": _remove_acl,
    "UserScramCredentialRecord": _set_scram,
    "RemoveUserScramCredentialRecord": _remove_scram,
    "DelegationTokenRecord": _set_token,
    "RemoveDelegationTokenRecord": _remove_token,
}
"""The effect of each kind of record; others (NoOp, the state of a migration from ZooKeeper) change nothing."""
