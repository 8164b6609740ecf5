"""The data source as Spark sees it: a name, a schema, and who reads and writes.

Spark pickles an instance and takes it to other processes, so it holds nothing but the options. Every session of a
Python that has this package imports this module, also where Kafka plays no part; so each method imports what it needs.
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

    from kclient.spark.errors import told_shortly
    from kclient.spark.options import ReadOptions, WriteOptions


class KafkaSource(DataSource):  # type: ignore[misc]  # PySpark is not installed where types are checked
    """`spark.read.format("kclient")` and its like; see `kclient.spark.options` for what they can be told."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kclient"

    def schema(self) -> str:
        """The columns that a read has, as DDL."""
        from kclient.spark.schema import ddl

        with self._told():
            return ddl(self._read_options().columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Who reads a batch."""
        from kclient.spark.reader import BatchReader

        with self._told():
            return BatchReader(self._read_options(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Who reads the micro-batches of a stream."""
        from kclient.spark.streaming import StreamReader

        with self._told():
            return StreamReader(self._read_options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Who writes a batch.

        Raises:
            OptionError: it is to overwrite the topic.
        """
        from kclient.spark.errors import OptionError
        from kclient.spark.writer import BatchWriter

        with self._told():
            if overwrite:
                raise OptionError("a topic is appended to, not overwritten: mode('append')")
            return BatchWriter(self._write_options(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Who writes the micro-batches of a stream; Spark asks for each of them anew.

        `overwrite` is the output mode `complete`: each micro-batch then brings all rows of the result, which are
        appended, as Spark's own connector does.
        """
        from kclient.spark.workers import freeze_modules
        from kclient.spark.writer import StreamWriter

        with self._told():
            writer = StreamWriter(self._write_options(), schema)
        freeze_modules()
        return writer

    def _told(self) -> told_shortly:
        """Around all of a method, so that nothing of this source is among the frames that Spark shows."""
        from kclient.spark.errors import told_shortly
        from kclient.spark.options import PREFIX, SERVERS

        return told_shortly(self.options.get(PREFIX + SERVERS, ""))

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
