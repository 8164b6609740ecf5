"""What the producer counts, under Kafka's names, by topic and broker where Kafka does so too.

Recorded on the network thread, once per batch or request.
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
        self._delivery_time = metrics.histogram("record_delivery_time")
        self._per_request = metrics.histogram("records_per_request")
        self._compression = metrics.histogram("compression_rate")
        self._throttle = metrics.histogram("produce_throttle_time")
        self._latency = metrics.histogram("produce_request_latency")
        self._by_topic: dict[str, tuple[Counter, Counter]] = {}

    def sent(self, batch: ProducerBatch, size: int, now: float) -> None:
        """A batch of so many bytes goes out."""
        self._batch_size.record(size)
        if batch.attempts == 1 and batch.builder is not None:
            self._queue_time.record(now - batch.created)
            self._compression.record(size / batch.builder.size_in_bytes)
        records, amount = self._topic(batch.topic)
        records.add(batch.count)
        amount.add(size)
        self._records.add(batch.count)
        self._bytes.add(size)

    def request(self, batches: int, records: int) -> None:
        """A request goes out."""
        self._per_request.record(records)

    def latency(self, node: int, seconds: float, throttle_ms: int) -> None:
        """A response came."""
        self._latency.record(seconds)
        self._throttle.record(throttle_ms / 1000)

    def delivered(self, batch: ProducerBatch, now: float) -> None:
        """A batch arrived."""
        self._delivery_time.record(now - batch.created)

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
        found = self._by_topic.get(topic)
        if found is None:
            found = self._by_topic[topic] = (
                self._metrics.counter("record_send_total", topic=topic),
                self._metrics.counter("byte_total", topic=topic),
            )
        return found

    def forget(self, topic: str) -> None:
        """A topic is no longer produced to."""
        if self._by_topic.pop(topic, None) is not None:
            self._metrics.forget(topic=topic)
