"""The data source as Spark sees it: a name, a schema, readers and writers.

Spark pickles an instance and sends it to other processes, so it contains only the options. Every Spark session in a
Python with this package imports this module, even without Kafka, so each method imports what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from kclient.spark.errors import source_errors
    from kclient.spark.options import ReadOptions, WriteOptions


class KafkaSource(DataSource):  # type: ignore[misc]  # PySpark is not installed where types are checked
    """The format `kclient` of `spark.read`, `readStream`, `write` and `writeStream`; `kclient.spark.options` has its
    options.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kclient"

    def schema(self) -> str:
        """Return the columns of a read, as DDL."""
        from kclient.spark.schema import ddl

        with self._source_errors():
            return ddl(self._read_options().columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        from kclient.spark.reader import BatchReader

        with self._source_errors():
            return BatchReader(self._read_options(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        from kclient.spark.streaming import StreamReader

        with self._source_errors():
            return StreamReader(self._read_options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch.

        Raises:
            OptionError: the mode is to overwrite the topic.
        """
        from kclient.spark.errors import OptionError
        from kclient.spark.writer import BatchWriter

        with self._source_errors():
            if overwrite:
                raise OptionError("a topic is appended to, not overwritten: mode('append')")
            return BatchWriter(self._write_options(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a micro-batch; Spark requests one for each.

        `overwrite` means the output mode `complete`: each micro-batch has all rows of the result, which are appended,
        as in Spark's own connector.
        """
        from kclient.spark.workers import freeze_modules
        from kclient.spark.writer import StreamWriter

        with self._source_errors():
            writer = StreamWriter(self._write_options(), schema)
        freeze_modules()
        return writer

    def _source_errors(self) -> source_errors:
        """Wrap a whole method, so that Spark's traceback has no frames of this source."""
        from kclient.spark.errors import source_errors
        from kclient.spark.options import PREFIX, SERVERS

        return source_errors(self.options.get(PREFIX + SERVERS, ""))

    def _read_options(self) -> ReadOptions:
        from kclient.spark.options import ReadOptions
        from kclient.spark.requirements import check_requirements

        check_requirements()
        return ReadOptions.parse(self.options)

    def _write_options(self) -> WriteOptions:
        from kclient.spark.options import WriteOptions
        from kclient.spark.requirements import check_requirements

        check_requirements()
        return WriteOptions.parse(self.options)
