"""What tests of the PySpark data source share: topics with known records, and one Spark session for all of them.

Tests marked `spark` need PySpark and Java, and skip, saying which is missing, where one is; `make spark` brings
PySpark. The others are of the parts that have no PySpark in them. All go against the broker that `--broker` names.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kclient import Admin, NewTopic, Producer
from tests.support.reading import read_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kclient.types import ConsumerRecord

PROJECT = Path(__file__).resolve().parent.parent.parent
SESSION = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
"""How sessions are configured, also those of applications of their own."""


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def missing() -> str | None:
    """Why there can be no session here; None if there can."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed (make spark installs it)"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "java is not on this machine"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reason = missing()
    for item in items:
        if item.get_closest_marker("spark") is None:
            continue
        # PySpark warns of the versions of pandas it was tried with, and leaves sockets to Python to close.
        item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning:pyspark", "ignore::ResourceWarning:pyspark"))
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session, with two threads; the driver's and the executors' Python is this one."""
    from pyspark.sql import SparkSession

    path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", path)
        session = SparkSession.builder.master("local[2]").config(map=SESSION).getOrCreate()
        yield session
        session.stop()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def load(spark: SparkSession, bootstrap_servers: str) -> Callable[..., DataFrame]:
    """Reads a batch from the broker under test; options as keywords, those with dots in a mapping."""

    def load(dotted: dict[str, str] | None = None, **options: object) -> DataFrame:
        every = {"kafka.bootstrap.servers": bootstrap_servers, **(dotted or {}), **options}
        return spark.read.format("kclient").options(**{name: str(value) for name, value in every.items()}).load()

    return load


@pytest.fixture
def make_topic(admin: Admin, topic: str) -> Callable[..., str]:
    """Makes the test's topic, with as many partitions and such configs as asked for."""

    def make(partitions: int = 1, **configs: str) -> str:
        admin.create_topics(
            [NewTopic(topic, num_partitions=partitions, configs={k.replace("_", "."): v for k, v in configs.items()})]
        )
        return topic

    return make


@pytest.fixture
def consumed(bootstrap_servers: str) -> Callable[..., list[ConsumerRecord]]:
    """What the consumer itself reads of a topic: all that is there, ordered by partition and offset."""
    return partial(read_all, bootstrap_servers)


@pytest.fixture
def producer(bootstrap_servers: str) -> Iterator[Producer]:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        yield producer


def fill(producer: Producer, topic: str, count: int, partitions: int = 1) -> None:
    """Records of every shape, in turn over the partitions; each has a timestamp a second after the one before."""
    for number in range(count):
        producer.send(
            topic,
            None if number % 7 == 3 else b"value %d" % number,
            key=None if number % 3 == 0 else b"key %d" % number,
            headers=[("a", b"%d" % number), ("a", None), ("ä", b"")][: number % 4],
            partition=number % partitions,
            timestamp=1000 * number,
        )
    producer.flush()
