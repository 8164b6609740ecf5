"""Reads a stream: a process of the driver says from where to where, and the executors read.

Spark makes a reader for the life of the query, in a process of its own, and asks it for offsets and tasks; another one
it pickles for the executors, whose consumers outlive the micro-batches (`consumers`). What is asked is answered by
`micro_batches`; here is what PySpark's types have to say about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kclient.spark.errors import SourceError, told_shortly
from kclient.spark.micro_batches import MicroBatches, Written
from kclient.spark.schema import check_schema
from kclient.spark.tasks import read_task
from kclient.spark.workers import Arriving

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from kclient.spark.options import ReadOptions


# PySpark is not installed where types are checked.
class StreamReader(Arriving, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads what the options say, micro-batch by micro-batch.

    Parameters:
        options: what to read.
        schema: what Spark asks for, which must be what the source declared.

    Raises:
        OptionError: the options make no sense for a stream.
        SourceError: the schema is another one.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._told = told_shortly(options.servers)
        self._options = options.for_stream()
        check_schema(schema, options.columns)
        self._made: MicroBatches | None = None

    @property
    def _batches(self) -> MicroBatches:
        # Only the reader that is asked for offsets needs them; the other is pickled.
        if self._made is None:
            self._made = MicroBatches(self._options)
        return self._made

    def initialOffset(self) -> Written:
        """Where the query starts, unless its checkpoint says so."""
        with self._told:
            return self._batches.initial()

    def prepareForTriggerAvailableNow(self) -> None:
        """The query is to end at what is there now."""
        with self._told:
            self._batches.hold()

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say of the size of a micro-batch; Spark can carry one half of it, and hands it back."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: Written, limit: ReadLimit) -> Written:
        """Where the next micro-batch ends.

        Raises:
            DataLossError: something is gone, and that is an error.
            SourceError: Kafka does not answer, or a topic does not exist.
        """
        options = self._options
        with self._told:
            if isinstance(limit, ReadAllAvailable):
                return self._batches.latest(start)
            if isinstance(limit, ReadMaxRows):
                return self._batches.latest(start, limit.max_rows, options.min_offsets_per_trigger)
            if isinstance(limit, ReadMinRows):
                return self._batches.latest(start, options.max_offsets_per_trigger, limit.min_rows)
            raise SourceError(f"a stream of records cannot be limited by {type(limit).__name__}")

    def reportLatestOffset(self) -> Written | None:
        """How far the partitions go, for the query's progress."""
        return self._batches.reported()

    def partitions(self, start: Written, end: Written) -> list[InputPartition]:
        """The tasks of a micro-batch, each as the value of a partition.

        Raises:
            DataLossError: something is gone, and that is an error.
            SourceError: Kafka does not answer.
        """
        with self._told:
            return [InputPartition(task) for task in self._batches.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read one task."""
        return read_task(self._options, partition.value)

    def commit(self, end: Written) -> None:
        """Everything before `end` is processed."""
        with self._told:
            self._batches.commit(end)

    def stop(self) -> None:
        """The query has ended."""
        if self._made is not None:
            self._made.stop()
