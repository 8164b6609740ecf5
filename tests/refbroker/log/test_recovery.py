"""What a start makes of what it finds: clean stops are trusted, anything else is checked and repaired."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from refbroker.log import PartitionLog
from tests.support.stores import START_MS, Store, append, make_batch, read_all


def fill(log: PartitionLog, batches: int = 150) -> None:
    for number in range(batches):
        append(log, 2, timestamp=START_MS + number, epoch=number // 50)


def index_files(store: Store) -> dict[str, bytes]:
    return {path.name: path.read_bytes().rstrip(b"\0") for path in store.path.glob("*index")}


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_found_again(store: Store, clean: bool) -> None:
    log = store.log()
    fill(log)
    log.delete_records(33)
    before, segments, epochs = read_all(log), log.segments.base_offsets, log.epochs.entries
    if not clean and store.manager:
        store.manager.checkpoint()
    log = store.reopened(clean=clean)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (33, 300, 300)
    assert (log.segments.base_offsets, log.epochs.entries) == (segments, epochs)
    assert read_all(log) == before
    assert append(log).base_offset == 300


def test_a_clean_start_does_not_read_the_data(store: Store) -> None:
    fill(store.log())
    store.close()
    first = store.path / f"{0:020d}.log"
    first.write_bytes(b"\xff" * first.stat().st_size)
    assert store.log().log_end_offset == 300


def test_after_a_crash_only_what_lies_past_the_recovery_point_is_read(store: Store) -> None:
    log = store.log()
    fill(log, 100)
    log.flush()
    fill(log, 50)
    assert store.manager is not None
    store.manager.checkpoint()
    store.crash()
    first = store.path / f"{0:020d}.log"
    first.write_bytes(b"\xff" * first.stat().st_size)
    assert store.log().log_end_offset == 300


def test_producers_whose_records_were_all_deleted_are_not_recovered(store: Store) -> None:
    log = store.log()
    append(log, 3, producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, 3, producer_id=8, producer_epoch=0, base_sequence=0)
    log.roll()
    append(log, 3)
    log.delete_records(3)
    log.flush()
    assert store.manager is not None
    store.manager.checkpoint()
    store.crash()
    for path in store.path.glob("*.snapshot"):
        path.unlink()
    (store.directory / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    assert [producer.producer_id for producer in store.log().producers()] == [8]


def test_indexes_are_created_again_as_they_were(store: Store) -> None:
    fill(store.log())
    store.close()
    expected = index_files(store)
    (store.directory / ".kafka_cleanshutdown").unlink()
    (store.directory / "recovery-point-offset-checkpoint").unlink()
    for path in store.path.glob("*index"):
        path.write_bytes(b"\x7f" * 96)
    store.log()
    store.close()
    assert index_files(store) == expected


def test_a_missing_index_is_created_again_even_after_a_clean_stop(store: Store) -> None:
    log = store.log()
    fill(log)
    store.close()
    expected = index_files(store)
    for path in store.path.glob("*index"):
        path.unlink()
    log = store.log()
    assert read_all(log, 250)[0][0] == 250
    assert log.offset_for_timestamp(START_MS + 20) == (40, START_MS + 20, 0)
    store.close()
    assert index_files(store) == expected


def test_a_missing_time_index_is_created_again_even_after_a_clean_stop(store: Store) -> None:
    fill(store.log())
    store.close()
    expected = index_files(store)
    for path in store.path.glob("*.timeindex"):
        path.unlink()
    assert store.log().offset_for_timestamp(START_MS + 20) == (40, START_MS + 20, 0)
    store.close()
    assert index_files(store) == expected


GARBAGE = {
    "zeros": b"\0" * 500,
    "text": b"this is no batch at all, but long enough to look like the header of one" * 3,
    "half a batch": make_batch(2, base_offset=300)[:-10],
    "a header only": make_batch(2, base_offset=300)[:61],
    "a wrong checksum": make_batch(2, base_offset=300)[:-1] + b"\xff",
    "an offset that was": make_batch(2, base_offset=10),
    "a huge length": struct.pack(">qiib", 300, 2**31 - 1, 0, 2) + b"x" * 80,
    "a negative length": struct.pack(">qiib", 300, -5, 0, 2) + b"x" * 80,
    "an unknown format": struct.pack(">qiib", 300, 100, 0, 9) + b"x" * 120,
}


@pytest.mark.parametrize("what", GARBAGE)
def test_nonsense_at_the_end_is_cut_off(store: Store, what: str) -> None:
    log = store.log()
    fill(log)
    before = read_all(log)
    active = log.segments.active.path
    size = log.segments.active.size
    store.crash()
    with active.open("r+b") as file:
        file.seek(size)
        file.write(GARBAGE[what])
    log = store.log()
    assert (read_all(log), log.segments.active.size, active.stat().st_size) == (before, size, size)
    assert append(log, 2).base_offset == 300
    assert len(read_all(log)) == 302


def test_a_torn_tail_is_cut_at_the_last_whole_batch_wherever_it_is_torn(store: Store, rng: random.Random) -> None:
    log = store.log()
    fill(log, 10)
    size = len(make_batch(2))
    path = log.segments.active.path
    for kept in sorted(rng.sample(range(10 * size), 25), reverse=True):
        store.crash()
        with path.open("r+b") as file:
            file.truncate(kept)
        log = store.log()
        assert log.log_end_offset == kept // size * 2
        assert [offset for offset, _, _ in read_all(log)] == list(range(log.log_end_offset))


def test_damage_in_the_middle_ends_the_log_there_and_drops_later_segments(store: Store) -> None:
    log = store.log()
    fill(log)
    victim = log.segments[1]
    header = victim.find(victim.base_offset + 8)
    assert header is not None
    end = header.base_offset
    store.crash()
    with victim.path.open("r+b") as file:
        file.seek(header.position + 70)
        file.write(b"\xff\xff")
    log = store.log()
    assert log.log_end_offset == end
    assert log.segments.base_offsets == [0, victim.base_offset]
    assert max(log.epochs.entries).start_offset < end
    assert sorted(path.name for path in store.path.glob("*.log")) == [
        f"{base:020d}.log" for base in log.segments.base_offsets
    ]
    assert [offset for offset, _, _ in read_all(log)] == list(range(end))


def test_a_log_that_ends_before_its_start_starts_again_there(store: Store) -> None:
    log = store.log()
    fill(log, 20)
    log.delete_records(40)
    store.close()
    (store.directory / "log-start-offset-checkpoint").write_text("0\n1\norders 0 1000\n")
    log = store.log()
    assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (1000, 1000, [1000])
    assert append(log).base_offset == 1000


def test_files_that_belong_to_no_segment_are_removed(store: Store) -> None:
    fill(store.log(), 5)
    store.close()
    strays = [
        "00000000000000000077.index",
        "00000000000000000077.timeindex",
        "x.tmp",
        "00000000000000000000.log.deleted",
    ]
    for name in [*strays, "00000000000000000099.snapshot", "note.txt"]:
        (store.path / name).write_bytes(b"")
    store.log()
    left = {path.name for path in store.path.iterdir()}
    assert left.isdisjoint(strays)
    assert "note.txt" in left
    assert "00000000000000000099.snapshot" not in left


def test_an_empty_log_survives_every_kind_of_stop(store: Store) -> None:
    store.log()
    for clean in (True, False, True):
        log = store.reopened(clean=clean)
        assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (0, 0, 1)


def test_many_crashes_with_lost_tails_never_lose_what_was_flushed(tmp_path: Path, rng: random.Random) -> None:
    store = Store(tmp_path)
    log = store.log()
    for _ in range(40):
        for _ in range(rng.randrange(1, 30)):
            append(log, rng.randrange(1, 4), timestamp=START_MS + log.log_end_offset, size=rng.randrange(300))
        if rng.random() < 0.5:
            log.flush()
        flushed = read_all(log)[: log.recovery_point]
        if rng.random() < 0.5:
            assert store.manager is not None
            store.manager.checkpoint()
        active = log.segments.active
        # A recovery point that was left within a batch says that all of the batch is on the disk.
        last = active.find(log.recovery_point - 1) if log.recovery_point > active.base_offset else None
        keep_from = 0 if last is None else last.position + last.size_in_bytes
        size, path = active.size, active.path
        store.crash()
        with path.open("r+b") as file:
            kept = rng.randint(keep_from, size)
            file.truncate(kept)
            file.seek(kept)
            file.write(rng.randbytes(rng.choice([0, 0, 10, 300])))
        log = store.log()
        records = read_all(log)
        assert records[: len(flushed)] == flushed
        assert [offset for offset, _, _ in records] == list(range(log.log_end_offset))
        assert all(timestamp - START_MS <= offset for offset, timestamp, _ in records)
    store.crash()
