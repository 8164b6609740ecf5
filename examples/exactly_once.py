"""Exactly once, despite three kills: the flights of flights.py become delays, and none is missing or counted twice.

Produces one record per flight. A worker process transforms them: a flight that departed becomes a record with its
delay, a cancelled one is skipped, and the offsets are committed in the same transaction. The worker is killed with
SIGKILL and started again, three times. In the end, the delays are read and compared with the file by carrier; a
difference is an error.

Without --bootstrap-servers it starts its own refbroker in a temporary directory.
"""

from __future__ import annotations

import argparse
import csv
import signal
import subprocess
import sys
import time
import uuid

from flights import PARTITIONS, Delays, broker, read_flights, report
from rich.console import Console

from kclient import Admin, Consumer, ConsumerRecord, NewTopic, Producer, ProducerRecord, TopicPartition
from kclient.admin import OffsetSpec
from kclient.transform import Transform

KILLS = 3


def work(bootstrap_servers: str, source: str, target: str) -> None:
    """Run the worker until it gets a signal or is killed."""
    columns, _ = read_flights()
    dep_delay, carrier = columns.index("dep_delay"), columns.index("carrier")

    def delay_of(record: ConsumerRecord) -> ProducerRecord | None:
        row = next(csv.reader([record.value.decode()]))
        if row[dep_delay] == "NA":
            return None
        return ProducerRecord(target, row[dep_delay].encode(), key=row[carrier].encode())

    with (
        Consumer(
            source,
            bootstrap_servers=bootstrap_servers,
            group_id=f"delays-of-{source}",
            group_instance_id="worker",  # a restarted worker gets its partitions back immediately
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer,
        Producer(bootstrap_servers=bootstrap_servers, transactional_id=f"delays-of-{source}") as producer,
    ):
        loop = Transform(consumer, producer, delay_of, max_records=2000)
        signal.signal(signal.SIGTERM, lambda *_: loop.stop())
        loop.run()


def done(admin: Admin, source: str) -> int:
    """Return the number of flights whose transformation is committed."""
    group = f"delays-of-{source}"
    return sum(committed.offset for committed in admin.list_group_offsets(group)[group].values() if committed)


def transform(admin: Admin, servers: str, source: str, target: str, total: int, console: Console) -> None:
    """Run the transformation in worker processes, which are killed now and then."""
    command = [sys.executable, __file__, "--work", servers, source, target]
    for kill in range(1, KILLS + 2):
        worker = subprocess.Popen(command)
        while (now := done(admin, source)) < total * kill // (KILLS + 1):
            if worker.poll() is not None:
                sys.exit(f"the worker ended with {worker.returncode}")
            time.sleep(0.02)
        if kill <= KILLS:
            worker.kill()
            console.print(f"worker {kill} was killed when {now:,} flights were committed")
        else:
            worker.terminate()
        worker.wait()


def read_delays(admin: Admin, servers: str, target: str) -> Delays:
    """Return the committed delays."""
    delays = Delays()
    partitions = [TopicPartition(target, number) for number in range(PARTITIONS)]
    # Until the last transaction has its markers, a reader of committed records sees an earlier end.
    ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    with Consumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        allow_auto_create_topics=False,  # the topics are deleted next, and must stay deleted
    ) as consumer:
        consumer.assign(partitions)
        while any(consumer.position(partition) < ends[partition].offset for partition in partitions):
            for record in consumer.poll(timeout=1.0, max_records=10_000):
                delays.add(record.key.decode(), record.value.decode())
    return delays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bootstrap-servers", help="any Kafka; without it a refbroker is started")
    parser.add_argument("--flights", type=int, default=100_000, help="how many")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*arguments.work)
        return

    console = Console()
    columns, lines = read_flights()
    lines = lines[: arguments.flights]
    expected = Delays()
    for row in csv.DictReader(lines, columns):
        if row["dep_delay"] != "NA":
            expected.add(row["carrier"], row["dep_delay"])

    name = uuid.uuid4().hex[:8]
    source, target = f"flights-{name}", f"delays-{name}"
    with broker(arguments.bootstrap_servers) as servers, Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS) for topic in (source, target)])
        with Producer(bootstrap_servers=servers, compression_type="zstd") as producer:
            producer.send_many(source, [line.encode() for line in lines])
        started = time.perf_counter()
        transform(admin, servers, source, target, len(lines), console)
        seconds = time.perf_counter() - started
        delays = read_delays(admin, servers, target)
        admin.delete_topics([source, target])
    console.print(report(delays))
    if delays != expected:
        sys.exit(f"{delays.total:,} delays came out, and {expected.total:,} were to")
    console.print(f"{delays.total:,} of {len(lines):,} flights departed: all counted once, in {seconds:.1f} s")


if __name__ == "__main__":
    main()
