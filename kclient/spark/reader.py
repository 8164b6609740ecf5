"""The reader of a batch: the driver determines the offsets once, and the executors read them.

Spark creates a reader in a separate process, plans tasks with it, pickles it and calls `read` in the executors. It has
no `pushFilters`, because with Spark's default settings a reader that defines it cannot be used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kclient.spark.consumers import borrow
from kclient.spark.errors import source_errors
from kclient.spark.planning import plan
from kclient.spark.ranges import batch_ranges
from kclient.spark.schema import check_schema
from kclient.spark.tasks import read_task
from kclient.spark.workers import AcknowledgesArrival

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from kclient.spark.options import ReadOptions


# PySpark is not installed where types are checked.
class BatchReader(AcknowledgesArrival, DataSourceReader):  # type: ignore[misc]
    """Reads the topics as they are when the query is planned.

    Parameters:
        options: the options of the read.
        schema: the schema that Spark requests, which must be that of the source.

    Raises:
        OptionError: the options are not possible in a batch.
        SourceError: the schema differs.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options.for_batch()
        check_schema(schema, options.columns)

    def partitions(self) -> list[InputPartition]:
        """Return the tasks, each as the value of a partition.

        Raises:
            DataLossError: requested offsets are lost, and that is an error.
            SourceError: Kafka does not respond, or a topic does not exist.
        """
        options = self._options
        with source_errors(options.servers), borrow(options) as consumer:
            ranges = batch_ranges(consumer, options)
        return [
            InputPartition(task) for task in plan(ranges, options.min_partitions, options.max_records_per_partition)
        ]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read one task; if there is nothing to read, Spark creates a partition without a value."""
        return iter(()) if partition.value is None else read_task(self._options, partition.value)
