"""Streams of Spark that die while they write exactly once: tasks, drivers, whole applications; and start again.

`tests/integration/test_spark_exactly_once.py` tries every single call without Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil
import pytest

from tests.reading import committed
from tests.spark.conftest import PROJECT, SESSION
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.application import Job

pytestmark = pytest.mark.spark

SHORT, LONG = 5, 30
"""Seconds that transactions may be open: less than any wait, and more than a batch takes on a busy machine."""
START_SECONDS = 200.0
"""A session starts in five; on a machine that does much else it takes its time."""

WHERE = [
    "after prepare_transaction",
    "before commit_transaction",
    "after commit_transaction",
    "before complete_transaction",
    "after complete_transaction",
    "after commit",
]
"""A task, and the driver: before the decision, after it, before and after a completion, after all."""


class Copy:
    """A job, its files, and how to run it."""

    def __init__(self, job: Job, servers: str, topic: str) -> None:
        self.job = job
        self._servers = servers
        self._topic = topic
        self._lines: list[bytes] = []

    def add_file(self, lines: int = 10) -> None:
        number = len(self._lines)
        added = [b"%04d" % (number + line) for line in range(lines)]
        path = self.job.input / f"{number}.txt"
        path.with_suffix(".new").write_bytes(b"\n".join(added) + b"\n")
        path.with_suffix(".new").rename(path)
        self._lines += added

    def plan(self, step: str, do: str, skip: int = 0, seconds: float = 0) -> None:
        from tests.spark.crashing import Plan

        Plan(step, do, skip, seconds).write(self.job.plan)

    @property
    def happened(self) -> bool:
        from tests.spark.crashing import reached

        return reached(self.job.plan).exists()

    def check(self) -> None:
        """Each line is there once, and nothing is left open."""
        assert committed(self._servers, self._topic) == self._lines


@pytest.fixture
def copy(
    spark: SparkSession, bootstrap_servers: str, make_topic: Callable[..., str], tmp_path: Path
) -> Callable[..., Copy]:
    """Makes a job, and has it copy a first file, so that what goes wrong is not in the first batch."""

    def make(tasks: int, **options: str) -> Copy:
        from tests.spark.application import Job

        topic = make_topic(tasks)
        given = {"topic": topic, "kafka.bootstrap.servers": bootstrap_servers, "delivery": "exactly_once"}
        job = Job(str(tmp_path), tasks, given | options, dict(SESSION))
        job.input.mkdir()
        made = Copy(job, bootstrap_servers, topic)
        made.add_file()
        job.run(spark)
        made.check()
        made.add_file()
        made.add_file()
        return made

    return make


def start(job: Job, folder: Path) -> subprocess.Popen[bytes]:
    """The job as an application of its own."""
    environment = os.environ | {
        "PYTHONPATH": str(PROJECT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    with open(folder / "application.log", "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.application", msgspec.json.encode(job).decode()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=PROJECT,
            env=environment,
        )


@pytest.mark.parametrize(
    ("step", "tasks", "do"),
    [
        *((step, tasks, "fail") for step in WHERE for tasks in (1, 4)),
        *((step, 4, "exit") for step in ("after prepare_transaction", "before commit_transaction", "after commit")),
    ],
)
def test_a_query_that_failed_goes_on_from_its_checkpoint_and_every_row_is_there_once(
    spark: SparkSession, copy: Callable[..., Copy], step: str, tasks: int, do: str
) -> None:
    made = copy(tasks)
    made.plan(step, do)
    with pytest.raises(Exception, match=r"planned|crashed|Writing job"):
        made.job.run(spark)
    assert made.happened
    made.job.run(spark)
    made.check()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("step", WHERE)
@pytest.mark.parametrize("tasks", [1, 4])
def test_an_application_that_was_killed_goes_on_from_its_checkpoint_and_every_row_is_there_once(
    spark: SparkSession, copy: Callable[..., Copy], tmp_path: Path, step: str, tasks: int
) -> None:
    made = copy(tasks)
    # Between two completions: the first goes through.
    made.plan(step, "stop", skip=1 if (step, tasks) == ("before complete_transaction", 4) else 0)
    application = start(made.job, tmp_path)
    try:
        wait_until(lambda: made.happened or application.poll() is not None, START_SECONDS)
        assert made.happened, (tmp_path / "application.log").read_text()[-3000:]
    finally:
        family = [psutil.Process(application.pid), *psutil.Process(application.pid).children(recursive=True)]
        for process in family:
            process.kill()
        application.wait()
        psutil.wait_procs(family)
    made.job.plan.unlink()
    made.job.run(spark)
    made.check()


def test_a_batch_whose_transactions_time_out_before_it_is_decided_fails_by_name_and_is_written_anew(
    spark: SparkSession, copy: Callable[..., Copy]
) -> None:
    made = copy(4)
    made.job.options["kafka.transaction.timeout.ms"] = f"{SHORT}000"
    made.plan("before commit", "wait", seconds=SHORT + 2)
    with pytest.raises(
        Exception, match=r"batch 1 is not committed: the transaction of task 0 \(kclient-spark-.*-0-1-0\)"
    ):
        made.job.run(spark)
    del made.job.options["kafka.transaction.timeout.ms"]
    made.job.run(spark)
    made.check()


def test_a_batch_whose_transactions_time_out_after_it_was_decided_never_counts_as_written(
    spark: SparkSession, copy: Callable[..., Copy]
) -> None:
    made = copy(1)
    made.job.options["kafka.transaction.timeout.ms"] = f"{LONG}000"
    made.plan("before complete_transaction", "wait", seconds=LONG + 2)
    for _ in range(2):
        with pytest.raises(Exception, match=r"rows of batch 1 are missing: .* task 0 \(kclient-spark-.*-0-1-0\)"):
            made.job.run(spark)
    del made.job.options["kafka.transaction.timeout.ms"]
    made.job.options["repeatableInput"] = "true"
    made.job.run(spark)
    made.check()


@pytest.mark.timeout(400)
def test_speculative_execution_is_refused(copy: Callable[..., Copy], tmp_path: Path) -> None:
    made = copy(1)
    made.job.configs["spark.speculation"] = "true"
    application = start(made.job, tmp_path)
    assert application.wait(START_SECONDS) != 0
    assert "does not go with spark.speculation=true" in (tmp_path / "application.log").read_text()


def test_a_write_that_is_repeated_under_its_id_is_there_once(
    spark: SparkSession, bootstrap_servers: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(2)
    rows = spark.range(0, 100, 1, 3).selectExpr("format_string('%04d', id) AS value")
    options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic, "delivery": "exactly_once"}
    for _ in range(2):
        rows.write.format("kclient").mode("append").options(**options, writeId=topic).save()
        assert committed(bootstrap_servers, topic) == [b"%04d" % number for number in range(100)]
    rows.write.format("kclient").mode("append").options(**options).save()
    assert len(committed(bootstrap_servers, topic)) == 200
