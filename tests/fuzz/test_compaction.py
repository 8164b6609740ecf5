"""Compaction against a simple model: random keys, tombstones, nulls, producers, transactions, codecs, rolls and clocks.

A history is a list of actions. After each pass the log must hold exactly the records that the model does, a reader of
committed records must see what is committed, and producers must be remembered as before, whether the log is read
again from snapshots or from its batches alone. In the middle of a pass the disk may fail at any operation, and the
power may go: then the next start must find all that must be there and no strays, and another pass must come to the
end that the first one would have come to.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from kclient.errors import KafkaStorageError
from kclient.records import RecordCursor, read_batches
from refbroker.log import Isolation, LogManager, PartitionLog
from refbroker.log.compaction.selection import measure
from refbroker.runtime.clock import Clock
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.fuzz.compaction_model import Model
from tests.support.stores import START_MS, TOPIC_ID, LedLogs
from tests.support.workshop import (
    COMPACTED,
    DELETE_RETENTION_MS,
    Pair,
    batches,
    begin_pass,
    end_transaction,
    finish,
    put,
    with_config,
)

pytestmark = pytest.mark.fuzz

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = with_config(COMPACTED, segment_bytes=700, index_interval_bytes=60, segment_index_bytes=240)

keys = st.sampled_from([None, b"", b"a", b"b", b"c", b"d", b"a key that is longer than any hash", b"e" * 40])
values = st.one_of(st.none(), st.binary(max_size=30))


class Put(NamedTuple):
    """A batch; producers 0 to 2 are idempotent, 3 and 4 transactional, None is neither."""

    pairs: list[Pair]
    codec: str
    producer: int | None
    time_ms: int


class End(NamedTuple):
    producer: int
    commit: bool


class Roll(NamedTuple):
    pass


class Wait(NamedTuple):
    ms: int


class Clean(NamedTuple):
    """A pass; the disk fails after so many operations, and perhaps the power, by a seed."""

    roll: bool
    keys: int
    fails_after: int | None
    power: int | None


class Restart(NamedTuple):
    clean: bool
    without_snapshots: bool


puts = st.builds(
    Put,
    st.lists(st.tuples(keys, values), min_size=1, max_size=5),
    st.sampled_from(CODECS),
    st.one_of(st.none(), st.integers(0, 4)),
    st.integers(-50, 50),
)
passes = st.builds(
    Clean,
    st.booleans(),
    st.integers(1, 8),
    st.one_of(st.none(), st.integers(0, 120)),
    st.one_of(st.none(), st.integers(0, 2**32)),
)
# A clock may be set back.
waits = st.builds(Wait, st.sampled_from([-DELETE_RETENTION_MS, 1, 100, DELETE_RETENTION_MS, 5 * DELETE_RETENTION_MS]))
others = st.one_of(
    st.builds(End, st.integers(3, 4), st.booleans()), st.builds(Roll), waits, passes,
    st.builds(Restart, st.booleans(), st.booleans()),
)  # fmt: skip
histories = st.lists(st.one_of(puts, puts, puts, others, passes), min_size=20, max_size=100)


class ModelledLog:
    """A log on a disk that fails, its model, and what the producers have sent."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "data"
        self.path = self.directory / "orders-0"
        self.disk = SimulatedDisk()
        self.clock = Clock()
        self.clock.hold(START_MS)
        self.model = Model(DELETE_RETENTION_MS)
        self.sequences: dict[int, int] = {}
        self.open_transactions: set[int] = set()
        self.manager: LogManager
        self.log: PartitionLog
        self.open()

    def open(self) -> None:
        self.manager = LedLogs.open(
            [self.directory], "cluster", 1, CONFIG, clock=self.clock, files=self.disk, rng=random.Random(1)
        )
        self.log = self.manager.get("orders", 0) or self.manager.create("orders", 0, TOPIC_ID, CONFIG)

    def put(self, action: Put) -> None:
        producer, timestamp = action.producer, START_MS + action.time_ms
        transactional = producer is not None and producer >= 3
        if producer is not None and transactional:
            self.open_transactions.add(producer)
        sequence = self.sequences.get(producer or 0, 0)
        result = put(
            self.log,
            *action.pairs,
            timestamp=timestamp,
            compression=action.codec,
            producer=None if producer is None else (producer, 0, sequence),
            transactional=transactional,
        )
        if producer is not None:
            self.sequences[producer] = sequence + len(action.pairs)
        self.model.append(
            result.base_offset, timestamp, action.pairs, -1 if producer is None else producer, transactional
        )

    def end(self, action: End) -> None:
        if action.producer in self.open_transactions:
            self.open_transactions.discard(action.producer)
            end_transaction(self.log, action.producer, 0, commit=action.commit)
            self.model.end_transaction(action.producer, commit=action.commit)

    def clean(self, action: Clean) -> None:
        if action.roll:
            self.log.roll()
        if measure(self.log, self.clock()).cleanable_bytes == 0:
            return
        # What was appended is not what is to be lost here.
        self.log.flush()
        self.manager.checkpoint()
        if action.fails_after is not None:
            self._fail_while_cleaning(action, action.fails_after)
        # After a failure it does what is left to do, as far as the first one would have come.
        self._clean(action.keys)

    def _clean(self, keys: int) -> None:
        before = [entry.last_sequence for entry in self.log.producers()]
        bases = self.log.segments.base_offsets
        stats = finish(begin_pass(self, self.log, keys=keys, io_buffer_size=300))  # type: ignore[arg-type]
        assert stats.end_offset > stats.first_dirty_offset
        rewritten_end = min(base for base in bases if base >= stats.end_offset)
        self.model.clean(stats.first_dirty_offset, stats.end_offset, rewritten_end, self.clock())
        assert [entry.last_sequence for entry in self.log.producers()] == before
        event("a pass")

    def _fail_while_cleaning(self, action: Clean, after: int) -> None:
        """A pass during which the disk fails, if it lasts long enough, and a start afterwards."""
        before, ends = self.records(), (self.log.log_start_offset, self.log.log_end_offset)
        fault = self.disk.fail(path_prefix=self.path, after=after)
        running = begin_pass(self, self.log, keys=action.keys, io_buffer_size=300)  # type: ignore[arg-type]
        try:
            while running.step() is not None:
                pass
        except KafkaStorageError:
            assert fault.fired
        running.close()
        self.manager.abandon()
        self.disk.heal()
        if action.power is not None:
            self.disk.lose_unflushed(action.power)
        self.open()
        assert not [name for name in self.disk.names(self.path) if name.endswith((".cleaned", ".swap", ".deleted"))]
        left = self.records()
        assert set(left) <= set(before)
        assert left == sorted(set(left))
        assert (self.log.log_start_offset, self.log.log_end_offset) == ends
        must_stay = {key: offset for offset, _, key, _ in self.model.committed(self.log.last_stable_offset)}
        there = {offset for offset, _, _, _ in left}
        horizons = {record.offset: record.batch.horizon_ms for record in self.model.records if record.value is None}
        for key, offset in must_stay.items():
            gone = horizons.get(offset)
            assert key is None or offset in there or (gone is not None and gone <= self.clock())
        event("a failure in a pass" if fault.fired else "a restart after a pass")

    def restart(self, action: Restart) -> None:
        before = self.remembered()
        if action.clean and not action.without_snapshots:
            self.manager.close()
        else:
            self.manager.abandon()
        for name in self.disk.names(self.path) if action.without_snapshots else ():
            if name.endswith(".snapshot"):
                self.disk.unlink(self.path / name)
        self.open()
        assert self.remembered() == before

    def remembered(self) -> dict[int, tuple[int, int, int, int]]:
        """Of each producer the last sequence and offset, the epoch, and where its open transaction began."""
        return {
            entry.producer_id: (
                entry.last_sequence, entry.last_offset, entry.producer_epoch, entry.current_txn_first_offset
            )
            for entry in self.log.producers()
        }  # fmt: skip

    def records(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        return [
            (record.offset, record.timestamp, record.key, record.value)
            for header in batches(self.log)
            if not header.is_control
            for batch in read_batches(header.raw)
            for record in batch.records()
        ]

    def committed(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        """What a consumer that reads committed records gets."""
        log, found = self.log, []
        offset = log.log_start_offset
        while offset < log.last_stable_offset:
            answer = log.read(offset, 500, isolation=Isolation.READ_COMMITTED)
            data = answer.records.read()
            if not data:
                break
            cursor = RecordCursor(data, "orders", 0, offset, aborted=answer.aborted or (), read_committed=True)
            found += [(r.offset, r.timestamp, r.key, r.value) for r in cursor.take()]
            assert cursor.next_offset > offset
            offset = cursor.next_offset
        return found

    def check(self) -> None:
        assert self.records() == self.model.all()
        assert self.committed() == self.model.committed(self.log.last_stable_offset)
        for header in batches(self.log):
            assert header.is_valid()
        for segment in self.log.segments:
            assert segment.find(segment.next_offset()) is None


@contextmanager
def modelled_log() -> Iterator[ModelledLog]:
    with tempfile.TemporaryDirectory() as root:
        made = ModelledLog(Path(root))
        try:
            yield made
        finally:
            made.manager.abandon()


@given(histories)
def test_a_log_holds_what_the_model_does_whatever_happens(history: list[NamedTuple]) -> None:
    with modelled_log() as made:
        for action in history:
            if isinstance(action, Put):
                made.put(action)
            elif isinstance(action, End):
                made.end(action)
            elif isinstance(action, Roll):
                made.log.roll()
            elif isinstance(action, Wait):
                made.clock.step(action.ms)
            elif isinstance(action, Clean):
                made.clean(action)
                made.check()
            elif isinstance(action, Restart):
                made.restart(action)
        made.check()
