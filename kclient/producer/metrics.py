"""The metrics of a producer, with Kafka's names, and with labels for topic and broker where Kafka has them.

Times are in milliseconds. Recorded on the network thread, once per batch or request.
"""

from __future__ import annotations

from kclient.metrics import Counter, Metrics
from kclient.producer.batch import ProducerBatch


class ProducerMetrics:
    """The producer's metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._records = metrics.counter("record_send_total")
        self._bytes = metrics.counter("outgoing_batch_byte_total")
        self._errors = metrics.counter("record_error_total")
        self._retries = metrics.counter("record_retry_total")
        self._splits = metrics.counter("batch_split_total")
        self._batch_size = metrics.histogram("batch_size")
        self._queue_time = metrics.histogram("record_queue_time")
        self._per_request = metrics.histogram("records_per_request")
        self._compression = metrics.histogram("compression_rate")
        self._latency = metrics.histogram("produce_request_latency")
        self._by_topic: dict[str, tuple[Counter, Counter]] = {}

    def sent(self, batch: ProducerBatch, size: int, now: float) -> None:
        """Record a batch that is sent with this size in bytes."""
        builder = batch.builder
        assert builder is not None
        count = builder.count
        self._batch_size.record(size)
        if batch.attempts.made == 1:
            self._queue_time.record((now - batch.created) * 1000)
            if builder.compression_type != "none":
                self._compression.record(size / builder.size_in_bytes)
        records, amount = self._by_topic.get(batch.topic) or self._topic(batch.topic)
        # Added to directly, because this is on the hot path.
        records.total += count
        amount.total += size
        self._records.total += count
        self._bytes.total += size

    def request(self, records: int) -> None:
        """Record a request with this number of records."""
        self._per_request.record(records)

    def latency(self, seconds: float) -> None:
        """Record a response."""
        self._latency.record(seconds * 1000)

    def retried(self, batch: ProducerBatch) -> None:
        """Record a batch that must be sent again."""
        self._retries.add(batch.count)

    def failed(self, topic: str, records: int) -> None:
        """Record failed records."""
        self._errors.add(records)
        self._metrics.counter("record_error_total", topic=topic).add(records)

    def split(self) -> None:
        """Record a batch that was split."""
        self._splits.add()

    def _topic(self, topic: str) -> tuple[Counter, Counter]:
        found = self._by_topic[topic] = (
            self._metrics.counter("record_send_total", topic=topic),
            self._metrics.counter("byte_total", topic=topic),
        )
        return found

    def forget(self, topic: str) -> None:
        """Drop the metrics of a topic that is no longer used."""
        if self._by_topic.pop(topic, None) is not None:
            self._metrics.forget(topic=topic)
