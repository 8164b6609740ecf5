"""One measurement in a separate process: `transaction_load.py CLIENT BOOTSTRAP TOPIC COUNT SECONDS`.

Produces 100-byte records as fast as the client can, with a commit every SECONDS; 0 is without transactions, in the same
loop. Prints one JSON object. Elsewhere: Kafka's own client, whose tool does the same (`transactions`).
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

from benchmarks.workers import throughput, values

SIZE = 100
LOOK = 64
"""The records between two checks of the clock."""


class Clock:
    """Ends a transaction and begins the next when it is time; records how long each end took."""

    def __init__(self, seconds: float, commit: Callable[[], object], begin: Callable[[], object]) -> None:
        self._seconds, self._commit, self._begin = seconds, commit, begin
        self._due = time.perf_counter() + seconds
        self.took: list[float] = []

    def look(self) -> None:
        if self._seconds and time.perf_counter() >= self._due:
            self.end()
            self._begin()
            self._due = time.perf_counter() + self._seconds

    def end(self) -> None:
        started = time.perf_counter()
        self._commit()
        self.took.append(time.perf_counter() - started)

    def figures(self) -> dict[str, Any]:
        return {"commits": len(self.took), "commit_ms": statistics.median(self.took) * 1000}


def kclient(bootstrap: str, topic: str, count: int, seconds: float) -> dict[str, Any]:
    from kclient import Producer

    data = values(SIZE)
    name = uuid.uuid4().hex if seconds else None
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.partitions_for(topic)
        if seconds:
            producer.init_transactions()
            producer.begin_transaction()
        send = producer.send
        started, cpu = time.perf_counter(), time.process_time()
        clock = Clock(seconds, producer.commit_transaction if seconds else producer.flush, producer.begin_transaction)
        for number in range(count):
            send(topic, data[number % 1000])
            if not number % LOOK:
                clock.look()
        clock.end()
        return throughput(started, cpu, count, **clock.figures())


def confluent_kafka(bootstrap: str, topic: str, count: int, seconds: float) -> dict[str, Any]:
    import confluent_kafka as confluent

    data = values(SIZE)
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        # Those of the produce benchmark.
        "batch.size": 900_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
    }
    producer = confluent.Producer(settings | ({"transactional.id": uuid.uuid4().hex} if seconds else {}))
    producer.list_topics(topic)
    if seconds:
        producer.init_transactions()
        producer.begin_transaction()
    started, cpu = time.perf_counter(), time.process_time()
    clock = Clock(seconds, producer.commit_transaction if seconds else producer.flush, producer.begin_transaction)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, data[number % 1000])
                break
            except BufferError:
                producer.poll(0.01)
        if not number % LOOK:
            producer.poll(0)
            clock.look()
    clock.end()
    return throughput(started, cpu, count, **clock.figures())


CLIENTS = {"kclient": kclient, "confluent-kafka": confluent_kafka}


def main() -> None:
    client, bootstrap, topic, count, seconds = sys.argv[1:]
    print(json.dumps(CLIENTS[client](bootstrap, topic, int(count), float(seconds))), flush=True)


if __name__ == "__main__":
    main()
