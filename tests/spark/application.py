"""A Spark application that copies lines of text files to a topic, exactly once, to the end of what is there.

Run as a program it is killed by the test (`test_exactly_once`); the rest of the test runs the same query in its own
session.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.spark.crashing import PLAN, CrashingSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STATE = {
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
"""In this version each task tells the driver which state it has made, and a batch is not done without."""


@contextmanager
def configured(spark: SparkSession, configs: dict[str, str]) -> Iterator[None]:
    """Queries that start in the block have these settings, and later ones those before."""
    before = {name: spark.conf.get(name) for name in configs}
    try:
        for name, value in configs.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))


class Job(msgspec.Struct):
    """What is copied.

    Attributes:
        folder: has the files, the checkpoint and the plan.
        tasks: how many each batch has; each file is a batch.
        distinct: copy each line once, however often it is there; the query has those that it knows as its state.
        options: of the sink.
        configs: the configuration of a new session.
    """

    folder: str
    tasks: int
    options: dict[str, str]
    distinct: bool = False
    configs: dict[str, str] = {}

    @property
    def plan(self) -> Path:
        return Path(self.folder, "plan")

    @property
    def input(self) -> Path:
        return Path(self.folder, "input")

    def run(self, spark: SparkSession) -> None:
        """Copy all that is there; raises what the query ended with."""
        spark.dataSource.register(CrashingSource)
        lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.input)).repartition(self.tasks)
        if self.distinct:
            lines = lines.dropDuplicates(["value"])
        writer = lines.writeStream.format("kclient_crashing").options(**self.options)
        writer = writer.option(PLAN, str(self.plan)).option("checkpointLocation", f"{self.folder}/checkpoint")
        with configured(spark, STATE | {"spark.sql.shuffle.partitions": str(self.tasks)}):
            query = writer.trigger(availableNow=True).start()
        query.awaitTermination()


def main() -> None:
    from pyspark.sql import SparkSession

    job = msgspec.json.decode(sys.argv[1], type=Job)
    job.run(SparkSession.builder.master("local[2]").config(map=job.configs).getOrCreate())


if __name__ == "__main__":
    main()
