"""Truncation: the log is as if it had never had more, and nothing that is derived from it remembers more."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import IllegalStateError, KafkaStorageError
from kclient.records import ABORT, COMMIT, control_batch
from refbroker.dump.command import dump_files
from refbroker.dump.entries import DumpOptions
from refbroker.log import Isolation, LogManager, Origin, PartitionLog
from tests.support.stores import START_MS, Store, append, make_batch, read_all

BATCHES = 120
RECORDS = 2


def fill(log: PartitionLog, until: int = BATCHES * RECORDS) -> None:
    """Write batches of two records: plain, idempotent and in transactions, in several epochs and segments."""
    for number in range(BATCHES):
        offset = number * RECORDS
        if offset >= until:
            return
        epoch, kind, round_ = number // 40, number % 6, number // 6
        # Timestamps that go back now and then, so that the largest one is not the last.
        timestamp = START_MS + number - 7 * (number % 5 == 0)
        if kind == 5:
            end = control_batch(
                ABORT if round_ % 3 else COMMIT, producer_id=8, producer_epoch=0, coordinator_epoch=0,
                timestamp=timestamp, base_offset=offset, partition_leader_epoch=epoch,
            )  # fmt: skip
            write(log, end)
            write(log, batch(1, offset + 1, epoch, timestamp))
        elif kind in (2, 4):
            sequence = (round_ * 2 + (kind == 4)) * RECORDS
            write(log, batch(2, offset, epoch, timestamp, producer_id=8, base_sequence=sequence, is_transactional=True))
        elif kind == 3:
            write(log, batch(2, offset, epoch, timestamp, producer_id=7, base_sequence=round_ * RECORDS))
        else:
            write(log, batch(2, offset, epoch, timestamp))
    log.update_high_watermark(log.log_end_offset)


def batch(count: int, offset: int, epoch: int, timestamp: int, **header: Any) -> bytes:
    if "producer_id" in header:
        header["producer_epoch"] = 0
    return make_batch(count, base_offset=offset, partition_leader_epoch=epoch, timestamp=timestamp, **header)


def write(log: PartitionLog, data: bytes) -> None:
    log.append(data, leader_epoch=9, origin=Origin.REPLICATION, now_ms=START_MS)


def manager(store: Store) -> LogManager:
    assert store.manager is not None
    return store.manager


def contents(path: Path) -> dict[str, bytes]:
    """Return the files that a closed log leaves, without those that are to be removed, and empty optional ones."""
    files = {each.name: each.read_bytes() for each in sorted(path.iterdir()) if not each.name.endswith(".deleted")}
    return {name: data for name, data in files.items() if data not in (b"", b"0\n0\n") or name.endswith(".log")}


@pytest.mark.parametrize("offset", [0, 2, 100, 101, 102, 150, 151, 199, 238, 239])
def test_truncated_log_has_the_files_of_one_that_never_had_more(tmp_path: Path, offset: int) -> None:
    cut, short = Store(tmp_path / "cut"), Store(tmp_path / "short")
    log = cut.log()
    fill(log)
    assert len(log.segments) > 3
    assert manager(cut).truncate_to(log, offset)
    # The batch that contains the offset is removed completely.
    end = log.log_end_offset
    assert offset - 1 <= end <= offset
    expected = short.log()
    fill(expected, end)
    if expected.log_end_offset > end:
        manager(short).truncate_to(expected, end)
    assert read_all(log) == read_all(expected)
    assert log.epochs.entries == expected.epochs.entries
    assert {each.producer_id: each.last_sequence for each in log.producers()} == {
        each.producer_id: each.last_sequence for each in expected.producers()
    }
    assert log.last_stable_offset == expected.last_stable_offset
    cut.close()
    short.close()
    assert contents(cut.path) == contents(short.path)
    with contextlib.redirect_stdout(io.StringIO()):
        assert dump_files([cut.path], DumpOptions()) == 0


@pytest.mark.parametrize("offset", [0, 57, 100, 150, 239])
@pytest.mark.parametrize("clean", [True, False])
def test_truncated_log_continues_also_after_a_restart(store: Store, offset: int, clean: bool) -> None:
    log = store.log()
    fill(log)
    manager(store).truncate_to(log, offset)
    kept, end = read_all(log), log.log_end_offset
    for number in range(60):
        append(log, epoch=5, timestamp=START_MS + number)
    log.update_high_watermark(log.log_end_offset)
    after = read_all(log)
    assert after[: len(kept)] == kept
    log = store.reopened(clean=clean)
    log.update_high_watermark(log.log_end_offset)
    assert read_all(log) == after
    assert log.epochs.epoch_for_offset(end) == 5
    found = log.offset_for_timestamp(START_MS + 59)
    assert found is not None
    assert found.offset <= end + 59


def test_truncation_to_the_log_end_removes_an_epoch_without_records(store: Store) -> None:
    log = store.log()
    append(log, 3, epoch=1)
    log.begin_leader_epoch(4)
    assert not manager(store).truncate_to(log, 3)
    assert [entry.epoch for entry in log.epochs.entries] == [1]
    assert log.log_end_offset == 3


def test_everything_that_points_behind_the_end_moves_back(store: Store) -> None:
    log = store.log()
    fill(log)
    log.flush()
    log.cleaned_up_to = 200
    manager(store).checkpoint()
    manager(store).truncate_to(log, 100)
    assert (log.high_watermark, log.recovery_point, log.cleaned_up_to) == (100, 100, 100)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        written = int((store.directory / name).read_text().split()[-1])
        assert written <= 100, name


def test_aborted_transactions_behind_the_end_are_forgotten(store: Store) -> None:
    log = store.log()
    fill(log)
    before = log.read(0, 1 << 20, isolation=Isolation.READ_COMMITTED).aborted
    assert before
    manager(store).truncate_to(log, 21)
    log.update_high_watermark(log.log_end_offset)
    assert log.read(0, 1 << 20, isolation=Isolation.READ_COMMITTED).aborted == ()
    assert log.last_stable_offset == 16


def test_range_of_records_that_were_removed_cannot_be_read(store: Store) -> None:
    log = store.log()
    append(log, 3)
    append(log, 3, size=200)
    log.update_high_watermark(6)
    found = log.read(0, 1 << 20).records
    manager(store).truncate_to(log, 3)
    with pytest.raises(KafkaStorageError, match="it was truncated"):
        found.read()


def test_flush_that_began_before_does_not_count_afterwards(store: Store) -> None:
    log = store.log()
    fill(log)
    flush = log.begin_flush()
    assert flush is not None
    flush.sync()
    manager(store).truncate_to(log, 100)
    append(log, 5, epoch=5)
    log.finish_flush(flush)
    assert log.recovery_point == 100
    log.flush()
    assert log.recovery_point == 105


def test_log_that_is_being_compacted_is_not_truncated(store: Store) -> None:
    log = store.log()
    fill(log)
    log.being_cleaned = True
    with pytest.raises(IllegalStateError, match="being compacted"):
        manager(store).truncate_to(log, 3)
    assert log.log_end_offset == BATCHES * RECORDS


def test_truncation_below_the_log_start_moves_it(store: Store) -> None:
    log = store.log()
    fill(log)
    log.delete_records(101)
    manager(store).truncate_to(log, 60)
    assert (log.log_start_offset, log.log_end_offset) == (60, 60)


@pytest.mark.parametrize("start", [0, 77, 240, 1000])
@pytest.mark.parametrize("clean", [True, False])
def test_emptied_log_starts_at_its_new_offset(store: Store, start: int, clean: bool) -> None:
    log = store.log()
    fill(log)
    manager(store).truncate_fully_and_start_at(log, start)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (start, start, start)
    assert log.epochs.entries == ()
    assert log.producers() == []
    assert log.segments.base_offsets == [start]
    log = store.reopened(clean=clean)
    assert (log.log_start_offset, log.log_end_offset) == (start, start)
    assert append(log, 3, epoch=6).base_offset == start
    log = store.reopened(clean=clean)
    assert (log.log_start_offset, log.log_end_offset) == (start, start + 3)


def test_truncation_below_the_first_segment_empties_the_log(store: Store) -> None:
    log = store.log()
    fill(log)
    log.delete_records(150)
    log.delete_segments([each for each in log.segments if each.base_offset < 120][:-1], "they lie before the log start")
    assert log.segments.base_offsets[0] > 0
    manager(store).truncate_to(log, 1)
    assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (1, 1, [1])


def test_future_log_can_be_truncated(store: Store, tmp_path: Path) -> None:
    other = tmp_path / "other"
    store.open(paths=[store.directory, other])
    log = store.log()
    append(log, 3)
    future = manager(store).create_future(log, manager(store).directories[1], 0)
    append(future, 3)
    assert manager(store).truncate_to(future, 1)
    assert (future.log_end_offset, log.log_end_offset) == (0, 3)
