"""Truncation on a disk that loses what was not flushed: nothing that was cut off comes back behind newer records.

KCLIENT_POWER_FAILURES says how many times the power goes, as for the log as a whole.
"""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import pytest

from kclient.errors import KafkaStorageError
from kclient.records import read_batches
from refbroker.log import Isolation, PartitionLog
from tests.refbroker.log.test_power_failures import FAILURES, FAILURES_PER_LOG, Trial
from tests.support.stores import PowerlessStore, append


class TruncatingTrial(Trial):
    """A log that is truncated now and then, as that of a follower is.

    Attributes:
        epoch: the leader epoch, which never decreases.
    """

    epoch = 0

    def work(self, steps: int) -> None:
        for _ in range(steps):
            if self.log.leader_epoch < self.epoch:
                self.log.begin_leader_epoch(self.epoch)
            super().work(1)
            self.epoch = max(self.epoch, self.log.leader_epoch)
            if self.rng.random() < 0.1:
                self.truncate()

    def truncate(self) -> None:
        log, model = self.log, self.model
        offset = self.rng.randint(log.log_start_offset, model.end)
        # From now on either may be there, what was cut off or what is left.
        model.flushed = min(model.flushed, offset)
        assert self.manager is not None
        self.manager.truncate_to(log, offset)
        assert log.log_end_offset == offset
        model.batches = [each for each in model.batches if each[0] < offset]
        model.end = offset
        self.epoch += 1

    def check(self, clean: bool) -> None:
        log = self.log
        # What lies before a log start that was not written down yet may be gone in parts.
        start = max(log.log_start_offset, self.model.start)
        super().check(clean)
        assert log.recovery_point <= log.log_end_offset
        headers = [header for segment in log.segments for header in segment.headers()]
        left = [header for header in headers if header.base_offset >= start]
        for before, after in itertools.pairwise(left):
            assert after.base_offset > before.last_offset
            assert after.partition_leader_epoch >= before.partition_leader_epoch
        for header in left:
            assert log.epochs.epoch_for_offset(header.base_offset) == header.partition_leader_epoch


@pytest.mark.parametrize("number", range(max(FAILURES // FAILURES_PER_LOG, 1)))
def test_what_was_cut_off_does_not_come_back(tmp_path: Path, rng: random.Random, number: int) -> None:
    # The default run repeats the same failures; KCLIENT_TEST_SEED, as a long one sets it, picks others.
    chance = rng if "KCLIENT_TEST_SEED" in os.environ else random.Random(1000 + number)
    trial = TruncatingTrial(tmp_path / "data", chance)
    clean = False
    for _ in range(FAILURES_PER_LOG):
        trial.open()
        trial.check(clean)
        if chance.random() < 0.8:
            trial.work(chance.randrange(30))
        clean = trial.end()
    trial.open()
    trial.check(clean)
    trial.close()


def values(log: PartitionLog) -> list[bytes]:
    """Return the values of all records."""
    found, offset = [], log.log_start_offset
    log.update_high_watermark(log.log_end_offset)
    while offset < log.log_end_offset:
        for batch in read_batches(log.read(offset, 1 << 20, isolation=Isolation.READ_UNCOMMITTED).records.read()):
            found += [bytes(record.value) for record in batch.records()]
            offset = batch.last_offset + 1
    return found


@pytest.mark.parametrize("new_start", [0, 13, 40, 55])
@pytest.mark.parametrize("operations", range(0, 60, 3))
def test_power_that_goes_while_a_log_is_emptied_leaves_the_old_one_or_an_empty_one(
    tmp_path: Path, operations: int, new_start: int
) -> None:
    store = PowerlessStore(tmp_path)
    log = store.log()
    for number in range(40):
        append(log, epoch=number // 20, size=number + 300)
    log.flush()
    store.checkpoint()
    old = values(log)
    assert len(log.segments) > 2
    assert store.manager is not None
    store.power.fail(after=operations, path_prefix=store.directory)
    ended = False
    try:
        store.manager.truncate_fully_and_start_at(log, new_start)
        ended = True
        append(log, 2, epoch=7, size=9)
    except KafkaStorageError:
        pass
    store.crash()
    store.power.lose_unflushed(seed=operations * 100 + new_start)
    log = store.log()
    left = values(log)
    if log.log_start_offset == new_start and (new_start or left[:1] != old[:1]):
        assert left in ([], [b"v" * 9] * 2)
    else:
        assert not ended
        assert left == old[log.log_start_offset :][: len(left)]
    append(log, epoch=8)
    log.close()
