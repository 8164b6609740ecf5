"""The record metrics, by topic and in total. A deleted topic's own numbers are dropped."""

from __future__ import annotations


class TopicStats:
    """The traffic of one topic, or of all topics.

    Attributes:
        records_in: stored records; as in Kafka, a record that its producer sent twice counts twice.
        bytes_in, bytes_out: bytes of record batches as received and as fetched, compressed.
        bytes_rejected: bytes of batches that were too large.
        failed_produce, failed_fetch: responses with an unexpected error for a partition of the topic; a missing
            partition, another leader, a record that is too large or corrupt and a failed disk are expected errors.
    """

    __slots__ = ("bytes_in", "bytes_out", "bytes_rejected", "failed_fetch", "failed_produce", "records_in")

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.failed_produce = 0
        self.failed_fetch = 0

    def add(self, other: TopicStats) -> None:
        """Add the counts of another topic."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class TopicMetrics:
    """The traffic of all topics; an entry is created with a topic's first records."""

    def __init__(self) -> None:
        self._by_name: dict[str, TopicStats] = {}
        self._deleted = TopicStats()

    def of(self, topic: str) -> TopicStats:
        """Return the traffic of an existing topic."""
        found = self._by_name.get(topic)
        if found is None:
            found = self._by_name[topic] = TopicStats()
        return found

    def remove(self, topic: str) -> None:
        """Drop a deleted topic; the totals keep its numbers."""
        stats = self._by_name.pop(topic, None)
        if stats is not None:
            self._deleted.add(stats)

    def all(self) -> dict[str, TopicStats]:
        """Return the topics that had any traffic, by name."""
        return dict(self._by_name)

    def total(self) -> TopicStats:
        """Return the traffic of all topics, including deleted ones."""
        total = TopicStats()
        total.add(self._deleted)
        for stats in self._by_name.values():
            total.add(stats)
        return total
