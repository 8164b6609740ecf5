"""The read of a task in an executor: from the first offset to the last, in batches for Spark.

A log has gaps where compaction removed records, and at transaction markers and aborted records. The consumer's position
passes them, and they are no data loss; offsets that the log no longer has are. Elsewhere: the format of batches
(`arrow`), and PySpark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kclient.errors import KafkaTimeoutError, LogTruncationError, OffsetOutOfRangeError
from kclient.spark.arrow import to_batch
from kclient.spark.clock import monotonic
from kclient.spark.consumers import borrow
from kclient.spark.errors import SourceError, source_errors
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
"""The highest number of rows in a batch."""

BYTES = 16 * 1024 * 1024
"""The approximate most bytes of a batch, estimated from earlier rows."""

FIRST_ROWS = 1_024
"""The rows of the first batch, before their size is known."""

_LOOK_AGAIN = 0.02
"""The interval in seconds at which the position is checked: the last offset of a task may be a gap, and then no poll
returns.
"""


def read_task(options: ReadOptions, task: Task) -> Iterator[pyarrow.RecordBatch]:
    """Read a task with a consumer of this process.

    Raises:
        DataLossError: records of the task are lost, and that is an error.
        SourceError: Kafka does not respond, or another error of Kafka.
    """
    partition = TopicPartition(task.topic, task.partition)
    with source_errors(options.servers), borrow(options, partition, task.start) as consumer:
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
    """One pass over the range of a task."""

    def __init__(self, options: ReadOptions, consumer: Consumer, partition: TopicPartition, end: int) -> None:
        self._options = options
        self._consumer = consumer
        self._partition = partition
        self._end = end
        self._rows = FIRST_ROWS

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield all batches up to the end."""
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
                    f"no record of {partition} from offset {position} on arrived within {patience:g} s "
                    f"(kafkaConsumer.pollTimeoutMs), and the task reads up to {self._end}"
                )

    def _check_reachable(self) -> None:
        """Raise an error if no broker was reachable for default_api_timeout_ms, because polls wait for brokers without
        a limit.
        """
        connectivity = self._consumer.health().connectivity
        limit = self._consumer.config.default_api_timeout_ms / 1000
        if connectivity.state is ConnectivityState.UNREACHABLE and connectivity.duration >= limit:
            causes = "; ".join(error.message for error in connectivity.errors.values())
            raise KafkaTimeoutError(f"no broker was reachable within default_api_timeout_ms ({limit:g} s): {causes}")

    def _fit(self, batch: pyarrow.RecordBatch) -> None:
        """Choose the number of rows of the next batch by the size of earlier rows."""
        size = max(1, batch.nbytes // max(1, batch.num_rows))
        self._rows = max(1, min(ROWS, BYTES // size))

    def _skip_what_is_gone(self, position: int) -> None:
        consumer, partition = self._consumer, self._partition
        first, last = consumer.beginning_offsets([partition]), consumer.end_offsets([partition])
        wanted = [Range(partition, position, self._end)]
        (left,) = in_logs(self._options, wanted, first, last)
        self._end = left.end
        consumer.seek(partition, left.start)
