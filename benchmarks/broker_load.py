"""refbroker and Apache Kafka in turn with the same client: the rows of DESIGN.md section 9 that compare brokers.

confluent-kafka produces and consumes over 1 and 100 partitions, with records of 100 bytes and 1 kB, plain and zstd;
then with 200 connections, and from the oldest segments of a long log. Beside each rate is the broker's own CPU time.
Not implemented: our own clients, because a broker is compared with the clients of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import psutil

CONFLUENT = "confluent-kafka"
CONNECTIONS = 200
SEGMENT_BYTES = 16 << 20
"""The segment size of the long log, which therefore has many segments."""
CONNECTIONS = 200


class BrokerUnderTest(NamedTuple):
    """A running broker: name, address, process."""

    name: str
    bootstrap: str
    pid: int

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def resident_mb(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss / 1e6)


class Load(NamedTuple):
    """The work of the client."""

    what: str
    partitions: int
    size: int
    codec: str

    def __str__(self) -> str:
        codec = "" if self.codec == "none" else f", {self.codec}"
        return f"{self.what}, {self.partitions} partition{'s' * (self.partitions > 1)}, {self.size} bytes{codec}"


LOADS = tuple(
    Load(what, partitions, size, codec)
    for what in ("produce", "consume")
    for partitions in (1, 100)
    for size in (100, 1000)
    for codec in ("none", "zstd")
)


class Worker(Protocol):
    """Runs one measurement in a separate process; see `__main__`."""

    def __call__(
        self, what: str, client: str, bootstrap: str, topic: str, count: int, mode: str, *, size: int = 100
    ) -> dict[str, Any]: ...


class Measured(NamedTuple):
    """The result of a load on one broker: records per second, and the broker's CPU seconds per million records."""

    rate: float
    cpu_per_million: float


def measure(worker: Worker, fresh: Callable[[], str], broker: BrokerUnderTest, load: Load, count: int) -> Measured:
    """Measure one load on one broker, once.

    Parameters:
        worker: runs a measurement.
        fresh: creates a topic and returns its name.
        count: the number of records.
    """
    topic, mode = fresh(), f"tuned-{load.codec}"
    if load.what == "consume":
        worker("produce", CONFLUENT, broker.bootstrap, topic, count, mode, size=load.size)
    before = broker.cpu_seconds()
    result = worker(load.what, CONFLUENT, broker.bootstrap, topic, count, mode, size=load.size)
    return Measured(result["rate"], (broker.cpu_seconds() - before) / count * 1e6)


def measure_together(worker: Worker, fresh: Callable[[], str], broker: BrokerUnderTest, count: int) -> Measured:
    """Produce over `CONNECTIONS` connections at once."""
    before = broker.cpu_seconds()
    result = worker("together", CONFLUENT, broker.bootstrap, fresh(), count, str(CONNECTIONS))
    return Measured(result["rate"], (broker.cpu_seconds() - before) / count * 1e6)


def measure_old_and_new(
    worker: Worker, topic: str, broker: BrokerUnderTest, count: int, end: int
) -> tuple[float, float]:
    """Return the rates of reading the first `count` records of a long log, and the last ones before `end`."""
    old = worker("consume-from", CONFLUENT, broker.bootstrap, topic, count, "0")
    new = worker("consume-from", CONFLUENT, broker.bootstrap, topic, count, str(end - count))
    return old["rate"], new["rate"]


def best_of(measured: list[Measured]) -> Measured:
    """Return the best of every figure over the rounds."""
    return Measured(max(one.rate for one in measured), min(one.cpu_per_million for one in measured))
