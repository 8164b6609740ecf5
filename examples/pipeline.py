"""Flights through Kafka and Spark: the delays of each carrier by hour, in event time, exactly once.

Sends the flights of flights.py to Kafka, each with its scheduled departure as the timestamp. Spark's structured
streaming reads them in micro-batches, sums the delays of each carrier and hour in windows, and writes a window back to
Kafka, exactly once, when its watermark has passed: two days, because the flights of a day are not in order. Then the
windows are read and shown as a table and a plot, delays.png.

All state is in one folder: stop the program with Ctrl-C, or kill it, and the next run continues. With --check, the
result is compared with the file; a difference is an error.

Without --bootstrap-servers it starts its own refbroker in that folder. It needs PySpark, Java 17 and matplotlib (`make
demo-spark` installs all but Java).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from flights import read_flights
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kclient import Admin, Consumer, NewTopic, Producer, TopicPartition
from refbroker.testing import RefBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

PARTITIONS = 4
WATERMARK = timedelta(days=2)
HOUR = timedelta(hours=1)
NEW_YORK = ZoneInfo("America/New_York")


class Flight(NamedTuple):
    """A record: a line of the file, and the scheduled departure in milliseconds since the epoch."""

    carrier: str
    line: str
    time: int
    dep_delay: str


class Sums(NamedTuple):
    """The flights of a carrier in an hour: scheduled, departed, and the total delay in minutes."""

    flights: int = 0
    departed: int = 0
    minutes: int = 0

    def plus(self, other: Sums) -> Sums:
        return Sums(self.flights + other.flights, self.departed + other.departed, self.minutes + other.minutes)


Windows = dict[tuple[str, int], Sums]
"""By carrier and start of the hour in milliseconds since the epoch."""


def milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def read_feed() -> tuple[list[str], list[Flight]]:
    """Return the columns and all flights, day by day.

    The last record is not a flight: its timestamp is after the year, so that the watermark passes the last windows.
    """
    columns, lines = read_flights()
    carrier, delay, hour = (columns.index(name) for name in ("carrier", "dep_delay", "time_hour"))
    feed = []
    for line in lines:
        fields = line.split(",")
        departs = datetime.fromisoformat(fields[hour])
        feed.append(Flight(fields[carrier], line, int(departs.timestamp()) * 1000, fields[delay]))
    # The months of the file are in alphabetical order. The order within a day is kept.
    feed.sort(key=lambda flight: flight.time // milliseconds(timedelta(days=1)))
    latest = max(flight.time for flight in feed)
    feed.append(Flight("", "", latest + milliseconds(WATERMARK + HOUR), "NA"))
    return columns, feed


def closed_windows(feed: Iterable[Flight]) -> Windows:
    """Return the expected result from the file: the windows that the watermark has passed."""
    windows: defaultdict[tuple[str, int], Sums] = defaultdict(Sums)
    latest = 0
    for flight in feed:
        latest = max(latest, flight.time)
        departed = flight.dep_delay != "NA"
        sums = Sums(1, int(departed), int(flight.dep_delay) if departed else 0)
        key = (flight.carrier, flight.time)
        windows[key] = windows[key].plus(sums)
    passed = latest - milliseconds(WATERMARK + HOUR)
    return {(carrier, start): sums for (carrier, start), sums in windows.items() if start <= passed}


# -- state between runs


class Folder(NamedTuple):
    """The state between runs: the broker's files, the checkpoint, the names of the topics."""

    path: Path
    name: str

    @classmethod
    def open(cls, path: Path) -> Folder:
        path.mkdir(parents=True, exist_ok=True)
        named = path / "name"
        if not named.exists():
            named.write_text(f"flights-{uuid.uuid4().hex[:8]}")
        return cls(path, named.read_text())

    @property
    def delays(self) -> str:
        """The topic of the result."""
        return f"{self.name}-delays"

    @property
    def checkpoint(self) -> Path:
        """Where Spark stores the progress of the stream."""
        return self.path / "checkpoint"


@contextmanager
def broker(bootstrap_servers: str | None, folder: Folder) -> Iterator[str]:
    """Yield the address of the given cluster, or of a refbroker on the folder."""
    if bootstrap_servers:
        yield bootstrap_servers
    else:
        with RefBroker(data_dir=folder.path / "broker") as kafka:
            yield kafka.bootstrap_servers


def create_topics(servers: str, folder: Folder) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        missing = {folder.name, folder.delays} - set(admin.list_topics())
        # The flights are of 2013; by default, retention would delete them.
        configs = {"retention.ms": "-1"}
        admin.create_topics([NewTopic(name, num_partitions=PARTITIONS, configs=configs) for name in missing])


def ends(consumer: Consumer, topic: str) -> dict[TopicPartition, int]:
    return consumer.end_offsets([TopicPartition(topic, partition) for partition in range(PARTITIONS)])


# -- in, through, out


def produce(servers: str, topic: str, feed: list[Flight], progress: Progress) -> None:
    """Send the flights that are not in the topic yet.

    Partitions are used in turn, not by carrier, so that all partitions are equally far in time, and the latest
    timestamp determines a valid watermark for all of them.
    """
    with Consumer(bootstrap_servers=servers) as consumer:
        there = ends(consumer, topic)
    task = progress.add_task("produce", total=len(feed))
    with Producer(bootstrap_servers=servers, compression_type="zstd") as producer:
        for number, flight in enumerate(feed):
            if number // PARTITIONS >= there[TopicPartition(topic, number % PARTITIONS)]:
                partition, key, value = number % PARTITIONS, flight.carrier.encode(), flight.line.encode()
                producer.send(topic, value, key=key, partition=partition, timestamp=flight.time)
            if number % 1000 == 0:
                progress.update(task, completed=number)
        producer.flush()
    progress.update(task, completed=len(feed))


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    configs = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("flights")
    return builder.config(map=configs).getOrCreate()


def delays(flights: DataFrame, columns: list[str]) -> DataFrame:
    """Return rows for Kafka: one for each carrier and hour that is complete."""
    from pyspark.sql import functions as f

    schema = ", ".join(f"{name} STRING" for name in columns)
    flight = f.from_csv(f.col("value").cast("string"), schema, {"nullValue": "NA"})
    delay = f.col("flight.dep_delay").cast("int")
    sums = (
        flights.withWatermark("timestamp", f"{WATERMARK.days} days")
        .select("timestamp", flight.alias("flight"))
        .groupBy(f.window("timestamp", "1 hour").alias("hour"), f.col("flight.carrier").alias("carrier"))
        .agg(
            f.count("*").alias("flights"),
            f.count(delay).alias("departed"),
            f.coalesce(f.sum(delay), f.lit(0)).alias("minutes"),
        )
    )
    start = f.unix_millis("hour.start").alias("hour")
    return sums.select(
        f.col("carrier").alias("key"),
        f.to_json(f.struct("carrier", start, "flights", "departed", "minutes")).alias("value"),
    )


def stream(spark: SparkSession, servers: str, folder: Folder, columns: list[str], batch: int) -> StreamingQuery:
    """Start the query, which continues from the last run and ends at the current end of the topic."""
    kafka = {"kafka.bootstrap.servers": servers}
    reading = {"subscribe": folder.name, "startingOffsets": "earliest", "columns": "value,timestamp"}
    writing = {"topic": folder.delays, "delivery": "exactly_once", "checkpointLocation": str(folder.checkpoint)}
    flights = spark.readStream.format("kclient").options(**kafka, **reading, maxOffsetsPerTrigger=str(batch)).load()
    writer = delays(flights, columns).writeStream.format("kclient").options(**kafka, **writing)
    return writer.outputMode("append").trigger(availableNow=True).start()


def flights_up_to(offsets: str) -> int:
    """Return the number of flights before a position of the stream: offsets by topic and partition, as JSON.

    The id of the topic is a second key without partitions.
    """
    return sum(sum(read.values()) for read in json.loads(offsets).values())


def position(folder: Folder) -> int:
    """Return the number of flights that the checkpoint has completed."""
    complete = [int(path.name) for path in (folder.checkpoint / "commits").glob("[0-9]*")]
    if not complete:
        return 0
    return flights_up_to((folder.checkpoint / "offsets" / str(max(complete))).read_text().splitlines()[-1])


def watch(query: StreamingQuery, begins: int, total: int, progress: Progress) -> None:
    """Show the progress of the query until it ends; its first batch takes longer.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. The handler only records it, because an exception during a call of the
            JVM, or PySpark's own handler, would print long tracebacks.
    """
    interrupted = Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    task = progress.add_task("stream: starting", completed=begins, total=total)
    ended = False
    while not ended:
        if interrupted.is_set():
            raise KeyboardInterrupt
        ended = bool(query.awaitTermination(0.2))
        last = query.lastProgress
        if last is not None and last.sources[0].endOffset not in (None, "null"):
            progress.update(task, description="stream", completed=flights_up_to(last.sources[0].endOffset))
    progress.update(task, description="stream", completed=total)


def read_windows(servers: str, topic: str) -> Windows:
    """Return the committed windows that Spark wrote.

    Raises:
        ValueError: a window occurs more than once.
    """
    windows: Windows = {}
    # Until the last transaction has its markers, a reader of committed records sees an earlier end.
    with Consumer(bootstrap_servers=servers) as consumer:
        last = ends(consumer, topic)
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        consumer.assign(list(last))
        consumer.seek_to_beginning(*last)
        while any(consumer.position(partition) < end for partition, end in last.items()):
            for record in consumer.poll(timeout=1.0, max_records=10_000):
                found = json.loads(record.value)
                key = (found["carrier"], found["hour"])
                if key in windows:
                    raise ValueError(f"there are two windows of {key}")
                windows[key] = Sums(found["flights"], found["departed"], found["minutes"])
    return windows


# -- the report


def by_carrier_and_clock(windows: Windows) -> dict[str, dict[int, Sums]]:
    """Return the sums over all days, by carrier and hour of the day in New York."""
    found: defaultdict[str, defaultdict[int, Sums]] = defaultdict(lambda: defaultdict(Sums))
    for (carrier, start), sums in windows.items():
        hour = datetime.fromtimestamp(start / 1000, UTC).astimezone(NEW_YORK).hour
        found[carrier][hour] = found[carrier][hour].plus(sums)
    return {carrier: dict(hours) for carrier, hours in found.items()}


def mean(sums: Iterable[Sums]) -> float:
    total = Sums()
    for one in sums:
        total = total.plus(one)
    return total.minutes / total.departed if total.departed else float("nan")


def report(found: dict[str, dict[int, Sums]]) -> Table:
    table = Table("carrier", "flights", "cancelled", "mean delay", "latest at")
    for column in table.columns[1:]:
        column.justify = "right"
    for carrier, hours in sorted(found.items(), key=lambda item: -sum(one.flights for one in item[1].values())):
        flights, departed = sum(one.flights for one in hours.values()), sum(one.departed for one in hours.values())
        worst = max(hours, key=lambda hour: mean([hours[hour]]) if hours[hour].departed else 0)
        delay = f"{mean(hours.values()):.1f} min"
        table.add_row(carrier, f"{flights:,}", f"{(flights - departed) / flights:.1%}", delay, f"{worst}:00")
    return table


def plot(found: dict[str, dict[int, Sums]], path: Path) -> None:
    """Draw the mean delay of each carrier at each hour of the day."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    carriers = sorted(found, key=lambda carrier: mean(found[carrier].values()))
    # Without night hours, whose flights were only scheduled and did not depart.
    departing = [hour for hours in found.values() for hour, sums in hours.items() if sums.departed]
    clock = range(min(departing), max(departing) + 1)
    cells = [[mean([found[carrier].get(hour, Sums())]) for hour in clock] for carrier in carriers]
    figure, axes = pyplot.subplots(figsize=(11, 6), layout="constrained")
    image = axes.imshow(cells, cmap="YlOrRd", vmin=0, vmax=40, aspect="auto")
    for row, delays_of in enumerate(cells):
        for column, delay in enumerate(delays_of):
            if not math.isnan(delay):
                colour = "white" if delay > 25 else "black"
                axes.text(column, row, f"{round(delay)}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(clock)), clock)
    axes.set_yticks(range(len(carriers)), carriers)
    axes.set_xlabel("hour of the scheduled departure, New York time (white: no flight departed)")
    axes.set_ylabel("carrier")
    axes.set_title("Mean departure delay of flights from New York, 2013")
    figure.colorbar(image, label="minutes", extend="both")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def run(servers: str, folder: Folder, feed: list[Flight], columns: list[str], batch: int, console: Console) -> Windows:
    """Send, transform and read the flights; return the windows."""
    create_topics(servers, folder)
    console.print("starting Spark")
    # Before the progress display, because Spark prints when it starts.
    spark = session()
    shape = (TextColumn("{task.description:16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*shape, console=console) as progress:
            produce(servers, folder.name, feed, progress)
            begins = position(folder)
            query = stream(spark, servers, folder, columns, batch)
            try:
                watch(query, begins, len(feed), progress)
            except KeyboardInterrupt:
                spark.sparkContext.setLogLevel("OFF")  # an interrupted batch is no error then
                raise
            finally:
                query.stop()
    finally:
        spark.stop()
    return read_windows(servers, folder.delays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bootstrap-servers", help="any Kafka; without it a refbroker is started")
    parser.add_argument(
        "--folder", type=Path, default=Path("flights-data", "pipeline"), help="where all that it keeps is, and the plot"
    )
    parser.add_argument("--flights", type=int, help="how many, from the first of the year; all without it")
    parser.add_argument("--batch", type=int, default=50_000, help="the most flights of a micro-batch")
    parser.add_argument("--check", action="store_true", help="compare the result with the file")
    arguments = parser.parse_args()
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        sys.exit("Spark needs Java 17, and java is not on this machine")

    started = time.perf_counter()
    console = Console()
    columns, feed = read_feed()
    feed = feed[: arguments.flights]
    folder = Folder.open(arguments.folder)
    try:
        with broker(arguments.bootstrap_servers, folder) as servers:
            windows = run(servers, folder, feed, columns, arguments.batch, console)
    except KeyboardInterrupt:
        sys.exit("stopped: run it again to continue")
    if not windows:
        sys.exit("no window is over yet: more flights are needed")
    found = by_carrier_and_clock(windows)
    console.print(report(found))
    plot(found, folder.path / "delays.png")
    if arguments.check and windows != closed_windows(feed):
        sys.exit(f"{len(windows):,} windows differ from those of the file, {len(closed_windows(feed)):,}")
    seconds = time.perf_counter() - started
    equal = ", each equal to that of the file" if arguments.check else ""
    console.print(f"{len(windows):,} windows{equal}; {folder.path / 'delays.png'} shows them ({seconds:.0f} s)")


if __name__ == "__main__":
    main()
