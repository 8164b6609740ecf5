"""The metrics of fetched and returned records. Elsewhere: those of commits, rebalances and health."""

from __future__ import annotations

from kclient.metrics import Metrics


class ConsumerMetrics:
    """The counters of one consumer.

    Parameters:
        metrics: has the counters.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.records_consumed = metrics.counter("records_consumed_total")
        self._bytes_consumed = metrics.counter("bytes_consumed_total")
        self._fetches = metrics.counter("fetch_total")
        self._fetch_latency = metrics.histogram("fetch_latency")
        self._fetch_size = metrics.histogram("fetch_size")

    def on_fetched(self, size: int, partitions: int, seconds: float) -> None:
        """Count a response to a fetch (network thread)."""
        self._fetches.add()
        self._bytes_consumed.add(size)
        self._fetch_latency.record(1000 * seconds)
        if partitions:
            self._fetch_size.record(size)
