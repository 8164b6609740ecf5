"""The data source as Spark sees it: a name, a schema, and who reads and writes.

Spark pickles an instance and takes it to other processes, so it holds nothing but the options. Every session of a
Python that has this package imports this module, also where Kafka plays no part; so each method imports what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from kclient.spark.options import ReadOptions, WriteOptions

    Options = TypeVar("Options", ReadOptions, WriteOptions)


class KafkaSource(DataSource):  # type: ignore[misc]  # PySpark is not installed where types are checked
    """`spark.read.format("kclient")` and its like; see `kclient.spark.options` for what they can be told."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kclient"

    def schema(self) -> str:
        """The columns that a read has, as DDL."""
        from kclient.spark.schema import ddl

        return ddl(self._read_options().columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Who reads a batch."""
        from kclient.spark.reader import BatchReader

        return BatchReader(self._read_options(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Who reads the micro-batches of a stream."""
        from kclient.spark.streaming import StreamReader

        return StreamReader(self._read_options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Who writes a batch.

        Raises:
            OptionError: it is to overwrite the topic.
        """
        from kclient.spark.errors import OptionError
        from kclient.spark.writer import BatchWriter

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

        writer = StreamWriter(self._write_options(), schema)
        freeze_modules()
        return writer

    def _read_options(self) -> ReadOptions:
        from kclient.spark.options import ReadOptions

        return self._parsed(ReadOptions)

    def _write_options(self) -> WriteOptions:
        from kclient.spark.options import WriteOptions

        return self._parsed(WriteOptions)

    def _parsed(self, kind: type[Options]) -> Options:
        from kclient.spark.errors import told_shortly
        from kclient.spark.options import PREFIX, SERVERS
        from kclient.spark.requirements import check_requirements

        with told_shortly(self.options.get(PREFIX + SERVERS, "")):
            check_requirements()
            return kind.parse(self.options)
