"""What the producer counts, under Kafka's names, by topic and broker where Kafka does so too.

Times are in milliseconds, as Kafka's. Recorded on the network thread, once per batch or request.
"""

from __future__ import annotations

from kclient.metrics import Counter, Metrics
from kclient.producer.batch import ProducerBatch


class Measures:
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
        self._throttle = metrics.histogram("produce_throttle_time")
        self._latency = metrics.histogram("produce_request_latency")
        self._by_topic: dict[str, tuple[Counter, Counter]] = {}

    def sent(self, batch: ProducerBatch, size: int, now: float) -> None:
        """A batch of so many bytes goes out."""
        builder = batch.builder
        assert builder is not None
        count = builder.count
        self._batch_size.record(size)
        if batch.attempts.made == 1:
            self._queue_time.record((now - batch.created) * 1000)
            if builder.compression_type != "none":
                self._compression.record(size / builder.size_in_bytes)
        records, amount = self._by_topic.get(batch.topic) or self._topic(batch.topic)
        # Added to directly: this stands between a record and the wire.
        records.total += count
        amount.total += size
        self._records.total += count
        self._bytes.total += size

    def request(self, records: int) -> None:
        """A request with so many records goes out."""
        self._per_request.record(records)

    def latency(self, seconds: float, throttle_ms: int) -> None:
        """A response came."""
        self._latency.record(seconds * 1000)
        if throttle_ms:
            self._throttle.record(throttle_ms)

    def retried(self, batch: ProducerBatch) -> None:
        """A batch has to be sent again."""
        self._retries.add(batch.count)

    def failed(self, topic: str, records: int) -> None:
        """Records were given up."""
        self._errors.add(records)
        self._metrics.counter("record_error_total", topic=topic).add(records)

    def split(self) -> None:
        """A batch was too large."""
        self._splits.add()

    def _topic(self, topic: str) -> tuple[Counter, Counter]:
        found = self._by_topic[topic] = (
            self._metrics.counter("record_send_total", topic=topic),
            self._metrics.counter("byte_total", topic=topic),
        )
        return found

    def forget(self, topic: str) -> None:
        """A topic is no longer produced to."""
        if self._by_topic.pop(topic, None) is not None:
            self._metrics.forget(topic=topic)
