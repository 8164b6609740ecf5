"""The records a broker begins with: the cluster's features when it is new, and its own registration at each start.

A start is a new term for the partitions it leads: their leader epochs go up, as they do when Apache
Kafka's only node comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from refbroker.config import BrokerConfig, Listener
from refbroker.metadata.image import ClusterImage

METADATA_VERSION = "metadata.version"
SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {METADATA_VERSION: (7, 30)}
"""The features this broker has, with the levels it can work at; 30 is that of Kafka 4.3."""

_PLAINTEXT = 0
_NO_LONGER_FENCED = -1


def bootstrap_records(image: ClusterImage) -> list[Message]:
    """What a new cluster begins with; nothing for one that exists."""
    if image.features:
        return []
    return [
        BeginTransactionRecord(name="Bootstrap records"),
        *(FeatureLevelRecord(name=name, feature_level=high) for name, (_, high) in SUPPORTED_FEATURES.items()),
        EndTransactionRecord(),
    ]


def registration_records(
    image: ClusterImage,
    config: BrokerConfig,
    advertised: Listener,
    broker_epoch: int,
    incarnation_id: UUID,
    directories: list[UUID],
) -> Iterator[list[Message]]:
    """The batches of records by which a broker joins the cluster.

    Parameters:
        advertised: where clients find it.
        broker_epoch: the offset its registration gets.
        incarnation_id: of this start.
        directories: ids of its data directories.
    """
    node = config.node_id
    register = RegisterBrokerRecord(
        broker_id=node,
        incarnation_id=incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            RegisterBrokerRecord.BrokerEndpoint(
                name=advertised.name, host=advertised.host, port=advertised.port, security_protocol=_PLAINTEXT
            )
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
    unfence = BrokerRegistrationChangeRecord(broker_id=node, broker_epoch=broker_epoch, fenced=_NO_LONGER_FENCED)
    yield [unfence, *_elections(image, node)]


def _elections(image: ClusterImage, node: int) -> Iterator[Message]:
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if node in partition.replicas:
                isr = None if partition.isr == [node] else [node]
                yield PartitionChangeRecord(
                    partition_id=partition.partition_id, topic_id=topic.topic_id, leader=node, isr=isr
                )
