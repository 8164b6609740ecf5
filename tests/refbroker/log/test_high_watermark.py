"""The high watermark of a log: where it begins after a start, what moves it, and who is notified."""

from __future__ import annotations

import pytest

from refbroker.log import Isolation, LogManager, PartitionLog
from refbroker.log.checkpoints import HIGH_WATERMARKS
from refbroker.log.leader_epochs import LEADER_EPOCHS
from tests.support.stores import TOPIC_ID, PowerlessStore, Store, append


def reopen(store: Store, *, clean: bool) -> PartitionLog:
    """Open the logs again, without a leader; return the log of orders-0."""
    store.close() if clean else store.crash()
    log = store.open(kind=LogManager).get("orders", 0)
    assert log is not None
    return log


def test_an_append_alone_does_not_move_it(store: Store) -> None:
    log = store.open(kind=LogManager).create("orders", 0, TOPIC_ID)
    append(log, 3)
    assert (log.high_watermark, log.log_end_offset) == (0, 3)
    assert len(log.read(0, 1000).records) == 0
    assert len(log.read(0, 1000, isolation=Isolation.LOG_END).records) > 0


@pytest.mark.parametrize("clean", [True, False], ids=["stop", "crash"])
def test_after_a_restart_it_is_the_one_of_the_checkpoint(store: Store, clean: bool) -> None:
    log = store.log()
    append(log, 5)
    log.on_append.clear()
    append(log, 3)
    assert store.manager is not None
    store.manager.checkpoint()
    log = reopen(store, clean=clean)
    assert (log.high_watermark, log.log_end_offset) == (5, 8)


def test_without_a_checkpoint_it_is_the_log_start(store: Store) -> None:
    append(store.log(), 5)
    store.close()
    (store.directory / HIGH_WATERMARKS).unlink()
    log = store.open(kind=LogManager).get("orders", 0)
    assert log is not None
    assert (log.high_watermark, log.log_end_offset) == (0, 5)


@pytest.mark.parametrize(("checkpoint", "expected"), [(1, 2), (3, 3), (99, 5)], ids=["before", "within", "beyond"])
def test_a_checkpoint_outside_the_log_is_brought_within(store: Store, checkpoint: int, expected: int) -> None:
    log = store.log()
    append(log, 5)
    log.delete_records(2)
    store.close()
    (store.directory / HIGH_WATERMARKS).write_text(f"0\n1\norders 0 {checkpoint}\n")
    log = reopen(store, clean=False)
    assert (log.log_start_offset, log.high_watermark) == (2, expected)


@pytest.mark.parametrize("seed", range(5))
def test_after_a_power_failure_it_is_within_what_is_left(tmp_path: object, seed: int) -> None:
    store = PowerlessStore(tmp_path)  # type: ignore[arg-type]
    log = store.log()
    for _ in range(20):
        append(log, 2)
    store.checkpoint()
    for _ in range(20):
        append(log, 2)
    store.crash()
    store.power.lose_unflushed(seed)
    found = store.open(kind=LogManager).get("orders", 0)
    assert found is None or found.log_start_offset <= found.high_watermark <= found.log_end_offset
    store.crash()


def test_it_never_moves_back_and_never_beyond_the_log_end(store: Store) -> None:
    log = store.open(kind=LogManager).create("orders", 0, TOPIC_ID)
    append(log, 3)
    moves: list[int] = []
    log.on_high_watermark.append(lambda moved: moves.append(moved.high_watermark))
    for offset in (2, 1, 2, 9, 0):
        log.update_high_watermark(offset)
    assert moves == [2, 3]


def test_appends_are_notified_before_the_high_watermark_has_moved(store: Store) -> None:
    log = store.open(kind=LogManager).create("orders", 0, TOPIC_ID)
    order: list[tuple[str, int]] = []
    log.on_append.append(lambda appended: order.append(("append", appended.high_watermark)))
    log.on_append.append(PartitionLog.move_high_watermark_to_end)
    log.on_high_watermark.append(lambda moved: order.append(("high watermark", moved.high_watermark)))
    append(log, 3)
    assert order == [("append", 0), ("high watermark", 3)]


def test_a_follower_that_deletes_what_its_leader_deleted_moves_it_too(store: Store) -> None:
    log = store.open(kind=LogManager).create("orders", 0, TOPIC_ID)
    for _ in range(60):
        append(log, 2, size=50)
    assert len(log.segments) > 1
    log.delete_segments(log.segments.from_offset(0)[:1], "the leader has deleted it")
    assert log.high_watermark == log.log_start_offset == log.segments[0].base_offset > 0


def test_the_epoch_of_a_leader_without_records_needs_no_file(store: Store) -> None:
    log = store.log()
    append(log, 2, epoch=1)
    before = (store.path / LEADER_EPOCHS).read_text()
    log.begin_leader_epoch(4, save=False)
    assert (log.leader_epoch, log.end_offset_for_epoch(1), log.end_offset_for_epoch(4)) == (4, (1, 2), (4, 2))
    assert (store.path / LEADER_EPOCHS).read_text() == before
    append(log, 1, epoch=4)
    assert (store.path / LEADER_EPOCHS).read_text() == "0\n2\n1 0\n4 2\n"
