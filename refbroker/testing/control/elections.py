"""Elections on demand: what clients see when a partition gets a new leader."""

from __future__ import annotations

from kclient.errors import UnknownTopicOrPartitionError
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.building import BrokerParts


def elect(broker: BrokerParts, topic: str, partition: int) -> int:
    """Elect the leader of a partition anew, and give the epoch of its term.

    On one node it is the same leader again; clients notice by the epoch, and have to ask for metadata. Fetches
    that wait for the partition are answered, as they are when a leader changes.

    Raises:
        UnknownTopicOrPartitionError: there is no such partition.
    """
    image = broker.image
    found = image.topics.get(topic)
    if found is None or partition not in found.partitions:
        raise UnknownTopicOrPartitionError(topic=topic, partition=partition)
    change = PartitionChangeRecord(partition_id=partition, topic_id=found.topic_id, leader=broker.node_id)
    broker.metadata.append([change])
    broker.delayed_fetches.wake(broker.partitions.find(topic, partition).log)
    return found.partitions[partition].leader_epoch
