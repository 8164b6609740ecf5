"""The reader of a stream: a process of the driver determines the offsets, and the executors read.

Spark creates a reader for the life of the query, in a separate process, and requests offsets and tasks from it. It
pickles another one for the executors, whose consumers live longer than the micro-batches (`consumers`). `micro_batches`
has the logic; this module converts PySpark's types.
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

from kclient.spark.errors import SourceError, source_errors
from kclient.spark.micro_batches import MicroBatches, StoredOffsets
from kclient.spark.schema import check_schema
from kclient.spark.tasks import read_task
from kclient.spark.workers import AcknowledgesArrival

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from kclient.spark.options import ReadOptions


# PySpark is not installed where types are checked.
class StreamReader(AcknowledgesArrival, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads the topics of the options, micro-batch by micro-batch.

    Parameters:
        options: the options of the read.
        schema: the schema that Spark requests, which must be that of the source.

    Raises:
        OptionError: the options are not possible in a stream.
        SourceError: the schema differs.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._source_errors = source_errors(options.servers)
        self._options = options.for_stream()
        check_schema(schema, options.columns)
        self._made: MicroBatches | None = None

    @property
    def _batches(self) -> MicroBatches:
        # Only the reader that is asked for offsets needs them; the other one is pickled.
        if self._made is None:
            self._made = MicroBatches(self._options)
        return self._made

    def initialOffset(self) -> StoredOffsets:
        """Return the start of the query, unless its checkpoint has it."""
        with self._source_errors:
            return self._batches.initial()

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the query end at the current end offsets."""
        with self._source_errors:
            self._batches.end_at_latest()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limits of a micro-batch from the options; Spark supports one of the two and passes it back."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: StoredOffsets, limit: ReadLimit) -> StoredOffsets:
        """Return the end of the next micro-batch.

        Raises:
            DataLossError: records are lost, and that is an error.
            SourceError: Kafka does not respond, or a topic does not exist.
        """
        options = self._options
        with self._source_errors:
            if isinstance(limit, ReadAllAvailable):
                return self._batches.latest(start)
            if isinstance(limit, ReadMaxRows):
                return self._batches.latest(start, limit.max_rows, options.min_offsets_per_trigger)
            if isinstance(limit, ReadMinRows):
                return self._batches.latest(start, options.max_offsets_per_trigger, limit.min_rows)
            raise SourceError(f"the read limit {type(limit).__name__} is not supported")

    def reportLatestOffset(self) -> StoredOffsets | None:
        """Return the end offsets, for the query's progress."""
        return self._batches.reported()

    def partitions(self, start: StoredOffsets, end: StoredOffsets) -> list[InputPartition]:
        """Return the tasks of a micro-batch, each as the value of a partition.

        Raises:
            DataLossError: records are lost, and that is an error.
            SourceError: Kafka does not respond.
        """
        with self._source_errors:
            return [InputPartition(task) for task in self._batches.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read one task."""
        return read_task(self._options, partition.value)

    def commit(self, end: StoredOffsets) -> None:
        """Note that everything before `end` is processed."""
        with self._source_errors:
            self._batches.commit(end)

    def stop(self) -> None:
        """Stop, because the query has ended."""
        if self._made is not None:
            self._made.stop()
