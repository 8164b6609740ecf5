"""What a log forgets: by time, by size, by its start; and what happens to the files."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from pathlib import Path

import pytest

from kclient.errors import OffsetOutOfRangeError
from kclient.records import assign_offsets
from refbroker.log import LogConfig, Origin, PartitionLog
from refbroker.log.retention import before_log_start, beyond_size, delete_old_segments, expired
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.stores import SMALL, START_MS, TOPIC_ID, Store, append, make_batch, read_all

DAY_MS = 86_400_000
KEEP = dataclasses.replace(SMALL, retention_ms=-1)


def replicate(log: PartitionLog, base_offset: int) -> None:
    """Append one record at an offset, as a follower does."""
    batch = bytearray(make_batch())
    assign_offsets(batch, base_offset, 0)
    log.append(batch, leader_epoch=0, origin=Origin.REPLICATION, now_ms=START_MS)


def segments_of(log: PartitionLog, count: int, *, per_segment: int = 10, step_ms: int = 0) -> None:
    """Fill so many segments, each `step_ms` younger than the one before, and leave an empty active one."""
    for number in range(count):
        append(log, per_segment, timestamp=START_MS + number * step_ms)
        log.roll()


def suffixes(path: Path) -> dict[str, list[str]]:
    """The files by what follows the base offset."""
    found: dict[str, list[str]] = {}
    for name in sorted(os.listdir(path)):
        stem, _, suffix = name.partition(".")
        found.setdefault(suffix, []).append(stem)
    return found


def test_segments_that_end_before_the_log_start_go(store: Store) -> None:
    log = store.log(KEEP)
    for last_offset in (3257572, 6506250, 9751853):
        replicate(log, last_offset)
        log.roll()
    assert log.segments.base_offsets == [0, 3257573, 6506251, 9751854]
    log.delete_records(7421048)
    assert [segment.base_offset for segment in before_log_start(log)] == [0, 3257573]
    assert delete_old_segments(log, START_MS) == 2
    assert log.segments.base_offsets == [6506251, 9751854]
    assert log.log_start_offset == 7421048


def test_the_log_start_counts_for_a_compacted_log_too_but_neither_time_nor_size_do(store: Store) -> None:
    log = store.log(dataclasses.replace(SMALL, cleanup_policy=("compact",), retention_ms=1, retention_bytes=1))
    segments_of(log, 3)
    log.delete_records(12)
    assert delete_old_segments(log, START_MS + DAY_MS) == 1
    assert log.segments.base_offsets == [10, 20, 30]


@pytest.mark.parametrize("policy", [("delete",), ("compact", "delete")])
def test_what_is_older_than_the_limit_goes(store: Store, policy: tuple[str, ...]) -> None:
    log = store.log(dataclasses.replace(SMALL, cleanup_policy=policy, retention_ms=DAY_MS))
    segments_of(log, 4, step_ms=1000)
    assert not expired(log, START_MS + DAY_MS)
    assert delete_old_segments(log, START_MS + DAY_MS + 1) == 1
    assert delete_old_segments(log, START_MS + DAY_MS + 2001) == 2
    assert log.segments.base_offsets == [30, 40]
    assert log.log_start_offset == 30
    with pytest.raises(OffsetOutOfRangeError):
        log.read(29, 100)


def test_a_segment_is_as_recent_as_its_latest_record(store: Store) -> None:
    config = dataclasses.replace(SMALL, retention_ms=DAY_MS)
    log = store.log(config)
    append(log, 1, timestamp=START_MS + 5000)
    append(log, 1, timestamp=START_MS)
    log.roll()
    append(log, 1, timestamp=START_MS - 5 * DAY_MS)
    log.roll()
    assert not delete_old_segments(log, START_MS + DAY_MS + 5000)
    # The second one is far older, but only the oldest segments go.
    store.close()
    log = store.log(config)
    assert delete_old_segments(log, START_MS + DAY_MS + 5001) == 2


def test_without_timestamps_the_files_time_counts(store: Store) -> None:
    log = store.log(dataclasses.replace(SMALL, retention_ms=DAY_MS))
    append(log, 3, timestamp=-1)
    log.roll()
    written_ms = START_MS - DAY_MS
    os.utime(log.segments[0].path, ns=(written_ms * 1_000_000, written_ms * 1_000_000))
    assert not expired(log, START_MS)
    assert [segment.base_offset for segment in expired(log, START_MS + 1)] == [0]


def test_when_everything_is_too_old_a_new_segment_is_rolled_first(store: Store) -> None:
    log = store.log(dataclasses.replace(SMALL, retention_ms=DAY_MS))
    append(log, 7)
    assert delete_old_segments(log, START_MS + DAY_MS + 1) == 1
    assert log.segments.base_offsets == [7]
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    assert not delete_old_segments(log, START_MS + 9 * DAY_MS), "an empty active segment stays"
    append(log, 2)
    assert read_all(log)[0][0] == 7


def test_what_goes_and_why_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "refbroker.log")
    log = store.log(dataclasses.replace(SMALL, retention_ms=DAY_MS))
    segments_of(log, 2)
    assert delete_old_segments(log, START_MS + DAY_MS + 1) == 2
    told = f"Deleting the segments [0, 10] of {log.topic}-{log.partition}, since they are older than {DAY_MS} ms"
    assert told in caplog.messages


def test_timestamps_in_the_future_keep_a_segment(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    log = store.log(dataclasses.replace(SMALL, retention_ms=0))
    append(log, 1, timestamp=START_MS + 1000)
    log.roll()
    assert not delete_old_segments(log, START_MS)
    assert "in the future" in caplog.text


def test_the_oldest_go_while_what_is_over_the_limit_covers_a_whole_segment(store: Store) -> None:
    log = store.log(KEEP)
    segments_of(log, 4)
    size = log.segments[0].size
    for limit, gone in ((4 * size, 0), (3 * size + 1, 0), (3 * size, 1), (2 * size + 1, 1), (2 * size, 2), (0, 4)):
        log.update_config(dataclasses.replace(KEEP, retention_bytes=limit))
        assert len(beyond_size(log)) == gone, limit
    assert delete_old_segments(log, START_MS) == 4
    assert log.segments.base_offsets == [40]


def test_nothing_beyond_the_high_watermark_goes(store: Store) -> None:
    log = store.log(dataclasses.replace(SMALL, retention_bytes=0))
    log.on_append.clear()
    segments_of(log, 3)
    log.update_high_watermark(19)
    assert delete_old_segments(log, START_MS) == 1
    log.update_high_watermark(20)
    assert delete_old_segments(log, START_MS) == 1
    assert log.log_start_offset == 20


def test_with_no_policy_everything_stays(store: Store) -> None:
    log = store.log(LogConfig(cleanup_policy=(), retention_ms=0, retention_bytes=0))
    segments_of(log, 2)
    assert not delete_old_segments(log, START_MS + DAY_MS)


async def test_files_are_renamed_at_once_and_removed_after_the_delay(store: Store) -> None:
    log = store.log(dataclasses.replace(SMALL, retention_bytes=0, file_delete_delay_ms=500))
    segments_of(log, 2)
    manager = store.manager
    assert manager is not None
    await manager.apply_retention()
    files = suffixes(store.path)
    old = ["00000000000000000000", "00000000000000000010"]
    assert files["log.deleted"] == files["index.deleted"] == files["timeindex.deleted"] == old
    assert files["snapshot.deleted"] == ["00000000000000000010"]
    assert files["log"] == files["snapshot"] == ["00000000000000000020"]
    store.clock.step(499)
    await manager.delete_due_files()
    assert suffixes(store.path) == files
    store.clock.step(1)
    await manager.delete_due_files()
    assert not [suffix for suffix in suffixes(store.path) if "deleted" in suffix]


async def test_who_reads_a_deleted_segment_can_finish(store: Store) -> None:
    log = store.log(dataclasses.replace(SMALL, retention_bytes=0))
    append(log, 10)
    held = log.read(0, 10_000).records
    expected = held.read()
    manager = store.manager
    assert manager is not None
    await manager.apply_retention()
    assert held.read() == expected
    store.clock.step(DAY_MS)
    await manager.delete_due_files()
    assert not list(store.path.glob("*.deleted"))
    assert held.read() == expected


def test_a_crash_before_the_files_are_removed_leaves_nothing_of_them(store: Store) -> None:
    log = store.log(dataclasses.replace(SMALL, retention_bytes=0))
    segments_of(log, 2)
    append(log, 5)
    delete_old_segments(log, START_MS)
    log = store.reopened(clean=False)
    assert log.log_start_offset == 25
    assert not list(store.path.glob("*.deleted"))


async def test_a_log_that_is_being_compacted_waits_for_its_turn(store: Store) -> None:
    log = store.log(dataclasses.replace(SMALL, retention_bytes=0))
    segments_of(log, 2)
    manager = store.manager
    assert manager is not None
    log.being_cleaned = True
    await manager.apply_retention()
    assert log.log_start_offset == 0
    log.being_cleaned = False
    await manager.apply_retention()
    assert log.log_start_offset == 20


async def test_other_work_has_its_turn_while_many_segments_are_deleted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refbroker.log.manager.SEGMENTS_IN_A_ROW", 2)
    log = store.log(dataclasses.replace(SMALL, retention_bytes=0))
    segments_of(log, 5)
    manager = store.manager
    assert manager is not None
    left: list[int] = []
    task = asyncio.create_task(manager.apply_retention())
    while not task.done():
        await asyncio.sleep(0)
        left.append(len(log.segments))
    assert left[:3] == [4, 2, 1]
    assert manager.segments_deleted == 5


async def test_records_that_come_during_a_round_are_not_of_the_future(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("refbroker.log.manager.SEGMENTS_IN_A_ROW", 1)
    log = store.log(dataclasses.replace(SMALL, retention_ms=DAY_MS))
    segments_of(log, 2)
    store.clock.step(DAY_MS + 1)
    manager = store.manager
    assert manager is not None
    task = asyncio.create_task(manager.apply_retention())
    await asyncio.sleep(0)
    store.clock.step(1)
    append(log, 1, timestamp=store.clock())
    await task
    assert log.segments.base_offsets == [20]
    assert not caplog.records


async def test_retention_releases_a_log_that_is_deleted_or_compacted_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("refbroker.log.manager.SEGMENTS_IN_A_ROW", 1)
    log = store.log(dataclasses.replace(SMALL, retention_bytes=0))
    segments_of(log, 5)
    manager = store.manager
    assert manager is not None
    task = asyncio.create_task(manager.apply_retention())
    await asyncio.sleep(0)
    log.being_cleaned = True
    await task
    assert len(log.segments) == 5
    log.being_cleaned = False
    task = asyncio.create_task(manager.apply_retention())
    await asyncio.sleep(0)
    manager.delete(("orders", 0))
    await task
    assert not caplog.records


async def test_a_disk_that_fails_while_files_are_removed_takes_its_directory_offline(store: Store) -> None:
    log = store.log(dataclasses.replace(SMALL, retention_bytes=0, file_delete_delay_ms=0))
    segments_of(log, 2)
    manager = store.manager
    assert manager is not None
    await manager.apply_retention()

    def fail(path: Path) -> None:
        raise OSError(5, "Input/output error")

    store.disk.unlink = fail  # type: ignore[method-assign]
    await asyncio.wait_for(manager.delete_due_files(), 10)
    assert log.health.failure is not None


async def test_a_log_with_unreadable_indexes_does_not_keep_others_open(tmp_path: Path) -> None:
    store, disk = Store(tmp_path), SimulatedDisk()
    store.disk = disk  # type: ignore[assignment]
    config = dataclasses.replace(SMALL, retention_ms=DAY_MS)
    manager = store.open(config, paths=[tmp_path / "a", tmp_path / "b"])
    for partition, directory in enumerate(manager.directories):
        segments_of(manager.create("t", partition, TOPIC_ID, directory=directory), 3)
    manager.close()
    manager = store.open(config, paths=[tmp_path / "a", tmp_path / "b"])
    disk.fail(path_prefix=tmp_path / "a", operation="open")
    store.clock.step(2 * DAY_MS)
    await manager.apply_retention()
    assert manager.online == manager.directories[1:]
    [left] = [log.segments.base_offsets for log in manager.logs() if log.health.failure is None]
    assert left == [30]
    store.crash()
