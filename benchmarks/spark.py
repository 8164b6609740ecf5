"""`make bench-spark`: the data source beside Spark's own Kafka connector, in one session, on one broker.

Both formats take turns in a session with two threads, so that machine, JVM and broker are the same; the first round is
a warm-up, and the best of the others counts. The broker is Apache Kafka. Prints a table and writes
`results/spark.json`; a goal that is missed is marked.

    python -m benchmarks.spark --only read --count 500000

The connector's jars come from Maven, as `spark_connector_pom.xml` says.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks import brokers
from kclient import Consumer, Producer, TopicPartition, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
OURS, THEIRS = "kclient", "kafka"
"""The names of the two formats."""

PARTITIONS = 4
SIZE = 100
TRICKLE_HZ = 20
MOST_P95_MS = 300
"""The limit for the 95th percentile of a trickle's latency, in ms."""

MOST_ADDED_MS = 40
"""What exactly-once delivery may add to a micro-batch, in ms."""

FETCH_SECONDS = 600


class Row(NamedTuple):
    """A line of the table; the goal is a ratio, a minimum if more is better."""

    name: str
    unit: str
    ours: float
    peer: str
    theirs: float
    goal: float
    more_is_better: bool = True

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.goal if self.more_is_better else self.ratio <= self.goal


class Bench:
    """A session, a broker, and the results."""

    def __init__(self, spark: SparkSession, servers: str, count: int, rounds: int, folder: Path) -> None:
        self.spark = spark
        self.servers = servers
        self.count = count
        self.rounds = rounds
        self.folder = folder
        self.rows: list[Row] = []
        self.raw: list[dict[str, Any]] = []

    @property
    def kafka(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.servers}

    def topic(self) -> str:
        name = f"bench-{uuid.uuid4().hex[:8]}"
        brokers.create_topic(self.servers, name, PARTITIONS)
        return name

    def filled(self) -> str:
        """Return a topic with records."""
        import pyarrow

        name = self.topic()
        rows = pyarrow.record_batch({"value": pyarrow.array([os.urandom(SIZE) for _ in range(10_000)])})
        with Producer(bootstrap_servers=self.servers) as producer:
            for _ in range(self.count // rows.num_rows):
                producer.send_arrow(name, rows, value="value")
        return name

    def checkpoint(self) -> str:
        return str(self.folder / uuid.uuid4().hex)

    def in_turn(self, what: str, each: dict[str, Callable[[], float]], best: Callable[..., float]) -> dict[str, float]:
        """Return the best result of each format; the first round is a warm-up."""
        found: dict[str, list[float]] = {name: [] for name in each}
        for number in range(self.rounds + 1):
            for name, measure in each.items():
                figure = measure()
                if number:
                    found[name].append(figure)
        self.raw.append({"what": what, "rounds": found})
        return {name: best(figures) for name, figures in found.items()}

    def rate(self, run: Callable[[str], float], name: str) -> float:
        return self.count / run(name)

    def rates(self, what: str, run: Callable[[str], float], goal: float) -> None:
        """Measure rows per second by each format; `run` returns the seconds."""
        each: dict[str, Callable[[], float]] = {name: partial(self.rate, run, name) for name in (OURS, THEIRS)}
        best = self.in_turn(what, each, max)
        self.rows.append(Row(what, "rows/s", best[OURS], "JVM connector", best[THEIRS], goal))


def seconds(of: Callable[[], object]) -> float:
    started = time.perf_counter()
    of()
    return time.perf_counter() - started


def batch_read(bench: Bench) -> None:
    topic = bench.filled()

    def run(name: str) -> float:
        # The connector skips columns that are not selected; this source has an option for that.
        columns = {"columns": "value"} if name == OURS else {}
        reading = bench.spark.read.format(name).options(**bench.kafka, subscribe=topic, **columns)

        def job() -> None:
            found = reading.load().selectExpr("count(*)", "sum(length(value))").first()
            assert tuple(found) == (bench.count, bench.count * SIZE), found

        return seconds(job)

    bench.rates(f"batch read, {SIZE} B, {PARTITIONS} partitions", run, 2)


def batch_write(bench: Bench) -> None:
    rows = bench.spark.range(bench.count // 2, numPartitions=PARTITIONS)
    frame = rows.selectExpr(f"rpad(CAST(id AS STRING), {SIZE}, 'x') AS value").cache()
    frame.count()

    def run(name: str) -> float:
        topic = bench.topic()
        writer = frame.write.format(name).options(**bench.kafka, topic=topic).mode("append")
        took = seconds(writer.save)
        landed = brokers.count_records(bench.servers, topic)
        assert landed == bench.count // 2, landed
        # Half as many rows, scaled to all of them.
        return took * 2

    bench.rates(f"batch write, {SIZE} B", run, 1.2)
    frame.unpersist()


def copy_all(bench: Bench) -> None:
    topic = bench.filled()

    def run(name: str) -> float:
        target = bench.topic()
        columns = {"columns": "key,value"} if name == OURS else {}
        reading = bench.spark.readStream.format(name).options(**bench.kafka, subscribe=topic, **columns)
        rows = reading.option("startingOffsets", "earliest").load().select("key", "value")
        writer = rows.writeStream.format(name).options(**bench.kafka, topic=target)
        writer = writer.option("checkpointLocation", bench.checkpoint()).trigger(availableNow=True)
        took = seconds(lambda: writer.start().awaitTermination())
        landed = brokers.count_records(bench.servers, target)
        assert landed == bench.count, landed
        return took

    bench.rates("AvailableNow, read to write", run, 1.8)


# -- micro-batches


@contextmanager
def running(bench: Bench, name: str, source: str, target: str, **options: str) -> Iterator[Any]:
    """Yield a query that copies as fast as it can, once it copies."""
    reading = bench.spark.readStream.format(name).options(**bench.kafka, subscribe=source, startingOffsets="earliest")
    rows = reading.load().selectExpr("value")
    writer = rows.writeStream.format(name).options(**bench.kafka, topic=target, **options)
    query = writer.option("checkpointLocation", bench.checkpoint()).start()
    try:
        yield query
    finally:
        query.stop()


def trickle(bench: Bench, name: str, seconds_long: float, **options: str) -> tuple[list[float], list[float]]:
    """Return the latency of each record from its sender to a reader of the copy, and the time of each micro-batch, in
    ms.
    """
    source, target = bench.topic(), bench.topic()
    took: list[float] = []
    total = int(seconds_long * TRICKLE_HZ)

    def receive(count: int) -> None:
        deadline = time.monotonic() + seconds_long + 120
        while len(took) < count:
            took.extend((time.time_ns() - int(record.value)) / 1e6 for record in consumer.poll(0.1))
            if time.monotonic() > deadline:
                raise SystemExit(f"{name}: {len(took)} of {count} records came, and {query.exception()}")

    def send() -> None:
        with Producer(bootstrap_servers=bench.servers, linger_ms=0) as producer:
            began = time.monotonic()
            for number in range(total):
                time.sleep(max(0.0, began + number / TRICKLE_HZ - time.monotonic()))
                producer.send(source, str(time.time_ns()).encode())

    with (
        running(bench, name, source, target, **options) as query,
        Consumer(bootstrap_servers=bench.servers, isolation_level="read_committed") as consumer,
    ):
        consumer.assign([TopicPartition(target, number) for number in range(PARTITIONS)])
        consumer.seek_to_beginning()
        # The start of the query does not count.
        with Producer(bootstrap_servers=bench.servers) as producer:
            producer.send(source, str(time.time_ns()).encode())
        receive(1)
        query.processAllAvailable()
        cold = query.lastProgress.batchId
        took.clear()
        sender = threading.Thread(target=send)
        sender.start()
        receive(total)
        sender.join()
        # Spark reports a micro-batch when it is done, and counts no rows of a Python source.
        query.processAllAvailable()
        progress = [one for one in query.recentProgress if one.sources[0].startOffset != one.sources[0].endOffset]
    return took, [float(one.batchDuration) for one in progress if one.batchId > cold]


def latency(bench: Bench, seconds_long: float) -> None:
    found: dict[str, list[list[float]]] = {OURS: [], THEIRS: []}
    for number in range(bench.rounds + 1):
        for name in found:
            took, _ = trickle(bench, name, seconds_long)
            if number:
                found[name].append([statistics.median(took), statistics.quantiles(took, n=20)[-1]])
    bench.raw.append({"what": "trickle", "rounds": found})
    for index, which in enumerate(("p50", "p95")):
        best = {name: min(each[index] for each in rounds) for name, rounds in found.items()}
        title = f"{TRICKLE_HZ} records/s, end to end, {which}"
        goal = 1.0 if which == "p50" else MOST_P95_MS / best[THEIRS]
        bench.rows.append(Row(title, "ms", best[OURS], "JVM connector", best[THEIRS], goal, more_is_better=False))


def exactly_once(bench: Bench, seconds_long: float) -> None:
    """Measure what transactions add to a micro-batch; the goal is a ratio to the time without them."""
    found: dict[str, list[float]] = {"at_least_once": [], "exactly_once": []}
    for number in range(bench.rounds + 1):
        for delivery in found:
            _, batches = trickle(bench, OURS, seconds_long, delivery=delivery)
            if number:
                found[delivery].append(statistics.median(batches))
    bench.raw.append({"what": "exactly once", "rounds": found})
    once, least = min(found["exactly_once"]), min(found["at_least_once"])
    goal = (least + MOST_ADDED_MS) / least
    bench.rows.append(Row("exactly once, per micro-batch", "ms", once, "at least once", least, goal, False))


# -- the run


def connector() -> list[Path]:
    """Return the connector's jars, fetched once.

    Raises:
        SystemExit: Maven cannot fetch them.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spark-sql-kafka-4.2.0"
    if not (cache / ".done").exists():
        pom = HERE / "spark_connector_pom.xml"
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={cache}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        if done.returncode:
            raise SystemExit(f"Maven could not fetch Spark's connector:\n{done.stdout[-2000:]}")
        (cache / ".done").touch()
    return sorted(cache.glob("*.jar"))


@contextmanager
def session() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    configs = {
        "spark.jars": ",".join(map(str, connector())),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").config(map=configs).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def table(rows: list[Row]) -> Table:
    made = Table("what", "unit", "kclient", "peer", "its figure", "ratio", "goal", "")
    for row in rows:
        mark = "[green]met[/]" if row.is_met else "[red]missed[/]"
        goal = f"{'≥' if row.more_is_better else '≤'} {row.goal:.2f}"
        made.add_row(
            row.name, row.unit, f"{row.ours:,.0f}", row.peer, f"{row.theirs:,.0f}", f"{row.ratio:.2f}", goal, mark
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-spark", description=__doc__)
    parser.add_argument("--count", type=int, default=2_000_000, help="records of each throughput measurement")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long a trickle is measured")
    parser.add_argument("--only", default="", help="read, write, stream, trickle or once; several with commas")
    arguments = parser.parse_args()
    sections: dict[str, Callable[[Bench], None]] = {
        "read": batch_read,
        "write": batch_write,
        "stream": copy_all,
        "trickle": lambda bench: latency(bench, arguments.seconds),
        "once": lambda bench: exactly_once(bench, arguments.seconds),
    }
    chosen = arguments.only.split(",") if arguments.only else list(sections)
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="kclient-bench-") as name:
        folder = Path(name)
        with brokers.apache_kafka(folder / "kafka") as (servers, _), session() as spark:
            bench = Bench(spark, servers, arguments.count // 20_000 * 20_000, arguments.rounds, folder)
            for section in chosen:
                sections[section](bench)
            version = spark.version
    Console(width=150).print(table(bench.rows))
    run = {
        "pyspark": version,
        "records": records.IMPLEMENTATION,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "load": os.getloadavg(),
        "seconds": round(time.time() - began),
        "count": bench.count,
        "rounds": bench.rounds,
    }
    rows = [{**row._asdict(), "ratio": row.ratio, "met": row.is_met} for row in bench.rows]
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "spark.json").write_text(json.dumps({"run": run, "rows": rows, "raw": bench.raw}, indent=1))


if __name__ == "__main__":
    main()
