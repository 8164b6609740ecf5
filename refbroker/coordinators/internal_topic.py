"""The internal topics of coordinators, which are created at the first request for a coordinator.

As in Apache Kafka, the response is COORDINATOR_NOT_AVAILABLE until the topic exists; on the node of the controller it
exists at once. A replication factor that exceeds the number of brokers is reduced to that number, so that one node
needs no setting of its own; Apache Kafka does not create the topic then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from kclient.protocol.messages.create_topics import CreateTopicsRequest
from refbroker.coordinators.records import partition_for
from refbroker.metadata.image import ClusterImage

NewTopic = CreateTopicsRequest.CreatableTopic

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"


class AutoTopicCreationManager(Protocol):
    """The component that creates internal topics."""

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Request the creation of topics; a failure is logged."""


class InternalTopic:
    """The internal topic of a coordinator.

    Parameters:
        image: the cluster's metadata.
        creation: creates the topic.
        name: the topic's name.
        partitions, replication: the number of partitions and the replication factor from the broker's settings.
        configs: the topic's settings.
    """

    def __init__(
        self,
        image: ClusterImage,
        creation: AutoTopicCreationManager,
        name: str,
        partitions: int,
        replication: int,
        configs: Mapping[str, str],
    ) -> None:
        self.name = name
        self._image = image
        self._creation = creation
        self._partitions = partitions
        self._replication = replication
        self._configs = configs
        self._counted: tuple[UUID, int] | None = None

    def ensure(self) -> bool:
        """Create the topic unless it exists; return whether it exists now."""
        if self.name in self._image.topics:
            return True
        replicas = min(self._replication, len(self._image.brokers))
        topic = NewTopic(
            name=self.name,
            num_partitions=self._partitions,
            replication_factor=replicas,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
                for name, value in self._configs.items()
            ],
        )
        self._creation.create_topics([topic])
        return self.name in self._image.topics

    def partition_for(self, key: str) -> int:
        """Return the partition that coordinates a key."""
        topic = self._image.topics.get(self.name)
        if topic is None:
            return partition_for(key, self._partitions)
        if self._counted is None or self._counted[0] != topic.topic_id:
            # Partitions that are added later would move keys away from their state; Kafka, too, counts only once.
            self._counted = topic.topic_id, len(topic.partitions)
        return partition_for(key, self._counted[1])
