"""The index of aborted transactions: its bytes, what overlaps a fetch, and that it follows the log."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kclient.records import ABORT, COMMIT, control_batch
from refbroker.log import Files, Isolation, Origin, PartitionLog
from refbroker.log.transaction_index import AbortedTransaction, TransactionIndex
from tests.support.stores import START_MS, Store, append, make_batch

ONE = AbortedTransaction(7, 100, 150, 120)
TWO = AbortedTransaction(8, 120, 200, 180)
THREE = AbortedTransaction(7, 180, 300, 301)


def index_with(path: Path, *entries: AbortedTransaction) -> TransactionIndex:
    index = TransactionIndex(Files(), path)
    for entry in entries:
        index.append(entry)
    return index


def test_the_file_is_made_with_the_first_entry(tmp_path: Path) -> None:
    index = index_with(tmp_path / "t")
    assert not index.path.exists()
    index.append(ONE)
    assert index.path.read_bytes() == struct.pack(">hqqqq", 0, 7, 100, 150, 120)
    index.append(TWO)
    assert list(index_with(index.path).entries()) == [ONE, TWO]


@pytest.mark.parametrize(
    ("start", "end", "found", "complete"),
    [
        (0, 100, [], True),
        (0, 101, [ONE], True),
        (0, 121, [ONE, TWO], True),
        (150, 160, [ONE, TWO], True),
        (151, 160, [TWO], True),
        (201, 302, [THREE], False),
        (301, 400, [], False),
    ],
)
def test_a_fetch_gets_the_transactions_that_overlap_it(
    tmp_path: Path, start: int, end: int, found: list[AbortedTransaction], complete: bool
) -> None:
    assert index_with(tmp_path / "t", ONE, TWO, THREE).overlapping(start, end) == (found, complete)


def test_it_is_cut_by_the_markers(tmp_path: Path) -> None:
    index = index_with(tmp_path / "t", ONE, TWO, THREE)
    index.truncate_to(200)
    assert list(index.entries()) == list(index_with(index.path).entries()) == [ONE]
    index.append(THREE)
    assert list(index.entries()) == [ONE, THREE]


@pytest.mark.parametrize(
    "data",
    [b"short", struct.pack(">hqqqq", 1, *ONE), struct.pack(">hqqqq", 0, *TWO) + struct.pack(">hqqqq", 0, *ONE)],
    ids=["short", "unknown version", "wrong order"],
)
def test_a_file_that_is_no_transaction_index_is_recognised(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "t").write_bytes(data)
    assert not index_with(tmp_path / "t").is_sane(0)
    assert index_with(tmp_path / "u", ONE, TWO).is_sane(0)
    assert not index_with(tmp_path / "u").is_sane(151)


def test_many_entries_are_read_in_pieces(tmp_path: Path) -> None:
    entries = [AbortedTransaction(n, 10 * n, 10 * n + 5, 10 * n + 6) for n in range(1000)]
    assert list(index_with(tmp_path / "t", *entries).entries()) == entries


# In a log. What a transaction's records and markers are here is stored as a replica would.


def write(log: PartitionLog, producer: int, count: int = 1, *, size: int = 20) -> int:
    """Records of an open transaction; the offset of the first."""
    sequence = 1 + max((p.last_sequence for p in log.producers() if p.producer_id == producer), default=-1)
    batch = make_batch(
        count, size=size, base_offset=log.log_end_offset, producer_id=producer, producer_epoch=0,
        base_sequence=sequence, is_transactional=True, partition_leader_epoch=0,
    )  # fmt: skip
    return log.append(batch, leader_epoch=0, origin=Origin.REPLICATION, now_ms=START_MS).base_offset


def end(log: PartitionLog, producer: int, control: int) -> int:
    marker = control_batch(
        control, producer_id=producer, producer_epoch=0, coordinator_epoch=3, timestamp=START_MS,
        base_offset=log.log_end_offset, partition_leader_epoch=0,
    )  # fmt: skip
    return log.append(marker, leader_epoch=0, origin=Origin.REPLICATION, now_ms=START_MS).base_offset


def aborted(log: PartitionLog) -> list[AbortedTransaction]:
    return [entry for segment in log.segments for entry in segment.transaction_index.entries()]


def some_transactions(log: PartitionLog) -> list[AbortedTransaction]:
    """Transactions that overlap, over several segments; those that were aborted."""
    expected = []
    for _ in range(4):
        first_a, first_b = write(log, 1, 2), write(log, 2, 3, size=400)
        end(log, 3, ABORT)
        marker = end(log, 1, ABORT)
        expected.append(AbortedTransaction(1, first_a, marker, first_b))
        write(log, 2, 5, size=400)
        first_a = write(log, 1)
        marker = end(log, 2, ABORT)
        expected.append(AbortedTransaction(2, first_b, marker, first_a))
        end(log, 1, COMMIT)
        append(log, 2, size=300)
    assert len(log.segments) > 3
    return expected


def test_abort_markers_fill_it_and_commits_and_empty_transactions_do_not(log: PartitionLog) -> None:
    assert aborted(log) == []
    expected = some_transactions(log)
    assert aborted(log) == expected
    assert log.last_stable_offset == log.log_end_offset
    first = write(log, 9)
    append(log)
    assert log.last_stable_offset == first


def test_a_committed_reader_receives_every_aborted_transaction_of_its_records(log: PartitionLog) -> None:
    expected = some_transactions(log)
    for offset in range(log.log_end_offset):
        slice_ = log.read(offset, 1, isolation=Isolation.READ_COMMITTED)
        assert slice_.aborted is not None
        overlapping = {(e.producer_id, e.first_offset) for e in expected if e.first_offset <= offset <= e.last_offset}
        assert overlapping <= set(slice_.aborted)
        assert len(slice_.aborted) <= 3
    whole = log.read(0, 1 << 20, isolation=Isolation.READ_COMMITTED)
    in_first = [e for e in expected if e.first_offset < log.segments[1].base_offset]
    assert whole.aborted is not None
    assert list(whole.aborted) == [(e.producer_id, e.first_offset) for e in in_first]
    assert log.read(0, 1 << 20).aborted is None


def test_a_committed_reader_stops_before_the_first_open_transaction(log: PartitionLog) -> None:
    append(log, 3)
    write(log, 1)
    append(log, 3)
    slice_ = log.read(0, 1 << 20, isolation=Isolation.READ_COMMITTED)
    assert (slice_.last_stable_offset, slice_.aborted) == (3, ())
    assert len(slice_.records) == len(make_batch(3))
    nothing = log.read(5, 1 << 20, isolation=Isolation.READ_COMMITTED)
    assert (len(nothing.records), nothing.aborted) == (0, ())
    end(log, 1, ABORT)
    assert log.read(0, 1 << 20, isolation=Isolation.READ_COMMITTED).aborted == ((1, 3),)


@pytest.mark.parametrize(
    ("clean", "lost"),
    [
        (True, ""),
        (False, ""),
        # That one is missing altogether cannot be seen: most segments have none.
        (False, "*.txnindex"),
        (False, "*.snapshot"),
        (True, "*.index"),
    ],
)
def test_it_is_the_same_after_a_restart_whatever_was_lost(store: Store, clean: bool, lost: str) -> None:
    log = store.log()
    expected = some_transactions(log)
    first = write(log, 5)
    end(log, 6, ABORT)
    store.close() if clean else store.crash()
    for path in store.path.glob(lost) if lost else ():
        path.unlink()
    log = store.log()
    assert aborted(log) == expected
    assert log.last_stable_offset == first


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_one_is_created_again(store: Store, clean: bool) -> None:
    log = store.log()
    expected = some_transactions(log)
    store.close() if clean else store.crash()
    path = min(store.path.glob("*.txnindex"))
    path.write_bytes(path.read_bytes()[:-7])
    assert aborted(store.log()) == expected


def test_what_is_cut_off_the_log_is_not_in_the_index(store: Store) -> None:
    log = store.log()
    write(log, 1)
    marker = end(log, 1, ABORT)
    write(log, 1)
    end(log, 1, ABORT)
    header = log.segments.active.find(marker + 2)
    assert header is not None
    path = log.segments.active.path
    store.crash()
    with path.open("r+b") as file:
        file.truncate(header.position)
    log = store.log()
    assert aborted(log) == [AbortedTransaction(1, 0, marker, marker + 1)]
    assert log.last_stable_offset == marker + 1


@pytest.mark.parametrize("restart", [False, True])
def test_the_last_stable_offset_is_not_before_the_log_start(store: Store, restart: bool) -> None:
    log = store.log()
    write(log, 1, 3)
    append(log, 3)
    log.delete_records(4)
    if restart:
        log = store.reopened()
    assert (log.log_start_offset, log.last_stable_offset, log.log_end_offset) == (4, 4, 6)
    slice_ = log.read(4, 1 << 20, isolation=Isolation.READ_COMMITTED)
    assert (len(slice_.records), slice_.last_stable_offset) == (0, 4)
    marker = end(log, 1, ABORT)
    assert log.last_stable_offset == marker + 1
