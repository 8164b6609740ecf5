"""Collects the batches for one request: the next due batch of each partition, up to the maximum size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kclient.config import ProducerConfig
from kclient.net.cluster import Cluster
from kclient.producer.accumulator import Accumulator
from kclient.producer.batch import ProducerBatch, Queue
from kclient.producer.idempotence import Identity
from kclient.types import PartitionInfo

SMOOTHING = 0.3
MARGIN = 1.05


class Clusters(Protocol):
    """The source of the partitions' leaders."""

    @property
    def cluster(self) -> Cluster: ...


class Collator:
    """Takes the batches of one request at a time from the queues.

    Attributes:
        compression: the compressed size as a fraction of the original, smoothed over the last batches.
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

    def collate(self, queues: Iterable[Queue], now: float) -> list[ProducerBatch]:
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

    def lingers_until(self, opened: float) -> float:
        """Return when a batch that was opened then is due; 0.0 (immediately) while calls wait for memory."""
        return 0.0 if self._accumulator.blocked else opened + self._linger

    @staticmethod
    def backs_off_until(batch: ProducerBatch, info: PartitionInfo | None) -> float:
        """Return when a batch may be sent again; 0.0 (immediately) if the partition's leader has moved."""
        attempts = batch.attempts
        return 0.0 if info is not None and attempts.leader_moved(info) else attempts.retry_at

    def built(self, batch: ProducerBatch, size: int) -> None:
        """Update the compression ratio from the compressed size of a batch."""
        builder = batch.builder
        if batch.attempts.made == 0 and builder is not None and builder.compression_type != "none":
            ratio = MARGIN * size / builder.size_in_bytes
            self.compression = min(1.0, (1 - SMOOTHING) * self.compression + SMOOTHING * ratio)

    def _may_send(self, queue: Queue, now: float) -> bool:
        if self._one_at_a_time and queue.in_flight:
            return False
        if queue.ready:
            head = queue.ready[0]
            if head.attempts.retry_at > now:
                info = self._metadata.cluster.partition(head.topic, head.partition)
                if self.backs_off_until(head, info) > now:
                    return False
            return self._identity.may_send(queue, head)
        opened = queue.open_since()
        if opened < 0.0 or not self._identity.may_send(queue, None):
            return False
        return self.lingers_until(opened) <= now and queue.seal()

    def _estimate(self, batch: ProducerBatch) -> int:
        if batch.wire is not None:
            return len(batch.wire)
        assert batch.builder is not None
        return int(batch.builder.size_in_bytes * self.compression)
