"""Which partitions a record without a key may go to, and how likely each is (KIP-794).

Partitions whose queues are longer get fewer new batches, so that a slow broker does not hold up the
fast ones; those whose broker took nothing for partitioner_availability_timeout_ms get none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kclient.producer.accumulator import TopicQueue
from kclient.types import PartitionInfo


class PartitionLoad:
    """Offers each topic's sticky partitioner its choices.

    Parameters:
        adaptive: whether queue lengths count.
    """

    def __init__(self, adaptive: bool) -> None:
        self._adaptive = adaptive
        self._weighted: set[TopicQueue] = set()

    def forget(self, topic: TopicQueue) -> None:
        """The topic is gone."""
        self._weighted.discard(topic)

    def look(self, topic: TopicQueue, partitions: Sequence[PartitionInfo], silent: Collection[int]) -> None:
        """Look at a topic's queues.

        Parameters:
            partitions: what the metadata says of them.
            silent: brokers that take nothing.
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
