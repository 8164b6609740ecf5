"""Metadata changes, snapshots and retention with power that goes at random points: what was acknowledged is there.

KCLIENT_POWER_FAILURES says how many times the power goes.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from kclient.errors import KafkaStorageError
from kclient.protocol.messages.records.metadata_log import ConfigRecord
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.broker_harness import Harness

CRASHES = 5
CASES = int(os.environ.get("KCLIENT_POWER_FAILURES", "150")) // CRASHES
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "400",
    "metadata.log.segment.ms": "2000",
    "metadata.max.retention.bytes": "3000",
}


class CrashingBroker:
    """A broker that counts a setting up, and what it has acknowledged of it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk = SimulatedDisk()
        self.harness = Harness(root / "data", files=self.disk, **SETTINGS)
        self.acknowledged = self.attempted = 0
        self.epochs = [self.harness.broker.controller.epoch]

    async def work(self) -> None:
        """Changes, time, snapshots, retention in some order, on a disk that may fail from some point on."""
        if self.rng.random() < 0.7:
            self.disk.fail(after=self.rng.randrange(250))
        metadata = self.harness.broker.metadata
        for _ in range(self.rng.randrange(5, 60)):
            try:
                kind = self.rng.random()
                if kind < 0.6:
                    self._change()
                elif kind < 0.8:
                    await metadata.take_snapshot_if_due()
                elif kind < 0.9:
                    metadata.clean_snapshots()
                else:
                    await self.harness.broker.logs.delete_due_files()
            except KafkaStorageError:
                # A snapshot that fails costs nothing else; when the log fails, all that follows does.
                continue
            self.harness.clock.step(self.rng.choice([100, 1500, 30_000]))

    def _change(self) -> None:
        self.attempted += 1
        record = ConfigRecord(resource_type=4, resource_name="", name="count", value=str(self.attempted))
        self.harness.broker.controller.append([record])
        self.acknowledged = self.attempted

    def crash(self) -> None:
        self.harness.close()
        self.disk.lose_unflushed(self.rng.randrange(1 << 30))
        self.harness.open()

    def check(self) -> None:
        found = int(self.harness.broker.metadata.image.config(4, "").get("count", 0))
        # What was being written when the disk failed may have been stored or not.
        assert self.acknowledged <= found <= self.attempted
        self.attempted = self.acknowledged = found
        self.epochs.append(self.harness.broker.controller.epoch)
        assert self.epochs == sorted(set(self.epochs))


@pytest.mark.parametrize("case", range(CASES))
async def test_no_change_is_lost_and_no_epoch_is_led_twice(tmp_path: Path, rng: random.Random, case: int) -> None:
    running = CrashingBroker(tmp_path, rng.randrange(1 << 30))
    for _ in range(CRASHES):
        await running.work()
        running.crash()
        running.check()
    running.harness.close()
