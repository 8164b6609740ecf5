"""Which batches travel together: the next one of each partition, as far as they fit into one request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kclient.config import ProducerConfig
from kclient.net.cluster import Cluster
from kclient.producer.accumulator import Accumulator, PartitionQueue
from kclient.producer.batch import ProducerBatch
from kclient.producer.idempotence import Identity

SMOOTHING = 0.3
MARGIN = 1.05


class Clusters(Protocol):
    """Who knows the leaders."""

    @property
    def cluster(self) -> Cluster: ...


class Collator:
    """Takes the batches of one request at a time out of the queues.

    Attributes:
        compression: what compression leaves of a batch, as a part of 1, smoothed over the last ones.
    """

    def __init__(
        self, config: ProducerConfig, accumulator: Accumulator, identity: Identity, metadata: Clusters
    ) -> None:
        self._accumulator = accumulator
        self._identity = identity
        self._metadata = metadata
        self._linger = config.linger_ms / 1000
        self._max_request_size = config.max_request_size
        self._one_at_a_time = config.max_in_flight_requests_per_connection == 1
        self.compression = 1.0

    def collate(self, queues: Iterable[PartitionQueue], now: float) -> list[ProducerBatch]:
        """Take the next batch of each of these partitions that may send one."""
        batches: list[ProducerBatch] = []
        room = self._max_request_size
        for queue in queues:
            if not self._may_send(queue, now):
                continue
            size = self._estimate(queue.ready[0])
            if batches and size > room:
                break
            batches.append(queue.ready.popleft())
            room -= size
        return batches

    def built(self, batch: ProducerBatch, size: int) -> None:
        """A batch has become so many bytes."""
        builder = batch.builder
        if batch.attempts == 0 and builder is not None and builder.compression_type != "none":
            ratio = MARGIN * size / builder.size_in_bytes
            self.compression = min(1.0, (1 - SMOOTHING) * self.compression + SMOOTHING * ratio)

    def _may_send(self, queue: PartitionQueue, now: float) -> bool:
        if self._one_at_a_time and queue.muted:
            return False
        if queue.ready:
            head = queue.ready[0]
            if head.retry_at > now:
                info = self._metadata.cluster.partition(head.topic, head.partition)
                if info is None or not head.leader_moved(info):
                    return False
            return self._identity.may_send(queue, head)
        opened = queue.open_since()
        if opened < 0.0 or not self._identity.may_send(queue, None):
            return False
        return (opened + self._linger <= now or bool(self._accumulator.blocked)) and queue.seal()

    def _estimate(self, batch: ProducerBatch) -> int:
        if batch.wire is not None:
            return len(batch.wire)
        assert batch.builder is not None
        return int(batch.builder.size_in_bytes * self.compression)
