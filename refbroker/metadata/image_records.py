"""Conversion of the cluster's state to records, in the order of Kafka's snapshots.

Features come first, because the level of `metadata.version` determines how the rest is written and read. As in Kafka,
state that a cluster at an old level cannot have (such as credentials before 3.5) is omitted.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from refbroker.metadata.image import BrokerRegistration, ClusterImage, PartitionState, TopicState
from refbroker.metadata.versions import (
    CONTROLLER_REGISTRATIONS,
    DELEGATION_TOKENS,
    METADATA_VERSION,
    SCRAM,
)

_NO_BROKER = -1


def image_records(image: ClusterImage) -> Iterator[Message]:
    """Yield records that turn an empty image into a copy of this one.

    They share the image's lists, which are never modified, so later changes do not affect them.
    """
    level = image.metadata_version
    yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)
    for name, finalized in image.features.items():
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=finalized)
    yield from map(_registration, image.brokers.values())
    if level >= CONTROLLER_REGISTRATIONS:
        yield from image.controllers.values()
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for partition in topic.partitions.values():
            yield _partition(topic, partition)
    for (resource_type, resource_name), settings in image.configs.items():
        for name, value in settings.items():
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    yield from image.quotas.values()
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=_NO_BROKER, broker_epoch=_NO_BROKER, next_producer_id=image.next_producer_id)
    yield from image.acls.values()
    if level >= SCRAM:
        yield from image.scram.values()
    if level >= DELEGATION_TOKENS:
        yield from image.tokens.values()


def _registration(broker: BrokerRegistration) -> Message:
    return msgspec.structs.replace(
        broker.record, fenced=broker.fenced, in_controlled_shutdown=broker.in_controlled_shutdown
    )


def _partition(topic: TopicState, partition: PartitionState) -> Message:
    return PartitionRecord(
        partition_id=partition.partition_id,
        topic_id=topic.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        # Empty ones are omitted to save space.
        eligible_leader_replicas=partition.eligible_leader_replicas or None,
        last_known_elr=partition.last_known_elr or None,
    )
