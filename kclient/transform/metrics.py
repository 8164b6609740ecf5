"""The metrics of the loop."""

from __future__ import annotations

from kclient.metrics import Metrics
from kclient.net.runtime import current
from kclient.transform.batch import Batch


class TransformMetrics:
    """The metrics of one loop.

    Attributes:
        metrics: all metrics.
        failed: counts the failures of the function.
    """

    def __init__(self) -> None:
        self.metrics = metrics = Metrics(clock=current().monotonic)
        self._records_in = metrics.counter("transform_records_in_total")
        self._records_out = metrics.counter("transform_records_out_total")
        self._commits = metrics.counter("transform_commit_total")
        self._aborts = metrics.counter("transform_abort_total")
        self._aborted = metrics.counter("transform_records_aborted_total")
        self.failed = metrics.counter("transform_records_failed_total")
        self._size = metrics.histogram("transform_batch_size")
        self._latency = metrics.histogram("transform_batch_latency")
        self._commit_latency = metrics.histogram("transform_commit_latency")

    def committed(self, batch: Batch, began: float, now: float) -> None:
        """Record a committed transaction.

        Parameters:
            batch: its records.
            began, now: seconds; the start and the end of the commit.
        """
        self._records_in.add(batch.records_in)
        self._records_out.add(batch.records_out)
        self._commits.add()
        self._size.record(batch.records_in)
        self._latency.record(1000 * (now - batch.started))
        self._commit_latency.record(1000 * (now - began))

    def aborted(self, batch: Batch) -> None:
        """Record an aborted transaction; its records are read again."""
        self._aborts.add()
        self._aborted.add(batch.records_in)
