"""Writers of batches and streams: Spark's interface, which calls a `Delivery`.

Spark creates a writer in a separate process, pickles it, and calls `write` in the executors, once for each task. The
results are passed to `commit` or `abort` of another writer, created in a process of the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kclient.spark.delivery import Delivery, check_topic, choose_delivery
from kclient.spark.record_columns import RecordColumns
from kclient.spark.workers import AcknowledgesArrival, freeze_modules

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from kclient.spark.options import WriteOptions


ONLY_BATCH = 0
"""The batch number of a batch write."""


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):  # type: ignore[misc]  # PySpark is not installed where types are checked
    """The result of a task, for the driver.

    Attributes:
        written: the result of its delivery.
    """

    written: Any


class BatchWriter(AcknowledgesArrival, DataSourceArrowWriter):  # type: ignore[misc]
    """Writes the rows of `df.write`, as the option `delivery` selects.

    Parameters:
        options: the options of the write.
        schema: the columns of the rows.

    Raises:
        OptionError: an option that the delivery needs is missing.
        SourceError: the columns cannot be written, or the topic does not exist.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._delivery = choose_delivery(options, _columns(options, schema), is_stream=False)
        # Not for streams: each of their micro-batches creates a writer.
        check_topic(options)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskWritten:
        """Write the rows of one task."""
        return _write(self._delivery, iterator)

    def commit(self, messages: list[TaskWritten | None]) -> None:
        """Complete the write, because all tasks have written."""
        self._delivery.commit(_told(messages), ONLY_BATCH)

    def abort(self, messages: list[TaskWritten | None]) -> None:
        """Abort the write, because tasks or the commit failed."""
        self._delivery.abort(_told(messages), ONLY_BATCH)


class StreamWriter(AcknowledgesArrival, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes the micro-batches of `df.writeStream`, as the option `delivery` selects.

    Parameters:
        options: the options of the write.
        schema: the columns of the rows.

    Raises:
        OptionError: an option that the delivery needs is missing.
        SourceError: the columns cannot be written.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._delivery = choose_delivery(options, _columns(options, schema))

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskWritten:
        """Write the rows of one task."""
        return _write(self._delivery, iterator)

    def commit(self, messages: list[TaskWritten | None], batchId: int) -> None:
        """Complete a micro-batch, because all its tasks have written."""
        self._delivery.commit(_told(messages), batchId)
        freeze_modules()

    def abort(self, messages: list[TaskWritten | None], batchId: int) -> None:
        """Abort a micro-batch, because its tasks or its commit failed."""
        self._delivery.abort(_told(messages), batchId)


def _write(delivery: Delivery, rows: Iterator[pyarrow.RecordBatch]) -> TaskWritten:
    written = TaskWritten(delivery.write(rows, TaskContext.get()))
    freeze_modules()
    return written


def _told(messages: list[TaskWritten | None]) -> list[Any]:
    return [message and message.written for message in messages]


def _columns(options: WriteOptions, schema: StructType) -> RecordColumns:
    return RecordColumns.choose({field.name: field.dataType.simpleString() for field in schema.fields}, options.topic)
