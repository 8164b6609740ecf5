"""The partitions for records without a key, and their weights (KIP-794).

Partitions with longer queues get fewer new batches, so that a slow broker does not delay the fast ones; those whose
broker has accepted nothing for partitioner_availability_timeout_ms get none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kclient.config import ProducerConfig
from kclient.producer.accumulator import Accumulator, TopicQueue
from kclient.producer.batch import Queue
from kclient.producer.collator import Clusters
from kclient.types import PartitionInfo

WEIGHING_INTERVAL = 0.01
"""Seconds between two checks of the queues' lengths."""


class PartitionLoad:
    """Offers each topic's sticky partitioner its choices.

    Parameters:
        accumulator: has the queues of each topic.
        metadata: has the leaders of the partitions.
    """

    def __init__(self, config: ProducerConfig, accumulator: Accumulator, metadata: Clusters) -> None:
        self._accumulator = accumulator
        self._metadata = metadata
        self._adaptive = config.partitioner_adaptive_partitioning_enable
        self._availability_timeout = config.partitioner_availability_timeout_ms / 1000
        self._weighted: set[TopicQueue] = set()
        self._stuck_since: dict[int, float] = {}
        self._weighed_at = 0.0

    def broker_is_stuck(self, node: int, now: float) -> None:
        """Note that a broker accepts no request, although batches are due."""
        self._stuck_since.setdefault(node, now)

    def broker_is_ready(self, node: int) -> None:
        """Note that a broker accepts requests."""
        self._stuck_since.pop(node, None)

    def weigh(self, queues: Iterable[Queue], now: float) -> None:
        """Offer choices by queue length to the topics of these queues, once per `WEIGHING_INTERVAL` at most."""
        if now < self._weighed_at + WEIGHING_INTERVAL:
            return
        self._weighed_at = now
        silent: set[int] = set()
        if self._availability_timeout:
            silent = {node for node, since in self._stuck_since.items() if now - since > self._availability_timeout}
        for name in {queue.topic for queue in queues}:
            topic = self._accumulator.topics.get(name)
            partitions = self._metadata.cluster.partitions(name)
            if topic is not None and partitions is not None:
                self.look(topic, partitions, silent)

    def forget(self, topic: TopicQueue) -> None:
        """Drop a topic."""
        self._weighted.discard(topic)

    def look(self, topic: TopicQueue, partitions: Sequence[PartitionInfo], silent: Collection[int]) -> None:
        """Check the queues of a topic.

        Parameters:
            partitions: their metadata.
            silent: brokers that accept nothing.
        """
        if not self._adaptive or len(partitions) < 2:
            return
        queues = topic.partitions
        led = [p.partition for p in partitions if p.leader is not None and p.partition < len(queues)]
        choices = [p for p in led if partitions[p].leader not in silent] or led
        sizes = [queues[partition].size() for partition in choices]
        if not choices:
            return
        most = max(sizes)
        if len(choices) == len(partitions) and min(sizes) == most:
            if topic in self._weighted:
                self._weighted.discard(topic)
                topic.offer(choices)
            return
        total = 0
        weights = []
        for size in sizes:
            total += most + 1 - size
            weights.append(total)
        self._weighted.add(topic)
        topic.offer(choices, weights)
