"""Reads a batch: the driver decides which offsets, once, and the executors read them.

Spark makes a reader in a process of its own, takes the tasks it plans, pickles it and calls `read` in the executors.
It has no `pushFilters`: with Spark's setting for that at its default, a reader that defines it cannot be used at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kclient.spark.consumers import borrow
from kclient.spark.errors import told_shortly
from kclient.spark.planning import plan
from kclient.spark.ranges import batch_ranges
from kclient.spark.schema import check_schema
from kclient.spark.tasks import read_task
from kclient.spark.workers import Arriving

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

    from kclient.spark.options import ReadOptions


# PySpark is not installed where types are checked.
class BatchReader(Arriving, DataSourceReader):  # type: ignore[misc]
    """Reads what the options say, as it is when the query is planned.

    Parameters:
        options: what to read.
        schema: what Spark asks for, which must be what the source declared.

    Raises:
        OptionError: the options make no sense for a batch.
        SourceError: the schema is another one.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options.for_batch()
        check_schema(schema, options.columns)

    def partitions(self) -> list[InputPartition]:
        """The tasks, each as the value of a partition.

        Raises:
            DataLossError: offsets that are asked for are gone, and that is an error.
            SourceError: Kafka does not answer, or a topic does not exist.
        """
        options = self._options
        with told_shortly(options.servers), borrow(options) as consumer:
            ranges = batch_ranges(consumer, options)
        return [
            InputPartition(task) for task in plan(ranges, options.min_partitions, options.max_records_per_partition)
        ]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read one task; Spark makes one without a value where there is nothing to read."""
        return iter(()) if partition.value is None else read_task(self._options, partition.value)
