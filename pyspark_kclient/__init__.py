"""Spark imports every top-level module called `pyspark_*` when a session first asks for a data source, and registers
the class it finds under `DefaultSource`; this one makes `format("kclient")` known without a line of the user's.

It is imported in sessions that have nothing to do with Kafka too, so it loads little, and whatever stands in its way
must not stand in theirs: then there is no `DefaultSource`, and `kclient.spark.register` says what is wrong.
"""

from __future__ import annotations

import logging

try:
    from kclient.spark.source import KafkaSource as DefaultSource
except Exception as error:  # noqa: BLE001 - see above
    logging.getLogger(__name__).debug("format('kclient') is not available: %s", error)
else:
    __all__ = ["DefaultSource"]
