"""A log on a disk that loses what was not flushed, at seeded points: what was flushed is there, in order and once.

KCLIENT_POWER_FAILURES says how many times the power goes; a thousand take about a minute. KCLIENT_TEST_SEED picks other
points than those of the default run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kclient.errors import KafkaStorageError
from kclient.records import ABORT, COMMIT, BatchBuilder, control_batch, read_batches
from refbroker.log import LogConfig, LogManager, Origin, PartitionLog, spare_files
from refbroker.runtime.clock import Clock
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.stores import START_MS, TOPIC_ID, LedLogs

FAILURES = int(os.environ.get("KCLIENT_POWER_FAILURES", "60"))
FAILURES_PER_LOG = 6
CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=150, segment_index_bytes=1200, file_delete_delay_ms=0)
PLAIN, TRANSACTIONAL = (11, 12, 13), (21, 22)

Stored = tuple[int, bytes, int, int, str]


@dataclass
class Model:
    """What the log ought to hold: for each batch base offset, value, producer id, sequence and kind.

    Attributes:
        deleted: the offsets of batches that were deleted. They have been in the log, and what came of them may be
            remembered, while batches that were lost have never been.
    """

    batches: list[Stored] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)
    end: int = 0
    flushed: int = 0
    start: int = 0

    def lose_all_but(self, found: Collection[int], start: int, end: int) -> None:
        """Take note of what is left of the log from its start on."""
        missing = {at for at, *_ in self.batches if at >= start and at not in found}
        self.deleted |= {at for at in missing if at < min(self.start, self.flushed)}
        self.batches = [each for each in self.batches if each[0] not in missing - self.deleted]
        self.end = end
        self.start = min(self.start, end)

    def next_sequence(self, producer: int) -> int:
        return max((sequence + 1 for _, _, owner, sequence, kind in self.batches if owner == producer), default=0)

    def open_transactions(self) -> dict[int, int]:
        """The first offsets of the open transactions whose first batch has not been deleted, by producer."""
        found: dict[int, int] = {}
        for offset, _, producer, _, kind in self.batches:
            if kind == "transactional":
                found.setdefault(producer, offset)
            elif kind in ("abort", "commit"):
                found.pop(producer, None)
        return {producer: offset for producer, offset in found.items() if offset not in self.deleted}

    def aborted(self) -> list[tuple[int, int, int]]:
        open_: dict[int, int] = {}
        found = []
        for offset, _, producer, _, kind in self.batches:
            if kind == "transactional":
                open_.setdefault(producer, offset)
            elif kind == "commit":
                open_.pop(producer, None)
            elif kind == "abort" and producer in open_:
                found.append((producer, open_.pop(producer), offset))
        return found


class Trial:
    """One log, worked on at random until the power goes, again and again."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.rng = rng
        self.path = path
        self.disk = SimulatedDisk()
        self.clock = Clock()
        self.clock.hold(START_MS)
        self.model = Model()
        self.manager: LogManager | None = None
        self.log: PartitionLog

    def open(self) -> None:
        self.manager = LedLogs.open(
            [self.path], "cluster", 1, CONFIG, clock=self.clock, files=self.disk, rng=random.Random(1)
        )
        self.log = self.manager.get("orders", 0) or self.manager.create("orders", 0, TOPIC_ID, CONFIG)

    def work(self, steps: int) -> None:
        for _ in range(steps):
            self.clock.step(1)
            action = self.rng.random()
            if action < 0.75:
                self.append()
            elif action < 0.85:
                self.flush()
            elif action < 0.90:
                self.flush_in_pieces()
            elif action < 0.93:
                self.log.roll()
            elif action < 0.95:
                self.log.begin_leader_epoch(self.log.leader_epoch + 1)
            elif action < 0.97:
                self.delete_records()
            else:
                assert self.manager is not None
                self.manager.checkpoint()

    def append(self) -> None:
        kind, producer = self.rng.choice(
            [
                *(("plain", producer) for producer in PLAIN),
                *(("transactional", producer) for producer in TRANSACTIONAL * 2),
                *((end, producer) for end in ("abort", "commit") for producer in TRANSACTIONAL),
            ]
        )
        offset, epoch = self.model.end, max(self.log.leader_epoch, 0)
        value = self.rng.randbytes(self.rng.choice((10, 100, 600)))
        sequence = self.model.next_sequence(producer)
        if kind in ("abort", "commit"):
            data = control_batch(
                ABORT if kind == "abort" else COMMIT, producer_id=producer, producer_epoch=0, coordinator_epoch=0,
                timestamp=self.clock(), base_offset=offset, partition_leader_epoch=epoch,
            )  # fmt: skip
            sequence, value = -1, b""
        else:
            builder = BatchBuilder()
            builder.append(self.clock(), b"key", value)
            data = bytes(
                builder.build(
                    base_offset=offset, producer_id=producer, producer_epoch=0, base_sequence=sequence,
                    is_transactional=kind == "transactional", partition_leader_epoch=epoch,
                )
            )  # fmt: skip
        # The log may take it even though the disk fails before the answer; what is lost is cut off the model again.
        self.model.batches.append((offset, value, producer, sequence, kind))
        self.model.end += 1
        self.log.append(data, leader_epoch=epoch, origin=Origin.REPLICATION, now_ms=self.clock())

    def flush(self) -> None:
        end = self.model.end
        self.log.flush()
        self.model.flushed = end

    def flush_in_pieces(self) -> None:
        """A flush in a worker thread, while the log continues."""
        flush = self.log.begin_flush(up_to_active=self.rng.random() < 0.5)
        if flush is not None:
            self.append()
            if self.rng.random() < 0.3:
                self.log.roll()
            with self.log.health.guard("flush"):
                flush.sync()
            self.append()
            self.log.finish_flush(flush)
            self.model.flushed = max(self.model.flushed, flush.offset)

    def delete_records(self) -> None:
        start = self.rng.randint(self.log.log_start_offset, self.log.high_watermark)
        # The log start may go back, also when the disk fails on the way, but not all is there that was before it.
        self.model.start = max(self.model.start, start)
        self.log.delete_records(start)
        gone = [s for s in list(self.log.segments)[1:] if s.base_offset <= self.log.log_start_offset]
        self.log.delete_segments(list(self.log.segments)[: len(gone)], "they lie before the log start")

    def end(self) -> bool:
        """Let the power go somewhere, perhaps after a clean stop; whether the stop was clean."""
        assert self.manager is not None
        clean = False
        try:
            if self.rng.random() < 0.3:
                self.disk.fail(after=self.rng.randrange(60))
            self.work(self.rng.randrange(40))
            if self.rng.random() < 0.25:
                self.model.flushed = max(self.model.flushed, self.close())
                clean = True
        except KafkaStorageError:
            pass
        self.manager.abandon()
        self.disk.lose_unflushed(self.rng.randrange(1 << 30))
        return clean

    def close(self) -> int:
        assert self.manager is not None
        end = self.model.end
        self.manager.close()
        return end

    def check(self, clean: bool) -> None:
        log, model = self.log, self.model
        assert log.log_end_offset >= model.flushed
        assert log.log_end_offset <= model.end
        assert not clean or log.log_end_offset == model.end
        assert log.log_start_offset <= model.start or log.log_start_offset >= model.flushed
        self.check_records()
        self.check_producers()
        found = [entry[:3] for segment in log.segments for entry in segment.transaction_index.entries()]
        # Of a transaction that began before the log start less may be known, of what was deleted anything may be left.
        start = max(log.log_start_offset, model.start)
        assert {entry for entry in model.aborted() if entry[1] >= start} <= set(found)
        assert {last for _, _, last in found} <= {last for _, _, last in model.aborted()}
        assert found == sorted(found, key=lambda entry: entry[2])
        undecided = [offset for offset in model.open_transactions().values() if offset >= log.log_start_offset]
        assert log.last_stable_offset <= min([log.log_end_offset, *undecided])

    def check_records(self) -> None:
        """Every flushed batch is there, any other may be missing, and none is there twice or as something else.

        The model forgets what is missing.
        """
        log, model = self.log, self.model
        found: dict[int, bytes] = {}
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            batches = list(read_batches(log.read(offset, 1 << 20).records.read()))
            if not batches:
                break
            for batch in batches:
                assert batch.base_offset >= offset
                offset = batch.last_offset + 1
                found[batch.base_offset] = b"" if batch.is_control else next(iter(batch.records())).value
        expected = {
            at: value for at, value, *_ in model.batches if at >= log.log_start_offset and at not in model.deleted
        }
        assert expected.items() >= found.items()
        # What lies before a log start that was not written down yet may be gone in parts.
        assert {at for at in expected if model.start <= at < model.flushed} <= set(found)
        model.lose_all_but(found, log.log_start_offset, log.log_end_offset)
        for at in self.rng.sample(sorted(found), min(5, len(found))):
            batch = next(iter(read_batches(log.read(at, 1).records.read())))
            assert batch.base_offset == at
            by_time = log.offset_for_timestamp(batch.max_timestamp)
            assert by_time is not None
            assert by_time.timestamp >= batch.max_timestamp
            assert by_time.offset <= at

    def check_producers(self) -> None:
        """Each producer whose records are there is remembered with its last sequence, and continues from it."""
        known = {producer.producer_id: producer.last_sequence for producer in self.log.producers()}
        for producer in (*PLAIN, *TRANSACTIONAL):
            there = [
                sequence
                for at, _, owner, sequence, _ in self.model.batches
                if owner == producer and at >= self.log.log_start_offset and at not in self.model.deleted
            ]
            # What has been deleted may be remembered or not.
            assert max(there, default=-1) <= known.get(producer, -1) <= self.model.next_sequence(producer) - 1


@pytest.mark.parametrize("number", range(max(FAILURES // FAILURES_PER_LOG, 1)))
def test_nothing_that_was_flushed_is_lost_reordered_or_doubled(tmp_path: Path, rng: random.Random, number: int) -> None:
    run(tmp_path / "data", rng, number)


@pytest.mark.parametrize("number", range(3))
def test_nothing_is_lost_of_logs_whose_files_do_not_stay_open(
    tmp_path: Path, rng: random.Random, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spare_files, "MOST", 1)
    run(tmp_path / "data", rng, number)


def run(path: Path, rng: random.Random, number: int) -> None:
    # The default run repeats the same failures; KCLIENT_TEST_SEED, as a long one sets it, picks others.
    rng = rng if "KCLIENT_TEST_SEED" in os.environ else random.Random(number)
    trial = Trial(path, rng)
    clean = False
    for _ in range(FAILURES_PER_LOG):
        trial.open()
        trial.check(clean)
        if rng.random() < 0.8:
            trial.work(rng.randrange(30))
        # Else it goes just after recovery, which must not bring back what was cut off.
        clean = trial.end()
    trial.open()
    trial.check(clean)
    trial.close()
