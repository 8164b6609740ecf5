"""What is counted of records, by topic and in all. A topic that is deleted takes its own numbers along."""

from __future__ import annotations


class TopicStats:
    """The traffic of one topic, or of all.

    Attributes:
        records_in: how many records were stored; one whose producer sent it twice counts twice, as with Kafka.
        bytes_in, bytes_out: of record batches as they came and as they were given out, compressed.
        bytes_rejected: of batches that were too large.
        failed_produce, failed_fetch: answers for a partition of the topic with an error that nobody expects: no missing
            partition or other leader, no record that is too large or broken, no disk that failed.
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
        """Count what the other has counted, too."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class TopicMetrics:
    """The traffic of all topics; one appears with its first records."""

    def __init__(self) -> None:
        self._by_name: dict[str, TopicStats] = {}
        self._deleted = TopicStats()

    def of(self, topic: str) -> TopicStats:
        """The traffic of a topic that exists."""
        found = self._by_name.get(topic)
        if found is None:
            found = self._by_name[topic] = TopicStats()
        return found

    def remove(self, topic: str) -> None:
        """Forget a topic that was deleted; the numbers in all keep what it had."""
        stats = self._by_name.pop(topic, None)
        if stats is not None:
            self._deleted.add(stats)

    def all(self) -> dict[str, TopicStats]:
        """By name, those that had any traffic."""
        return dict(self._by_name)

    def total(self) -> TopicStats:
        """The traffic of all topics, those included that are gone."""
        total = TopicStats()
        total.add(self._deleted)
        for stats in self._by_name.values():
            total.add(stats)
        return total
