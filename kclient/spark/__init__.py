"""The PySpark data source `kclient`: Kafka in and out of Spark without a JVM connector.

    spark.read.format("kclient").option("kafka.bootstrap.servers", ...).option("subscribe", "orders").load()

Where this package is installed beside PySpark, Spark finds the source by itself (`pyspark_kclient`); `register` does it
by hand. Option names and the schema are those of Spark's own Kafka connector, so that a job moves over by changing the
name of the format.

Only `source`, `reader` and what else is made of PySpark's base classes import PySpark, and only they; pyarrow is
imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `format("kclient")` known to a session that did not find it by itself.

    Parameters:
        spark: the session.

    Raises:
        MissingRequirementError: PySpark is missing or older than 4.2, or pyarrow is missing; or, where Spark runs on
            this machine alone, its workers run another Python, which has no kclient.
    """
    from kclient.spark.requirements import check_requirements, check_workers

    check_requirements()
    check_workers(spark)
    from kclient.spark.source import KafkaSource

    spark.dataSource.register(KafkaSource)
