"""The PySpark data source `kclient`, which reads and writes Kafka without a JVM connector.

    spark.read.format("kclient").option("kafka.bootstrap.servers", ...).option("subscribe", "orders").load()

If this package is installed beside PySpark, Spark finds the source by itself (`pyspark_kclient`); otherwise call
`register`. Option names and the schema are those of Spark's own Kafka connector, so a job is moved over by changing the
name of the format.

Only modules with subclasses of PySpark's classes, such as `source` and `reader`, import PySpark; pyarrow is imported on
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register `format("kclient")` in a session that did not find it by itself.

    Parameters:
        spark: the session.

    Raises:
        MissingRequirementError: PySpark is missing or older than 4.2, or pyarrow is missing; or Spark runs on this
            machine only, and its workers run another Python, which has no kclient.
    """
    from kclient.spark.requirements import check_requirements, check_workers

    check_requirements()
    check_workers(spark)
    from kclient.spark.source import KafkaSource

    spark.dataSource.register(KafkaSource)
