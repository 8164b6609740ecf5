"""One Produce request: its batches, and its message for a version.

From version 13 topics are named by their ids (KIP-516); if one is unknown, 12 is the last version. That is also the
first version whose batches add their partitions to a transaction, as required by transaction version 2 (KIP-890).
"""

from __future__ import annotations

from uuid import UUID

from kclient._topics import by_topic
from kclient.net.cluster import Cluster
from kclient.producer.batch import ProducerBatch
from kclient.protocol.messages.produce import ProduceRequest

LAST_VERSION_WITH_NAMES = 12
FIRST_VERSION_OF_TRANSACTIONS_2 = 12


class InFlightProduce:
    """The batches of a request in flight, one per partition.

    Attributes:
        node: the broker.
        batches: by topic and partition.
        topic_names: the topic names by id, as of when it was sent.
        sent_at, deadline: when it was sent, and when its first batch expires (driver's clock).
        has_topic_ids: whether the ids of all topics are known.
        depth: the number of requests in flight to the broker, itself included.

    Parameters:
        transactional_id: of the transaction; None outside of one.
        adds_partitions: whether the batches add their partitions to it.
    """

    def __init__(
        self,
        node: int,
        batches: list[ProducerBatch],
        cluster: Cluster,
        acks: int,
        timeout_ms: int,
        now: float,
        *,
        transactional_id: str | None = None,
        adds_partitions: bool = False,
    ) -> None:
        self.node = node
        self.batches = {(batch.topic, batch.partition): batch for batch in batches}
        self.sent_at = now
        self.deadline = min(batch.deadline for batch in batches)
        self.topic_names: dict[UUID, str] = {}
        self.has_topic_ids = True
        self.depth = 1
        # The current bytes: a batch may be given up, or numbered again, before they are written.
        kind = ProduceRequest.PartitionProduceData
        self._data = [(batch.topic, kind(index=batch.partition, records=batch.build())) for batch in batches]
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._transactional_id = transactional_id
        self._adds_partitions = adds_partitions
        self._topic_ids: dict[str, UUID] = {}
        for topic in dict.fromkeys([batch.topic for batch in batches]):
            topic_id = cluster.topic_id(topic)
            if topic_id is None:
                self.has_topic_ids = False
            else:
                self._topic_ids[topic] = topic_id
                self.topic_names[topic_id] = topic

    @property
    def versions(self) -> tuple[int | None, int | None]:
        """The first and the last acceptable version; None for any."""
        first = last = None
        if not self.has_topic_ids:
            last = LAST_VERSION_WITH_NAMES
        if self._transactional_id is not None:
            if self._adds_partitions:
                first = FIRST_VERSION_OF_TRANSACTIONS_2
            else:
                last = FIRST_VERSION_OF_TRANSACTIONS_2 - 1
        return first, last

    def build(self, version: int) -> ProduceRequest:
        """Return the message for a version."""
        grouped = by_topic(self._data)
        if version > LAST_VERSION_WITH_NAMES:
            topics = [
                ProduceRequest.TopicProduceData(topic_id=self._topic_ids[topic], partition_data=data)
                for topic, data in grouped.items()
            ]
        else:
            topics = [
                ProduceRequest.TopicProduceData(name=topic, partition_data=data) for topic, data in grouped.items()
            ]
        return ProduceRequest(
            transactional_id=self._transactional_id, acks=self._acks, timeout_ms=self._timeout_ms, topic_data=topics
        )
