"""Elections on demand, which clients see as a new leader of a partition."""

from __future__ import annotations

from kclient.errors import UnknownTopicOrPartitionError
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.building import BrokerParts


def elect(broker: BrokerParts, topic: str, partition: int) -> int:
    """Elect the leader of a partition again, and return the new leader epoch.

    On one node it is the same leader; clients notice the new epoch, and have to request metadata. Waiting fetches of
    the partition are answered, as in any change of leader.

    Raises:
        UnknownTopicOrPartitionError: the partition does not exist.
    """
    image = broker.image
    found = image.topics.get(topic)
    if found is None or partition not in found.partitions:
        raise UnknownTopicOrPartitionError(topic=topic, partition=partition)
    change = PartitionChangeRecord(partition_id=partition, topic_id=found.topic_id, leader=broker.node_id)
    broker.controller.append([change])
    return found.partitions[partition].leader_epoch
