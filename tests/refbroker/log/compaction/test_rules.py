"""What stays of a log, and in which bytes."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import CorruptRecordError
from kclient.records import BatchHeader, batch_headers, read_batches
from refbroker.log import PartitionLog
from refbroker.log.compaction.filtering import BatchFilter, records_of
from refbroker.log.compaction.offset_map import OffsetMap
from refbroker.log.compaction.transactions import CleanedTransactions
from tests.support.golden_data import golden_rows
from tests.support.stores import START_MS, Store
from tests.support.workshop import (
    COMPACTED,
    DELETE_RETENTION_MS,
    Kept,
    batches,
    clean,
    end_transaction,
    file_names,
    markers,
    put,
    records,
    with_config,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def log(store: Store) -> PartitionLog:
    return store.log(COMPACTED)


def test_the_last_record_of_each_key_stays_where_it_was(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"c", b"1"), (b"b", b"2"))
    log.roll()
    put(log, (b"a", b"3"))
    clean(store, log)
    # What lies in the active segment is not looked at.
    assert records(log) == [Kept(2, b"a", b"2"), Kept(3, b"c", b"1"), Kept(4, b"b", b"2"), Kept(5, b"a", b"3")]
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)


def test_a_later_record_in_the_dirty_part_removes_one_of_the_clean_part(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.roll()
    assert clean(store, log).end_offset == 2
    put(log, (b"a", b"2"))
    log.roll()
    stats = clean(store, log)
    assert (stats.first_dirty_offset, stats.end_offset, stats.map_records) == (2, 3, 1)
    assert records(log) == [Kept(1, b"b", b"1"), Kept(2, b"a", b"2")]


@pytest.mark.parametrize("compression", CODECS)
def test_a_batch_of_which_nothing_goes_is_copied_byte_for_byte(
    store: Store, log: PartitionLog, compression: str
) -> None:
    put(log, (b"a", b"1" * 100), (b"b", b"2" * 100), compression=compression, producer=(7, 1, 0), epoch=3)
    log.roll()
    before = [bytes(header.raw) for header in batches(log)]
    stats = clean(store, log)
    assert [bytes(header.raw) for header in batches(log)] == before
    assert stats.map_bytes_read == stats.bytes_read == stats.bytes_written == len(before[0])


@pytest.mark.parametrize("compression", CODECS)
def test_a_batch_that_loses_records_keeps_everything_else(store: Store, log: PartitionLog, compression: str) -> None:
    put(log, (b"z", b"0"), epoch=2)
    put(
        log,
        *((key, b"v" * 50) for key in (b"a", b"b", b"c", b"a", b"d")),
        timestamp=START_MS + 5,
        compression=compression,
        producer=(7, 3, 0),
        epoch=4,
    )
    put(log, (b"d", b"later"), epoch=4)
    log.roll()
    before = batches(log)[1]
    clean(store, log)
    after = batches(log)[1]
    assert after.is_valid()
    assert [(r.offset, r.timestamp, r.key, r.headers) for b in read_batches(after.raw) for r in b.records()] == [
        (2, START_MS + 6, b"b", (("number", b"1"),)),
        (3, START_MS + 7, b"c", (("number", b"2"),)),
        (4, START_MS + 8, b"a", (("number", b"3"),)),
    ]
    for name in (
        "base_offset", "last_offset", "partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence",
        "last_sequence", "compression_type", "timestamp_type", "is_transactional", "is_control",
    ):  # fmt: skip
        assert getattr(after, name) == getattr(before, name), name
    assert (after.record_count, after.base_timestamp, after.max_timestamp) == (3, START_MS + 6, START_MS + 8)


def test_append_times_stay_what_they_were(store: Store) -> None:
    log = store.log(with_config(message_timestamp_type="LogAppendTime"))
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), timestamp=5, now_ms=START_MS + 77)
    put(log, (b"a", b"2"), timestamp=5, now_ms=START_MS + 99)
    log.roll()
    clean(store, log)
    header = batches(log)[0]
    assert header.timestamp_type == 1
    assert [record.timestamp for batch in read_batches(header.raw) for record in batch.records()] == [START_MS + 77] * 2


def test_records_without_key_go_and_are_counted(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (None, b"no key"), (b"", b"an empty key is one"))
    log.roll()
    assert clean(store, log).records_invalid == 1
    assert records(log) == [Kept(0, b"a", b"1"), Kept(2, b"", b"an empty key is one")]


# Tombstones


def test_a_tombstone_stays_until_its_delete_horizon(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", None), (b"b", b"1"), timestamp=START_MS + 3)
    log.roll()
    clean(store, log)
    [header] = [header for header in batches(log) if header.record_count]
    assert header.has_delete_horizon
    assert header.base_timestamp == START_MS + DELETE_RETENTION_MS
    # The times of the records are distinguished from the horizon now, and are the same.
    assert [record.timestamp for batch in read_batches(header.raw) for record in batch.records()] == [
        START_MS + 3,
        START_MS + 4,
    ]
    store.clock.step(DELETE_RETENTION_MS - 1)
    clean_again(store, log)
    assert [kept.key for kept in records(log)] == [b"a", b"b", b"filler"]
    assert batches(log)[0].base_timestamp == START_MS + DELETE_RETENTION_MS
    store.clock.step(1)
    clean_again(store, log)
    assert [kept.key for kept in records(log)] == [b"b", b"filler"]
    assert batches(log)[0].has_delete_horizon


def clean_again(store: Store, log: PartitionLog) -> None:
    """A pass over the whole log, which needs something dirty."""
    put(log, (b"filler", b"x"))
    log.roll()
    clean(store, log)


def test_a_tombstone_that_is_not_the_last_of_its_key_goes_at_once(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", None), (b"b", b"1"))
    put(log, (b"a", b"back"))
    log.roll()
    clean(store, log)
    assert records(log) == [Kept(1, b"b", b"1"), Kept(2, b"a", b"back")]
    assert not any(header.has_delete_horizon for header in batches(log))


def test_a_new_delete_retention_does_not_move_a_horizon_that_is_set(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", None))
    log.roll()
    clean(store, log)
    log.update_config(with_config(delete_retention_ms=10**9))
    clean_again(store, log)
    assert batches(log)[0].base_timestamp == START_MS + DELETE_RETENTION_MS


# Producers


def test_the_batch_with_a_producers_last_sequence_stays_as_a_header(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"), producer=(7, 0, 0), compression="zstd", epoch=1)
    put(log, (b"a", b"3"), (b"b", b"3"), producer=(7, 0, 2), compression="zstd", epoch=1)
    put(log, (b"a", b"4"), (b"b", b"4"), epoch=2)
    log.roll()
    before, producers = batches(log)[1], log.producers()
    clean(store, log)
    first, second = batches(log)
    assert (first.size_in_bytes, first.record_count, first.compression_type) == (61, 0, "none")
    for name in (
        "base_offset", "last_offset", "partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence",
        "last_sequence", "max_timestamp",
    ):  # fmt: skip
        assert getattr(first, name) == getattr(before, name), name
    assert second.base_offset == 4
    assert log.producers() == producers


def test_a_retry_is_known_as_one_after_compaction_and_a_restart_without_snapshots(
    store: Store, log: PartitionLog
) -> None:
    put(log, (b"a", b"1"), producer=(7, 0, 0))
    put(log, (b"a", b"2"), (b"a", b"3"), producer=(7, 0, 1))
    put(log, (b"a", b"4"))
    log.roll()
    put(log, (b"x", b"1"))
    clean(store, log)
    for _ in range(2):
        again = put(log, (b"a", b"2"), (b"a", b"3"), producer=(7, 0, 1))
        assert again.duplicate
        assert (again.base_offset, again.last_offset) == (1, 2)
        store.crash()
        for name in file_names(store):
            if name.endswith(".snapshot"):
                store.disk.unlink(store.path / name)
        log = store.log(COMPACTED)
    assert not put(log, (b"a", b"5"), producer=(7, 0, 3)).duplicate


def test_a_producer_that_is_forgotten_leaves_no_header(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), producer=(7, 0, 0))
    put(log, (b"a", b"2"))
    log.roll()
    log.remove_expired_producers(START_MS + 10 * 86_400_000)
    clean(store, log)
    assert [header.base_offset for header in batches(log)] == [1]


def test_the_last_batch_of_the_part_that_is_cleaned_stays_as_a_header(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (None, b"goes"))
    log.roll()
    clean(store, log)
    assert [(header.base_offset, header.record_count) for header in batches(log)] == [(0, 1), (1, 0)]
    put(log, (b"b", b"1"))
    log.roll()
    clean(store, log)
    assert [(header.base_offset, header.record_count) for header in batches(log)] == [(0, 1), (2, 1)]


# Transactions


def in_transaction(log: PartitionLog, key: bytes, value: bytes, sequence: int, producer_id: int = 7) -> None:
    put(log, (key, value), producer=(producer_id, 0, sequence), transactional=True)


def test_aborted_records_are_removed_immediately_and_remove_no_others(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"committed"))
    in_transaction(log, b"a", b"aborted", 0)
    in_transaction(log, b"b", b"aborted", 1)
    end_transaction(log, 7, 0, commit=False)
    log.roll()
    stats = clean(store, log)
    assert records(log) == [Kept(0, b"a", b"committed")]
    assert (stats.map_keys, stats.map_records) == (1, 4)
    # One header stays, for the producer's last sequence; so the marker does, and its entry in the index.
    assert [(header.base_offset, header.record_count) for header in batches(log)] == [(0, 1), (2, 0), (3, 1)]
    assert [entry.first_offset for entry in log.segments[0].transaction_index.entries()] == [1]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_goes_once_its_data_are_gone_and_the_horizon_has_passed(
    store: Store, log: PartitionLog, commit: bool
) -> None:
    in_transaction(log, b"a", b"1", 0)
    end_transaction(log, 7, 0, commit=commit)
    put(log, (b"a", b"2"))
    log.roll()
    clean(store, log)
    assert markers(log) == [1]
    assert not batches(log)[0].has_delete_horizon
    log.remove_expired_producers(START_MS + 10 * 86_400_000)
    # The header goes, and the marker is met with its data in the same pass: it must stay without a horizon.
    clean_again(store, log)
    assert markers(log) == [1]
    clean_again(store, log)
    [marker] = [header for header in batches(log) if header.is_control]
    assert marker.has_delete_horizon
    assert marker.base_timestamp == START_MS + DELETE_RETENTION_MS
    clean_again(store, log)
    assert markers(log) == [1]
    store.clock.step(DELETE_RETENTION_MS)
    clean_again(store, log)
    assert markers(log) == []
    assert all(not list(segment.transaction_index.entries()) for segment in log.segments)


def test_a_marker_without_data_may_go_though_its_producer_has_committed_before(store: Store, log: PartitionLog) -> None:
    in_transaction(log, b"a", b"1", 0)
    for _ in range(2):
        end_transaction(log, 7, 0, commit=True)
    log.roll()
    clean(store, log)
    assert [header.has_delete_horizon for header in batches(log)] == [False, False, True]


def test_a_transaction_that_is_open_is_not_touched(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.roll()
    in_transaction(log, b"a", b"open", 0)
    log.roll()
    put(log, (b"a", b"3"))
    log.roll()
    clean(store, log)
    assert [kept.value for kept in records(log)] == [b"2", b"open", b"3"]
    end_transaction(log, 7, 0, commit=True)
    log.roll()
    clean(store, log)
    assert [kept.value for kept in records(log)] == [b"3"]


def test_an_abort_whose_marker_lies_behind_everything_that_is_cleaned_counts(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"committed"))
    in_transaction(log, b"a", b"aborted", 0)
    log.roll()
    put(log, (b"b", b"1"))
    log.roll()
    end_transaction(log, 7, 0, commit=False)
    clean(store, log)
    assert [kept.value for kept in records(log)] == [b"committed", b"1"]


def test_an_abort_long_ago_says_nothing_of_what_its_producer_commits_later(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"old"))
    in_transaction(log, b"a", b"aborted", 0)
    end_transaction(log, 7, 0, commit=False)
    log.roll()
    clean(store, log)
    # The dirty part begins behind the aborted transaction, whose entry is still in the index.
    in_transaction(log, b"a", b"committed", 1)
    end_transaction(log, 7, 0, commit=True)
    log.roll()
    clean(store, log)
    assert [kept.value for kept in records(log)] == [b"committed"]


def test_of_a_producer_without_data_the_last_marker_stays_as_a_header(store: Store, log: PartitionLog) -> None:
    end_transaction(log, 7, 5, commit=False)
    put(log, (b"a", b"1"))
    log.roll()
    for _ in range(3):
        store.clock.step(DELETE_RETENTION_MS)
        clean_again(store, log)
    [marker] = [header for header in batches(log) if header.is_control]
    assert (marker.producer_id, marker.producer_epoch, marker.record_count) == (7, 5, 0)
    [producer] = store.reopened().producers()
    assert (producer.producer_id, producer.producer_epoch) == (7, 5)


# Damage


def batch_filter(offsets: OffsetMap) -> BatchFilter:
    return BatchFilter(offsets, CleanedTransactions(), {}, 10**6, START_MS, DELETE_RETENTION_MS, lambda: None)


def test_a_batch_that_is_damaged_is_an_error_and_not_written_again(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    damaged = bytearray(batches(log)[0].raw)
    damaged[-3] ^= 1
    with pytest.raises(CorruptRecordError, match="checksum"):
        batch_filter(OffsetMap(0)).filter(BatchHeader(memoryview(damaged)), keep_legacy_tombstones=True)


# Formats 0 and 1


LEGACY = [bytes.fromhex(row["hex"]) for row in golden_rows("record_batches") if row.get("magic", 2) < 2]


def test_messages_in_old_formats_become_batches_of_today_with_the_same_records() -> None:
    assert LEGACY
    for data in LEGACY:
        for header in batch_headers(data):
            kept = batch_filter(OffsetMap(0)).filter(header, keep_legacy_tombstones=True)
            assert kept is not None
            assert (kept.magic, kept.compression_type, kept.last_offset) == (
                2, header.compression_type, header.last_offset
            )  # fmt: skip
            assert kept.is_valid()
            assert [plain(record) for record in records_of(kept)] == [plain(record) for record in records_of(header)]


def plain(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value


@pytest.mark.parametrize("keep", [True, False])
def test_tombstones_in_old_formats_go_by_the_age_of_their_segment(keep: bool) -> None:
    found = 0
    for data in LEGACY:
        for header in batch_headers(data):
            offsets = OffsetMap(1000)
            offsets.latest_offset = 2**62
            tombstones = [r.offset for r in records_of(header) if r.key is not None and r.value is None]
            kept = batch_filter(offsets).filter(header, keep_legacy_tombstones=keep)
            left = [] if kept is None else [r.offset for r in records_of(kept) if r.value is None]
            assert left == (tombstones if keep else [])
            found += len(tombstones)
    assert found
