"""The records of a broker's start and stop: its registration, and its departure.

A start begins a new leader epoch for the partitions that it leads, as for the only node of Apache Kafka. A clean stop
fences the broker and leaves its partitions without a leader, so that the next broker, even Kafka, need not wait until
this registration has timed out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from refbroker.config import BrokerConfig
from refbroker.metadata.directories import NO_LEADER, FindDirectory, partition_changes
from refbroker.metadata.features import SUPPORTED_FEATURES
from refbroker.metadata.image import ClusterImage

_YES, _NO = 1, -1


def registration_records(
    image: ClusterImage,
    config: BrokerConfig,
    ports: Mapping[str, int],
    broker_epoch: int,
    incarnation_id: UUID,
    directories: list[UUID],
    find: FindDirectory,
) -> Iterator[list[Message]]:
    """Yield the batches of records that register the broker.

    Parameters:
        ports: the port of each listener, by its name.
        broker_epoch: the offset of its registration.
        incarnation_id: the id of this start.
        directories: the ids of its usable data directories.
        find: finds the directories of its logs.
    """
    node = config.node_id
    register = RegisterBrokerRecord(
        broker_id=node,
        incarnation_id=incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            RegisterBrokerRecord.BrokerEndpoint(
                name=name, host=host, port=port, security_protocol=config.listeners.protocol(name)
            )
            for name, host, port in config.listeners.advertised(ports)
        ],
        features=[
            RegisterBrokerRecord.BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        rack=config.rack,
        fenced=True,
        log_dirs=sorted(directories),
    )
    yield [register]
    unfence = BrokerRegistrationChangeRecord(broker_id=node, broker_epoch=broker_epoch, fenced=_NO)
    yield [unfence, *partition_changes(image, node, find, elect=True)]


def departure_records(image: ClusterImage, node: int) -> list[Message]:
    """Return the records of a clean stop: the broker is fenced, and its partitions have no leader."""
    epoch = image.brokers[node].broker_epoch
    led = [
        PartitionChangeRecord(partition_id=partition.partition_id, topic_id=topic.topic_id, leader=NO_LEADER)
        for topic in image.topics.values()
        for partition in topic.partitions.values()
        if partition.leader == node
    ]
    return [
        BrokerRegistrationChangeRecord(broker_id=node, broker_epoch=epoch, in_controlled_shutdown=_YES),
        *led,
        BrokerRegistrationChangeRecord(broker_id=node, broker_epoch=epoch, fenced=_YES),
    ]
