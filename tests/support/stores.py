"""Logs on a temporary disk that can fail, with a clock that only the test moves."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from typing import Any

from kclient.records import BatchBuilder, read_batches
from refbroker.log import Files, LogConfig, LogManager, PartitionLog
from refbroker.runtime.clock import Clock
from refbroker.testing.simulated_disk import SimulatedDisk

START_MS = 1_700_000_000_000
TOPIC_ID = uuid.UUID("12345678-1234-4234-8234-123456789abc")

# Small enough that a few dozen batches roll a segment, and that most batches get an index entry.
SMALL = LogConfig(segment_bytes=4096, index_interval_bytes=100, segment_index_bytes=1200)


class Disk(Files):
    """A disk whose writes fail with `error` while it is set."""

    def __init__(self) -> None:
        super().__init__(durable=False)
        self.error: OSError | None = None

    def pwrite(self, *args: Any) -> int:
        if self.error is not None:
            raise self.error
        return super().pwrite(*args)


def make_batch(
    count: int = 1,
    *,
    timestamp: int = START_MS,
    step_ms: int = 0,
    size: int = 20,
    key: bytes | None = b"key",
    compression: str = "none",
    **header: Any,
) -> bytes:
    """Build a batch of records whose values are all equal."""
    builder = BatchBuilder(compression)
    for index in range(count):
        builder.append(timestamp + index * step_ms, key, b"v" * size)
    return bytes(builder.build(**header))


def lead(log: PartitionLog) -> PartitionLog:
    """Move the high watermark of a log as its leader does that is alone in the in-sync set."""
    log.on_append.append(PartitionLog.move_high_watermark_to_end)
    log.move_high_watermark_to_end()
    return log


class LedLogs(LogManager):
    """The logs of a broker that leads all of them, and is alone in their in-sync sets."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        for log in self.logs():
            lead(log)

    def create(self, *args: Any, **options: Any) -> PartitionLog:
        return lead(super().create(*args, **options))


class Store:
    """Data directories that can be closed, crashed and opened again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Clock()
        self.clock.hold(START_MS)
        self.disk = Disk()
        self.directory = root / "data"
        self.manager: LogManager | None = None

    def open(
        self, config: LogConfig = SMALL, *, paths: list[Path] | None = None, kind: type[LogManager] = LedLogs
    ) -> LogManager:
        self.manager = kind.open(
            paths or [self.directory], "cluster", 1, config, clock=self.clock, files=self.disk, rng=random.Random(1)
        )
        return self.manager

    def log(self, config: LogConfig = SMALL) -> PartitionLog:
        """Return the log of orders-0, creating it if it does not exist."""
        manager = self.manager or self.open(config)
        return manager.get("orders", 0) or manager.create("orders", 0, TOPIC_ID, config)

    def close(self) -> None:
        if self.manager is not None:
            self.manager.close()
            self.manager = None

    def crash(self) -> None:
        if self.manager is not None:
            self.manager.abandon()
            self.manager = None

    def reopened(self, *, clean: bool = True) -> PartitionLog:
        if clean:
            self.close()
        else:
            self.crash()
        return self.log()

    @property
    def path(self) -> Path:
        return self.directory / "orders-0"


class PowerlessStore(Store):
    """A store on a simulated disk that can lose power."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.power = SimulatedDisk()
        self.disk = self.power  # type: ignore[assignment]

    def checkpoint(self) -> None:
        assert self.manager is not None
        self.manager.checkpoint()


def append(log: PartitionLog, count: int = 1, *, epoch: int = 0, **batch: Any) -> Any:
    now_ms = batch.get("timestamp", START_MS)
    return log.append(make_batch(count, **batch), leader_epoch=epoch, now_ms=now_ms)


def read_all(log: PartitionLog, offset: int | None = None) -> list[tuple[int, int, bytes]]:
    """Return offset, timestamp and value of every record from an offset on."""
    at = log.log_start_offset if offset is None else offset
    found = []
    while at < log.high_watermark:
        for batch in read_batches(log.read(at, 1 << 20).records.read()):
            found += [(r.offset, r.timestamp, r.value) for r in batch.records() if r.offset >= at]
        at = found[-1][0] + 1
    return found
