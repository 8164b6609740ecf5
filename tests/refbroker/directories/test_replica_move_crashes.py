"""Moves between directories with disks that fail and power that goes at random points: nothing flushed is lost.

KCLIENT_POWER_FAILURES says how many times the power goes; a thousand take about two minutes.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from refbroker.directories import moves as replica_moves
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.refbroker.directories.directories import ask, entries, log_of, moved, values
from tests.support.broker_harness import Harness

CRASHES = 4
CASES = int(os.environ.get("KCLIENT_POWER_FAILURES", "60")) // CRASHES
NAMES = ("meta", "one", "two")


class CrashingBroker:
    """A broker whose records are flushed one by one, and what it has acknowledged."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk = SimulatedDisk()
        paths = [str(root / name) for name in NAMES]
        self.harness = Harness(root, files=self.disk, log_dirs=",".join(paths), log_flush_interval_messages="1")
        self.harness.create("moving")
        self.acknowledged: list[bytes] = []
        self._paths = paths
        self._unsure: list[bytes] = []

    async def work(self) -> None:
        """Write, move and let time pass in some order, on disks of which one may fail from some point on."""
        if self.rng.random() < 0.7:
            self.disk.fail(path_prefix=self.rng.choice([*self._paths, ""]), after=self.rng.randrange(150))
        for _ in range(self.rng.randrange(5, 40)):
            if self.harness.broker.failed.done():
                break
            if self.rng.random() < 0.15:
                self._ask()
            elif self.rng.random() < 0.7:
                self._produce()
            else:
                await asyncio.sleep(self.rng.choice([0, 0, 0.001, 0.003]))

    def _ask(self) -> None:
        ask(self.harness, self.rng.choice(NAMES))

    def _produce(self) -> None:
        value = b"%d" % (len(self.acknowledged) + len(self._unsure)) + b"." * self.rng.randrange(300)
        answer = self.harness.produce("moving", value)
        if answer.error_code == 0:
            self.acknowledged.append(value)
        else:
            # As with any failed request, it may have been stored or not.
            self._unsure.append(value)

    async def crash(self) -> None:
        """The power goes, and the broker starts on what the disks have kept."""
        await self.harness.broker.moves.stop()
        self.harness.close()
        self.disk.lose_unflushed(self.rng.randrange(1 << 30))
        self.harness.open()

    def check(self) -> None:
        found = [value for _, value in values(self.harness)]
        sure = set(self.acknowledged)
        assert [value for value in found if value in sure] == self.acknowledged
        assert set(found) - sure <= set(self._unsure)
        assert [offset for offset, _ in values(self.harness)] == list(range(len(found)))
        homes = [name for name in NAMES if "moving-0" in entries(self.harness, name)]
        assert len(homes) == 1
        state = self.harness.broker.metadata.image.topics["moving"].partitions[0]
        assert state.leader == self.harness.broker.node_id


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(CASES))
async def test_nothing_flushed_is_lost(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_moves, "COPY_BYTES", 1000)
    broker = CrashingBroker(tmp_path, seed)
    for _ in range(CRASHES):
        await broker.work()
        await broker.crash()
        broker.check()
    await moved(broker.harness)
    broker.check()
    assert log_of(broker.harness).log_end_offset >= len(broker.acknowledged)
    await broker.harness.broker.moves.stop()
    broker.harness.close()
