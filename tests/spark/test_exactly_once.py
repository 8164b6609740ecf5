"""Streams of Spark that die while they write exactly once: tasks, drivers, whole applications; and start again.

`tests/integration/test_spark_exactly_once.py` tries every single call without Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil
import pytest

from tests.spark.conftest import PROJECT, SESSION
from tests.support.patience import PROCESS
from tests.support.reading import committed
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.application import Job

pytestmark = pytest.mark.spark

SHORT, LONG = 5, 30
"""Seconds that transactions may be open: less than any wait, and more than a batch takes on a busy machine."""
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
        self._changed_at = time.time() - 3600

    def add_file(self, lines: int = 10) -> None:
        number = len(self._lines)
        added = [b"%0100d" % (number + line) for line in range(lines)]
        path = self.job.input / f"{number}.txt"
        path.with_suffix(".new").write_bytes(b"\n".join(added) + b"\n")
        # Spark takes them in this order, and the clock of a file system may have one tick for several.
        self._changed_at += 1
        os.utime(path.with_suffix(".new"), (self._changed_at, self._changed_at))
        path.with_suffix(".new").rename(path)
        self._lines += added

    def repeat_lines(self) -> None:
        """Add a file with the lines of all others."""
        self.job.input.joinpath("again.txt").write_bytes(b"\n".join(self._lines) + b"\n")

    def merge_last_files(self) -> None:
        """Let the last two files be one, and so one batch."""
        *_, former, last = sorted(self.job.input.iterdir(), key=lambda path: path.stat().st_mtime)
        merged = former.read_bytes() + last.read_bytes()
        former.unlink()
        last.unlink()
        last.with_name("merged.txt").write_bytes(merged)

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
    """Makes a job, and has it copy a first file unless what goes wrong is to be in the first batch."""

    def make(tasks: int, *, lines: int = 10, distinct: bool = False, is_new: bool = False) -> Copy:
        from tests.spark.application import Job

        topic = make_topic(tasks)
        given = {"topic": topic, "kafka.bootstrap.servers": bootstrap_servers, "delivery": "exactly_once"}
        job = Job(str(tmp_path), tasks, given, distinct, dict(SESSION))
        job.input.mkdir()
        made = Copy(job, bootstrap_servers, topic)
        made.add_file()
        if not is_new:
            job.run(spark)
            made.check()
        made.add_file(lines)
        made.add_file()
        return made

    return make


def kill_at(made: Copy, folder: Path, step: str, skip: int = 0) -> None:
    """Run the job as an application of its own, which is killed when it comes to a step."""
    made.plan(step, "stop", skip)
    application = start(made.job, folder)
    try:
        wait_until(lambda: made.happened or application.poll() is not None, PROCESS)
        assert made.happened, (folder / "application.log").read_text()[-3000:]
    finally:
        # If it ended by itself, there is no process; the assertion shows its output.
        if application.poll() is None:
            kill_all(application)
    made.job.plan.unlink()


def kill_all(application: subprocess.Popen[bytes]) -> None:
    """Kill it and what it started, also workers that a daemon of Spark's forks meanwhile: these are its session."""

    def none_is_left() -> bool:
        left = alive_in_session(application.pid)
        for process in left:
            # Some end by themselves when they have lost the others.
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return not left

    # It is waited for last, so that nobody has its id before.
    wait_until(none_is_left)
    application.wait()


def alive_in_session(session: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


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
            start_new_session=True,
        )


@pytest.mark.parametrize(
    ("step", "tasks", "do"),
    [
        *((step, tasks, "fail") for step in WHERE for tasks in (1, 4)),
        *((step, 4, "exit") for step in ("after prepare_transaction", "before commit_transaction", "after commit")),
    ],
)
def test_a_failed_query_continues_from_its_checkpoint_and_every_row_is_written_once(
    spark: SparkSession, copy: Callable[..., Copy], step: str, tasks: int, do: str
) -> None:
    made = copy(tasks)
    made.plan(step, do)
    with pytest.raises(Exception, match=r"planned|crashed|Writing job"):
        made.job.run(spark)
    assert made.happened
    made.job.run(spark)
    made.check()


@pytest.mark.parametrize("step", WHERE)
@pytest.mark.parametrize("tasks", [pytest.param(1, marks=pytest.mark.nightly), 4])
def test_a_killed_application_continues_and_every_row_is_written_once(
    spark: SparkSession, copy: Callable[..., Copy], tmp_path: Path, step: str, tasks: int
) -> None:
    made = copy(tasks)
    # Between two completions: the first goes through.
    kill_at(made, tmp_path, step, skip=1 if (step, tasks) == ("before complete_transaction", 4) else 0)
    made.job.run(spark)
    made.check()


@pytest.mark.parametrize("step", ["before commit_transaction", "after commit_transaction"])
def test_an_application_killed_in_its_first_batch_writes_every_row_once(
    spark: SparkSession, copy: Callable[..., Copy], tmp_path: Path, step: str
) -> None:
    made = copy(4, is_new=True)
    kill_at(made, tmp_path, step)
    made.job.run(spark)
    made.check()


@pytest.mark.parametrize("step", ["before commit_transaction", "after commit_transaction"])
def test_a_killed_application_with_state_continues_and_every_row_is_written_once(
    spark: SparkSession, copy: Callable[..., Copy], tmp_path: Path, step: str
) -> None:
    made = copy(2, distinct=True)
    kill_at(made, tmp_path, step)
    made.job.run(spark)
    made.check()
    made.repeat_lines()
    made.job.run(spark)
    made.check()


@pytest.mark.parametrize("distinct", [False, True], ids=["without state", "with state"])
def test_a_repeated_batch_larger_than_all_buffers_is_read_to_its_end(
    spark: SparkSession, copy: Callable[..., Copy], distinct: bool
) -> None:
    made = copy(1, lines=100_000, distinct=distinct)
    made.plan("after commit", "fail")
    with pytest.raises(Exception, match=r"planned|Writing job"):
        made.job.run(spark)
    made.job.run(spark)
    made.check()


def test_a_written_batch_is_not_mistaken_for_one_with_a_new_plan(
    spark: SparkSession, copy: Callable[..., Copy]
) -> None:
    made = copy(1)
    made.plan("after commit", "fail")
    with pytest.raises(Exception, match=r"planned|Writing job"):
        made.job.run(spark)
    # A checkpoint from before the batch: its files, and one more, are new to Spark.
    checkpoint = Path(made.job.folder, "checkpoint")
    for name in ("offsets/1", "offsets/.1.crc", "sources/0/1", "sources/0/.1.crc"):
        checkpoint.joinpath(name).unlink(missing_ok=True)
    made.merge_last_files()
    with pytest.raises(Exception, match=r"batch 1 had 10 rows when it was decided, and has 20 now"):
        made.job.run(spark)


def test_each_batch_of_a_stream_can_be_a_write_of_its_own(
    spark: SparkSession, bootstrap_servers: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(2)
    options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic, "delivery": "exactly_once"}

    def write(rows: DataFrame, batch: int) -> None:
        for _ in range(2):
            rows.write.format("kclient").mode("append").options(**options, writeId=f"{topic}-{batch}").save()

    lines = [b"%d" % number for number in range(3)]
    for line in lines:
        (tmp_path / f"{line.decode()}.txt").write_bytes(line + b"\n")
    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path)).writeStream.foreachBatch(write)
    stream.trigger(availableNow=True).start().awaitTermination()
    assert committed(bootstrap_servers, topic) == lines


def test_an_undecided_batch_whose_transactions_time_out_fails_and_is_repeated(
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


def test_a_decided_batch_whose_transactions_time_out_is_never_reported_as_written(
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


def test_speculative_execution_is_refused(copy: Callable[..., Copy], tmp_path: Path) -> None:
    made = copy(1)
    made.job.configs["spark.speculation"] = "true"
    application = start(made.job, tmp_path)
    try:
        assert application.wait(PROCESS) != 0
    finally:
        if application.poll() is None:
            kill_all(application)
    assert "does not work with spark.speculation=true" in (tmp_path / "application.log").read_text()


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
