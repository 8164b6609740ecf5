"""What a flush covers, when the recovery point moves, and when the checkpoints are written."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from kclient.errors import KafkaStorageError
from refbroker.log import PartitionLog
from refbroker.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from tests.support.stores import SMALL, START_MS, TOPIC_ID, PowerlessStore, Store, append, read_all


def fill(log: PartitionLog, batches: int = 100) -> None:
    for _ in range(batches):
        append(log, 2, timestamp=START_MS + log.log_end_offset // 2)


def test_the_recovery_point_moves_when_the_disk_is_done(log: PartitionLog) -> None:
    append(log, 3)
    flush = log.begin_flush()
    append(log, 2)
    assert flush is not None
    flush.sync()
    assert log.recovery_point == 0
    log.finish_flush(flush)
    assert (log.recovery_point, log.unflushed_records) == (3, 2)


def test_a_segment_that_was_flushed_while_active_is_flushed_again_when_it_is_rolled(log: PartitionLog) -> None:
    append(log, 3)
    log.flush()
    assert log.begin_flush(up_to_active=True) is None
    log.roll()
    flush = log.begin_flush(up_to_active=True)
    assert flush is not None
    flush.sync()
    log.finish_flush(flush)
    assert log.begin_flush(up_to_active=True) is None
    assert log.recovery_point == 3


def test_what_is_rolled_during_a_flush_is_left_to_the_next(log: PartitionLog) -> None:
    append(log, 3)
    flush = log.begin_flush()
    log.roll()
    assert flush is not None
    flush.sync()
    log.finish_flush(flush)
    assert log.begin_flush(up_to_active=True) is not None


def test_a_log_that_cannot_be_flushed_does_not_keep_others_from_it(tmp_path: Path) -> None:
    store = PowerlessStore(tmp_path)
    manager = store.open(paths=[tmp_path / "a", tmp_path / "b"])
    for partition, directory in enumerate(manager.directories):
        log = manager.create("t", partition, TOPIC_ID, directory=directory)
        append(log)
        log.roll()
    store.power.spare_files.release()
    store.power.fail(path_prefix=tmp_path / "a", operation="open")
    [(log, flush)] = manager.pending_flushes(store.clock())
    assert (log.partition, flush.offset) == (1, 1)
    assert manager.online == manager.directories[1:]
    store.crash()


def test_a_log_that_is_deleted_while_others_are_flushed_is_passed_over(store: Store) -> None:
    manager = store.open()
    logs = [manager.create("t", partition, TOPIC_ID) for partition in range(3)]
    for log in logs:
        append(log)
        log.roll()
    flushed = []
    for log, _ in manager.pending_flushes(store.clock()):
        flushed.append(log)
        if log is logs[0]:
            manager.delete(("t", 1))
    assert flushed == [logs[0], logs[2]]
    assert manager.online


def test_a_log_is_due_when_flush_ms_have_passed(store: Store) -> None:
    log = store.log(dataclasses.replace(SMALL, flush_ms=500))
    append(log)
    assert store.manager is not None
    assert list(store.manager.pending_flushes(store.clock())) == []
    store.clock.step(500)
    [(due, flush)] = store.manager.pending_flushes(store.clock())
    assert (due, flush.offset) == (log, 1)
    flush.sync()
    log.finish_flush(flush)
    append(log)
    store.clock.step(499)
    assert list(store.manager.pending_flushes(store.clock())) == []
    store.clock.step(1)
    assert len(list(store.manager.pending_flushes(store.clock()))) == 1


def test_a_directory_is_made_durable_only_when_its_names_have_changed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = store.log()
    synced: list[Path] = []
    monkeypatch.setattr(store.disk, "fsync_directory", synced.append)

    def flushed() -> list[Path]:
        synced.clear()
        append(log)
        log.flush()
        return synced

    assert {log.directory, log.directory.parent} <= set(flushed())
    assert flushed() == []
    log.roll()
    assert log.directory in flushed()
    assert flushed() == []


@pytest.mark.parametrize("seed", range(12))
def test_a_flush_keeps_the_snapshot_of_producers_that_a_roll_wrote(tmp_path: Path, seed: int) -> None:
    store = PowerlessStore(tmp_path)
    log = store.log()
    append(log, 3, producer_id=7, producer_epoch=0, base_sequence=0)
    log.roll()
    append(log)
    snapshot = store.path / f"{3:020d}.snapshot"
    written = snapshot.read_bytes()
    log.flush()
    store.crash()
    store.power.lose_unflushed(seed)
    assert snapshot.read_bytes() == written


def test_a_roll_that_fails_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    store = PowerlessStore(tmp_path)
    log = store.log()
    append(log, 3)
    fault = store.power.fail(path_prefix=log.segments.active.file_path(".index"), operation="truncate")
    with pytest.raises(KafkaStorageError):
        log.roll()
    assert fault.fired
    assert log.segments.base_offsets == [0]
    assert not [
        path for path in store.path.iterdir() if path.name.startswith(f"{3:020d}") and path.suffix != ".snapshot"
    ]
    store.crash()


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_power_that_goes_after_a_clean_stop_takes_nothing(
    tmp_path: Path, seed: int, flushed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = PowerlessStore(tmp_path)
    fill(store.log())
    if flushed:
        # Of the active segment this omits the indexes.
        store.log().flush()
    before = read_all(store.log())
    store.close()
    store.power.lose_unflushed(seed)
    with caplog.at_level(logging.WARNING):
        log = store.log()
    assert read_all(log) == before
    assert log.offset_for_timestamp(START_MS + 99) == (198, START_MS + 99, 0)
    assert caplog.records == []
    store.crash()


@pytest.mark.parametrize("seed", range(12))
def test_power_that_goes_after_a_flush_takes_only_what_came_later(tmp_path: Path, seed: int) -> None:
    store = PowerlessStore(tmp_path)
    fill(store.log(), 60)
    store.log().flush()
    before = read_all(store.log())
    fill(store.log(), 40)
    store.crash()
    store.power.lose_unflushed(seed)
    assert read_all(store.log())[: len(before)] == before
    store.crash()


def roll(store: PowerlessStore) -> None:
    """Roll, and let the disk write the name of the new segment first."""
    store.log().roll()
    store.power.fsync_directory(store.path)


def flush_then_roll(store: PowerlessStore) -> None:
    store.log().flush()
    store.checkpoint()
    roll(store)


def flush_and_roll_before_the_checkpoint(store: PowerlessStore) -> None:
    store.log().flush()
    roll(store)
    store.checkpoint()


def roll_during_a_flush(store: PowerlessStore) -> None:
    flush = store.log().begin_flush()
    assert flush is not None
    roll(store)
    flush.sync()
    store.log().finish_flush(flush)
    store.checkpoint()


def recover_then_roll(store: PowerlessStore) -> None:
    """After a clean stop the recovery point is the log end, and a crash has the indexes created again."""
    store.close()
    store.log()
    store.crash()
    roll(store)


def lose_the_end_then_roll(store: PowerlessStore) -> None:
    """The disk has lost what it had flushed, so that the recovery point lies beyond what is written next."""
    store.close()
    for path in store.path.glob(f"{0:020d}.*"):
        path.write_bytes(b"")
    store.log()
    store.crash()
    fill(store.log(), 15)
    store.log().flush()
    roll(store)
    fill(store.log(), 10)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "work",
    [
        flush_then_roll,
        flush_and_roll_before_the_checkpoint,
        roll_during_a_flush,
        recover_then_roll,
        lose_the_end_then_roll,
    ],
)
def test_indexes_that_are_not_on_the_disk_are_created_again_although_the_records_are(
    tmp_path: Path, seed: int, work: Callable[[PowerlessStore], None]
) -> None:
    store = PowerlessStore(tmp_path)
    fill(store.log(), 10)
    store.close()
    fill(store.log(), 10)
    work(store)
    store.crash()
    store.power.lose_unflushed(seed)
    log = store.log()
    for batch in range(log.log_end_offset // 2):
        assert log.offset_for_timestamp(START_MS + batch) == (2 * batch, START_MS + batch, 0)
    store.crash()


def test_a_new_log_does_not_wait_for_the_disk_but_its_first_records_do(tmp_path: Path) -> None:
    store = PowerlessStore(tmp_path)
    store.open()
    store.power.fail(path_prefix=store.path, operation="fsync")
    log = store.log()
    with pytest.raises(KafkaStorageError, match="could not append"):
        append(log)
    store.crash()


@pytest.mark.parametrize("seed", range(12))
def test_there_are_no_records_without_the_id_of_their_topic(tmp_path: Path, seed: int) -> None:
    store = PowerlessStore(tmp_path)
    append(store.log())
    # The disk writes them by itself.
    store.power.fsync(store.log().segments.active.file)
    store.crash()
    store.power.lose_unflushed(seed)
    log = store.open().get("orders", 0)
    assert log is None or log.log_end_offset == 0 or log.topic_id == TOPIC_ID
    store.crash()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("clean", [True, False])
def test_a_new_log_is_flushed_by_the_next_flush_of_all_or_a_clean_stop(tmp_path: Path, seed: int, clean: bool) -> None:
    store = PowerlessStore(tmp_path)
    log = store.log()
    assert store.manager is not None
    if clean:
        store.close()
    else:
        [(due, flush)] = store.manager.pending_flushes(store.clock())
        assert due is log
        flush.sync()
        log.finish_flush(flush)
        assert list(store.manager.pending_flushes(store.clock())) == []
        store.crash()
    store.power.lose_unflushed(seed)
    found = store.open().get("orders", 0)
    assert found is not None
    assert found.topic_id == TOPIC_ID
    store.crash()


def test_only_changed_and_requested_checkpoints_are_written(store: Store) -> None:
    log = store.log()
    manager = store.manager
    assert manager is not None
    append(log, 4)
    manager.checkpoint()
    names = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)

    def inodes() -> dict[str, int]:
        return {name: (store.directory / name).stat().st_ino for name in names}

    before = inodes()
    manager.checkpoint()
    assert inodes() == before
    append(log)
    log.delete_records(2)
    log.flush()
    manager.checkpoint(LOG_START_OFFSETS)
    assert (store.directory / LOG_START_OFFSETS).read_text() == "0\n1\norders 0 2\n"
    assert (store.directory / RECOVERY_POINTS).read_text() == "0\n1\norders 0 0\n"
    manager.checkpoint()
    # One less than the log end, for as long as the indexes of the segment that ends do not exist on the disk.
    assert (store.directory / RECOVERY_POINTS).read_text() == "0\n1\norders 0 4\n"
    assert (store.directory / HIGH_WATERMARKS).read_text() == "0\n1\norders 0 5\n"
