"""How an executor reads a task: from the first offset to the last, in batches for Spark.

A log has gaps where compaction removed records, transactions have their markers, or aborted records are left out; the
consumer's position passes them, and they are no loss. An offset that the log no longer has is. Leaves out what the
batches look like (`arrow`), and PySpark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kclient.errors import KafkaTimeoutError, LogTruncationError, OffsetOutOfRangeError
from kclient.spark.arrow import to_batch
from kclient.spark.clock import monotonic
from kclient.spark.consumers import borrow
from kclient.spark.errors import SourceError, told_shortly
from kclient.spark.offsets import Range
from kclient.spark.ranges import in_logs
from kclient.spark.workers import freeze_modules
from kclient.types import ConnectivityState, TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from kclient import Consumer
    from kclient.spark.options import ReadOptions
    from kclient.spark.planning import Task

ROWS = 32_768
"""The most rows of a batch."""

BYTES = 16 * 1024 * 1024
"""About the most bytes of a batch, by the size that the rows before it had."""

FIRST_ROWS = 1_024
"""While nothing is known of their size."""

_LOOK_AGAIN = 0.02
"""Seconds after which the position is looked at: what ends a task may hold no record, and then no poll returns."""


def read_task(options: ReadOptions, task: Task) -> Iterator[pyarrow.RecordBatch]:
    """Read a task with a consumer of this process.

    Raises:
        DataLossError: records of the task are gone, and that is an error.
        SourceError: Kafka does not answer, or something else is wrong with it.
    """
    partition = TopicPartition(task.topic, task.partition)
    with told_shortly(options.servers), borrow(options, partition, task.start) as consumer:
        _go_to(consumer, partition, task.start)
        yield from _Reading(options, consumer, partition, task.end).batches()
    freeze_modules()


def _go_to(consumer: Consumer, partition: TopicPartition, start: int) -> None:
    if consumer.assignment() != {partition}:
        consumer.assign([partition])
        consumer.seek(partition, start)
    elif consumer.position(partition) != start:
        consumer.seek(partition, start)
    consumer.resume(partition)


class _Reading:
    """One pass over a range."""

    def __init__(self, options: ReadOptions, consumer: Consumer, partition: TopicPartition, end: int) -> None:
        self._options = options
        self._consumer = consumer
        self._partition = partition
        self._end = end
        self._rows = FIRST_ROWS

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """Everything up to the end."""
        consumer, partition = self._consumer, self._partition
        patience = self._options.poll_timeout_ms / 1000
        position, moved = consumer.position(partition), monotonic()
        while position < self._end:
            try:
                records = consumer.poll(_LOOK_AGAIN, max_records=min(self._rows, self._end - position))
            except (OffsetOutOfRangeError, LogTruncationError):
                self._skip_what_is_gone(position)
                records = None
            if records:
                batch = to_batch(records, partition, self._options.columns, self._end)
                self._fit(batch)
                if batch.num_rows:
                    yield batch
            before, position = position, consumer.position(partition)
            if position != before:
                moved = monotonic()
                continue
            self._check_reachable()
            if monotonic() - moved > patience:
                raise SourceError(
                    f"nothing came of {partition} from offset {position} within {patience:g} s "
                    f"(kafkaConsumer.pollTimeoutMs), and the task reads up to {self._end}"
                )

    def _check_reachable(self) -> None:
        """Raise if no broker was reachable for default_api_timeout_ms: polls wait for brokers without end."""
        connectivity = self._consumer.health().connectivity
        limit = self._consumer.config.default_api_timeout_ms / 1000
        if connectivity.state is ConnectivityState.UNREACHABLE and connectivity.duration >= limit:
            causes = "; ".join(error.message for error in connectivity.errors.values())
            raise KafkaTimeoutError(f"no broker was reachable within default_api_timeout_ms ({limit:g} s): {causes}")

    def _fit(self, batch: pyarrow.RecordBatch) -> None:
        """Choose how many rows come next, by the size of those that came."""
        size = max(1, batch.nbytes // max(1, batch.num_rows))
        self._rows = max(1, min(ROWS, BYTES // size))

    def _skip_what_is_gone(self, position: int) -> None:
        consumer, partition = self._consumer, self._partition
        first, last = consumer.beginning_offsets([partition]), consumer.end_offsets([partition])
        wanted = [Range(partition, position, self._end)]
        (left,) = in_logs(self._options, wanted, first, last)
        self._end = left.end
        consumer.seek(partition, left.start)
