"""refbroker and Apache Kafka in turn under the same client: the rows of DESIGN.md section 9 that compare brokers.

Produce and consume by confluent-kafka over 1 and 100 partitions, records of 100 bytes and 1 kB, plain and zstd; 200
connections at once; and a consumer on the oldest segments of a long log. Beside each rate stands what the broker
itself used of the processor. Leaves out clients of our own: a broker is judged by others'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import psutil

CONFLUENT = "confluent-kafka"
CONNECTIONS = 200
SEGMENT_BYTES = 16 << 20
"""Of the long log, which so has many segments."""
CONNECTIONS = 200


class BrokerUnderTest(NamedTuple):
    """A broker that runs: what it is called, where clients find it, its process."""

    name: str
    bootstrap: str
    pid: int

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def resident_mb(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss / 1e6)


class Load(NamedTuple):
    """What the client does."""

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
    """Runs one measurement in a process of its own; see `__main__`."""

    def __call__(
        self, what: str, client: str, bootstrap: str, topic: str, count: int, mode: str, *, size: int = 100
    ) -> dict[str, Any]: ...


class Measured(NamedTuple):
    """A load on one broker: records a second, and the broker's processor seconds per million records."""

    rate: float
    cpu_per_million: float


def measure(worker: Worker, fresh: Callable[[], str], broker: BrokerUnderTest, load: Load, count: int) -> Measured:
    """Put one load on one broker, once.

    Parameters:
        worker: runs a measurement.
        fresh: makes a topic and gives its name.
        count: how many records.
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
    """The rates of reading the first `count` records of a long log, and the last ones before `end`."""
    old = worker("consume-from", CONFLUENT, broker.bootstrap, topic, count, "0")
    new = worker("consume-from", CONFLUENT, broker.bootstrap, topic, count, str(end - count))
    return old["rate"], new["rate"]


def best_of(measured: list[Measured]) -> Measured:
    """The best of every figure over the rounds."""
    return Measured(max(one.rate for one in measured), min(one.cpu_per_million for one in measured))
