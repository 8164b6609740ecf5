"""Writes batches and streams: Spark's side of it, which hands over to a `Delivery`.

Spark makes a writer in a process of its own, pickles it, and calls `write` in the executors, once for each task; what
they return comes to `commit` or `abort` of another writer, made anew in a process of the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kclient.spark.delivery import AtLeastOnce, choose_delivery
from kclient.spark.errors import OptionError
from kclient.spark.record_columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from kclient.spark.options import WriteOptions


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):  # type: ignore[misc]  # PySpark is not installed where types are checked
    """What a task tells the driver.

    Attributes:
        written: what its delivery returned.
    """

    written: Any


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes the rows of `df.write`, at least once.

    Parameters:
        options: where to.
        schema: the columns of the rows.

    Raises:
        OptionError: exactly once is asked for, which only a stream can have: it knows which batch it repeats.
        SourceError: the columns cannot be written.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        if options.delivery != "at_least_once":
            raise OptionError("only a stream can be delivered exactly once; df.write delivers at least once")
        self._delivery = AtLeastOnce(options=options, columns=_columns(options, schema))

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskWritten:
        """Write the rows of one task."""
        return TaskWritten(self._delivery.write(iterator))


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes the micro-batches of `df.writeStream`, as the option `delivery` says.

    Parameters:
        options: where to, and how.
        schema: the columns of the rows.

    Raises:
        SourceError: the columns cannot be written.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._delivery = choose_delivery(options, _columns(options, schema))

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskWritten:
        """Write the rows of one task."""
        return TaskWritten(self._delivery.write(iterator))

    def commit(self, messages: list[TaskWritten | None], batchId: int) -> None:
        """All tasks of a micro-batch have written."""
        self._delivery.commit([message and message.written for message in messages], batchId)

    def abort(self, messages: list[TaskWritten | None], batchId: int) -> None:
        """Tasks of a micro-batch failed, or its commit did."""
        self._delivery.abort([message and message.written for message in messages], batchId)


def _columns(options: WriteOptions, schema: StructType) -> RecordColumns:
    return RecordColumns.choose({field.name: field.dataType.simpleString() for field in schema.fields}, options.topic)
