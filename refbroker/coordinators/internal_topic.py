"""Makes the internal topics of coordinators when they are asked for the first time.

Apache Kafka answers COORDINATOR_NOT_AVAILABLE until the topic is there; here it is there at once. Where its
replication factor asks for more brokers than there are, it gets as many as there are, so that one node needs no
setting of its own; Apache Kafka does not make the topic then.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

from kclient.errors import KafkaError
from refbroker.coordinators.records import partition_for
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.topics import NewTopic

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"


class AutoTopicCreationManager(Protocol):
    """What creates the topic."""

    def create_topic(self, topic: NewTopic) -> None:
        """Create a topic, which exists on return.

        Raises:
            KafkaError: it could not be created.
        """


class InternalTopic:
    """The topic of a coordinator.

    Parameters:
        image: the state of the cluster.
        creation: creates the topic.
        name: of the topic.
        partitions, replication: what the settings ask for.
        configs: the topic's own settings.
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
        """Make the topic unless it exists, and say whether it does then."""
        if self.name in self._image.topics:
            return True
        replicas = min(self._replication, len(self._image.brokers))
        topic = NewTopic(self.name, self._partitions, replicas, configs=self._configs)
        try:
            self._creation.create_topic(topic)
        except KafkaError as error:
            logger.error("could not create %s: %s", self.name, error)
            return False
        return True

    def partition_for(self, key: str) -> int:
        """The partition a key is in."""
        topic = self._image.topics.get(self.name)
        if topic is None:
            return partition_for(key, self._partitions)
        if self._counted is None or self._counted[0] != topic.topic_id:
            # More partitions would move the keys away from their state; Kafka counts them at its start as well.
            self._counted = topic.topic_id, len(topic.partitions)
        return partition_for(key, self._counted[1])
