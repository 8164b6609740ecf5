"""Passes as a whole: what they leave on the disk, how far they come, and how they end early."""

from __future__ import annotations

import errno
import random

import pytest

from kclient.errors import CorruptRecordError, KafkaStorageError
from kclient.records import IMPLEMENTATION, read_batches
from refbroker.log import PartitionLog
from refbroker.log.compaction.cleaner import CleanerSettings, CleaningAbortedError, CleaningPass, Place, Step
from refbroker.log.compaction.selection import measure
from refbroker.log.compaction.throttle import Throttle
from tests.support.stores import START_MS, Store, read_all
from tests.support.workshop import (
    COMPACTED,
    Kept,
    batches,
    begin_pass,
    clean,
    file_names,
    finish,
    latest,
    put,
    records,
    with_config,
)


@pytest.fixture
def log(store: Store) -> PartitionLog:
    return store.log(COMPACTED)


def fill(log: PartitionLog, rng: random.Random, count: int, keys: int = 20) -> None:
    for number in range(count):
        put(log, *((b"%d" % rng.randrange(keys), rng.randbytes(40)) for _ in range(4)), timestamp=START_MS + number)


def temporary(store: Store) -> list[str]:
    return [name for name in file_names(store) if name.endswith((".cleaned", ".swap", ".deleted"))]


def test_old_files_wait_to_be_removed_and_who_reads_them_can_finish(
    store: Store, log: PartitionLog, rng: random.Random
) -> None:
    fill(log, rng, 100)
    held = log.read(0, 1 << 20).records
    expected = held.read()
    clean(store, log)
    assert held.read() == expected
    assert "00000000000000000000.log.deleted" in file_names(store)
    assert not [name for name in temporary(store) if not name.endswith(".deleted")]


def test_reads_look_ups_and_a_restart_find_what_is_left(store: Store, log: PartitionLog, rng: random.Random) -> None:
    fill(log, rng, 200)
    before = latest(records(log))
    clean(store, log)
    put(log, (b"0", b"last"))
    log.roll()
    clean(store, log)
    before[b"0"] = Kept(log.log_end_offset - 1, b"0", b"last")
    left = records(log)
    assert latest(left) == before
    for _ in range(2):
        assert [offset for offset, _, _ in read_all(log)] == [kept.offset for kept in left]
        for kept in left:
            [first, *_] = [r for batch in read_batches(log.read(kept.offset, 1 << 20).records.read())
                           for r in batch.records() if r.offset >= kept.offset]  # fmt: skip
            assert (first.offset, first.key, first.value) == kept
            found = log.offset_for_timestamp(first.timestamp)
            assert found is not None
            assert found.timestamp >= first.timestamp
            assert found.offset <= first.offset
        log = store.reopened()
    assert records(log) == left


def test_segments_that_shrank_become_one_in_the_next_pass(store: Store, log: PartitionLog, rng: random.Random) -> None:
    fill(log, rng, 300, keys=5)
    log.roll()
    segments = len(log.segments)
    clean(store, log)
    assert len(log.segments) == segments > 15
    put(log, (b"0", b"1"))
    log.roll()
    clean(store, log)
    assert len(log.segments) == 2


def test_a_map_that_is_full_ends_the_pass_and_the_next_one_continues_there(
    store: Store, log: PartitionLog, rng: random.Random
) -> None:
    fill(log, rng, 150, keys=30)
    log.roll()
    before, end = latest(records(log)), log.log_end_offset
    ends: list[int] = []
    while not ends or ends[-1] < end:
        stats = clean(store, log, keys=7)
        assert stats.map_keys <= 7
        assert stats.end_offset > stats.first_dirty_offset
        ends.append(stats.end_offset)
        assert latest(records(log)) == before
    assert len(ends) > 3
    assert sorted(records(log)) == sorted(before.values())


def test_a_batch_with_more_keys_than_the_map_takes_several_passes(store: Store, log: PartitionLog) -> None:
    put(log, *((b"%d" % number, b"old") for number in range(10)))
    put(log, *((b"%d" % number, b"new") for number in range(10)))
    log.roll()
    ends = [clean(store, log, keys=4).end_offset for _ in range(5)]
    assert ends == [4, 8, 12, 16, 20]
    assert records(log) == [Kept(10 + number, b"%d" % number, b"new") for number in range(10)]


def test_the_time_of_the_newest_of_the_old_files_is_that_of_the_new_one(store: Store) -> None:
    # Retention goes by it where records have no timestamps.
    log = store.log(with_config(segment_bytes=10**6))
    for name in (b"a", b"b"):
        put(log, (name, b"1"), timestamp=-1)
        log.roll()
    store.disk.set_modified_ms(log.segments[0].path, 1_000_000_000_000)
    store.disk.set_modified_ms(log.segments[1].path, 1_100_000_000_000)
    clean(store, log)
    assert len(log.segments) == 2
    assert store.disk.modified_ms(log.segments[0].path) == 1_100_000_000_000
    assert log.segments[0].largest_timestamp() == 1_100_000_000_000


class RecordedThrottle(Throttle):
    """A throttle without a limit that counts the reported bytes."""

    total = 0

    def observe(self, size: int) -> int:
        self.total += size
        return 0


@pytest.mark.parametrize("io_buffer_size", [1000, 1_000_000])
def test_the_throttle_learns_of_every_byte_that_is_read_or_written(
    store: Store, log: PartitionLog, rng: random.Random, io_buffer_size: int
) -> None:
    fill(log, rng, 100)
    throttle = RecordedThrottle(lambda: float("inf"), store.clock)
    settings = CleanerSettings(io_buffer_size=io_buffer_size)
    stats = finish(CleaningPass(store.disk, measure(log, store.clock()), settings, throttle, store.clock))
    assert stats.map_bytes_read > 0
    assert throttle.total == stats.map_bytes_read + stats.bytes_read + stats.bytes_written


def test_steps_say_where_they_run_and_how_long_to_wait(store: Store, log: PartitionLog, rng: random.Random) -> None:
    fill(log, rng, 100)
    throttle = Throttle(lambda: 10_000.0, store.clock)
    running = CleaningPass(
        store.disk, measure(log, store.clock()), CleanerSettings(io_buffer_size=1000), throttle, store.clock
    )
    began = store.clock()
    steps: list[Step] = []
    while (step := running.step()) is not None:
        steps.append(step)
        # Reading takes no time here; looks at the clock are 300 ms apart.
        store.clock.step(step.wait_ms + (301 if step.place is Place.WORKER else 0))
    stats = running.stats
    total = stats.map_bytes_read + stats.bytes_read + stats.bytes_written
    assert store.clock() - began >= total / 10_000 * 1000 * 0.9
    assert steps[0].place is Place.WORKER
    assert {step.place for step in steps} == {Place.WORKER, Place.LOOP}


# Ends before the end


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_a_pass_that_is_given_up_leaves_the_log_as_it_is_or_a_part_of_it_clean(
    store: Store, log: PartitionLog, rng: random.Random, after: int
) -> None:
    fill(log, rng, 60)
    before = records(log)
    running = begin_pass(store, log)
    for _ in range(after):
        if running.step() is None:
            break
    running.abort()
    with pytest.raises(CleaningAbortedError):
        running.step()
    assert latest(records(log)) == latest(before)
    assert set(records(log)) <= set(before)
    assert not [name for name in temporary(store) if not name.endswith(".deleted")]
    assert latest(records(store.reopened(clean=False))) == latest(before)


def test_a_log_that_is_deleted_under_a_pass_ends_it_and_takes_nothing_offline(
    store: Store, log: PartitionLog, rng: random.Random
) -> None:
    fill(log, rng, 60)
    running = begin_pass(store, log)
    for _ in range(3):
        running.step()
    assert store.manager is not None
    store.manager.delete(("orders", 0))
    with pytest.raises(CleaningAbortedError):
        running.step()
    assert log.health.failure is None
    again = store.manager.create("orders", 0, log.topic_id, COMPACTED)
    running.close()
    assert (again.log_end_offset, records(again)) == (0, [])
    assert not temporary(store)


def test_a_disk_that_fails_takes_its_directory_offline_and_loses_nothing(
    store: Store, log: PartitionLog, rng: random.Random
) -> None:
    fill(log, rng, 60)
    before = latest(records(log))
    running = begin_pass(store, log)
    for _ in range(4):
        running.step()
    store.disk.error = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(KafkaStorageError, match="No space left"):
        finish(running)
    assert log.health.failure is not None
    store.disk.error = None
    log = store.reopened(clean=False)
    assert latest(records(log)) == before
    assert not temporary(store)


@pytest.mark.parametrize("damage", ["a bit", "the end", "the length", "an offset"])
def test_a_damaged_segment_is_left_as_it_is(store: Store, log: PartitionLog, rng: random.Random, damage: str) -> None:
    fill(log, rng, 60)
    path = log.segments[1].path
    data = bytearray(path.read_bytes())
    if damage == "a bit":
        data[100] ^= 4
    elif damage == "an offset":
        data[5] ^= 1
    elif damage == "the end":
        data[-1:] = b""
    else:
        data[8:12] = b"\0\0\0\1"
    path.write_bytes(data)
    running = begin_pass(store, log)
    with pytest.raises(CorruptRecordError):
        finish(running)
    assert path.read_bytes() == data
    assert not [name for name in temporary(store) if not name.endswith(".deleted")]
    assert log.health.failure is None


@pytest.mark.skipif(IMPLEMENTATION == "pure", reason="the pure twin makes the records of a batch at once")
def test_records_of_a_small_batch_that_are_very_many_are_not_all_in_memory(store: Store) -> None:
    import tracemalloc

    log = store.log(with_config(segment_bytes=1 << 24, max_message_bytes=1 << 24))
    put(log, *((b"k", None) for _ in range(40_000)), compression="zstd")
    log.roll()
    assert log.segments[0].size < 300_000
    tracemalloc.start()
    try:
        clean(store, log)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert records(log) == [Kept(39_999, b"k", None)]
    # Unpacked they are 1 MB; as objects all at once they would be far more.
    assert peak < 4_000_000
    assert len(batches(log)) == 1
