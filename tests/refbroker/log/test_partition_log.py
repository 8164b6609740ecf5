"""One log: what is appended is read back, segments roll, offsets move."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest

from kclient.errors import KafkaStorageError, OffsetOutOfRangeError, RecordBatchTooLargeError
from kclient.records import read_batches
from refbroker.log import Isolation, LogConfig, Origin, PartitionLog
from tests.support.stores import SMALL, START_MS, Store, append, make_batch, read_all


def test_records_get_consecutive_offsets_and_the_leader_epoch(log: PartitionLog) -> None:
    results = [append(log, count, epoch=7) for count in (3, 1, 2)]
    assert [(r.base_offset, r.last_offset) for r in results] == [(0, 2), (3, 3), (4, 5)]
    assert all((r.log_append_time_ms, r.log_start_offset, r.duplicate) == (-1, 0, False) for r in results)
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (6, 6, 6)
    batches = list(read_batches(log.read(0, 1 << 20).records.read()))
    assert [(b.base_offset, b.last_offset, b.partition_leader_epoch) for b in batches] == [
        (0, 2, 7),
        (3, 3, 7),
        (4, 5, 7),
    ]


def test_batches_are_stored_as_they_came_but_for_offset_and_epoch(log: PartitionLog) -> None:
    batch = make_batch(5, compression="zstd", size=200)
    append(log)
    log.append(memoryview(batch), leader_epoch=3, now_ms=START_MS)
    stored = log.read(1, 1 << 20).records.read()
    assert stored[16:] == batch[16:]
    assert stored[:16] == (1).to_bytes(8, "big") + batch[8:12] + (3).to_bytes(4, "big")


def test_every_offset_is_found_in_every_segment(log: PartitionLog, rng: random.Random) -> None:
    end = 0
    while len(log.segments) < 6:
        end = append(log, rng.randrange(1, 8), size=rng.randrange(200)).last_offset + 1
    for offset in range(end):
        first = next(iter(read_batches(log.read(offset, 1 << 20).records.read())))
        assert first.base_offset <= offset <= first.last_offset
    assert [offset for offset, _, _ in read_all(log)] == list(range(end))


def test_a_read_gives_the_first_batch_whole_however_large(log: PartitionLog) -> None:
    size = len(make_batch(3, size=500))
    append(log, 3, size=500)
    append(log, 3, size=500)
    assert len(log.read(1, 10).records) == size
    assert len(log.read(1, size + 50).records) == size + 50
    assert len(log.read(1, 10, min_one_batch=False).records) == 10
    assert len(log.read(1, 0, min_one_batch=False).records) == 0


def test_a_read_at_the_end_is_empty_and_outside_is_an_error(log: PartitionLog) -> None:
    append(log, 3)
    nothing = log.read(3, 100)
    assert (len(nothing.records), nothing.records.read(), nothing.records.file) == (0, b"", -1)
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRangeError, match=f"offset {offset}, but the log has offsets 0 to 3") as caught:
            log.read(offset, 100)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 0, offset)


def test_readers_see_what_is_below_the_high_watermark(log: PartitionLog) -> None:
    log.on_append.clear()
    for _ in range(4):
        append(log, 2)
    assert (log.log_end_offset, log.high_watermark) == (8, 0)
    assert len(log.read(0, 1000).records) == 0
    log.update_high_watermark(4)
    slice_ = log.read(0, 10_000, isolation=Isolation.READ_COMMITTED)
    assert [b.base_offset for b in read_batches(slice_.records.read())] == [0, 2]
    assert (slice_.high_watermark, slice_.last_stable_offset, slice_.aborted) == (4, 4, ())
    assert len(log.read(6, 1000).records) == 0


def test_a_range_stays_readable_when_its_log_is_deleted(log: PartitionLog) -> None:
    append(log, 3)
    held = log.read(0, 10_000).records
    expected = held.read()
    log.delete()
    assert log.directory.name.endswith("-delete")
    assert held.read() == expected


def test_waiting_fetches_are_notified_of_an_append(log: PartitionLog) -> None:
    seen: list[int] = []
    log.on_append.append(lambda appended: seen.append(appended.high_watermark))
    append(log, 3)
    append(log, 1)
    assert seen == [3, 4]


def test_a_segment_is_rolled_before_it_outgrows_its_size(log: PartitionLog, store: Store) -> None:
    for _ in range(100):
        append(log, 2, size=100)
    names = sorted(path.name for path in store.path.glob("*.log"))
    assert names == [f"{segment.base_offset:020d}.log" for segment in log.segments]
    assert all(path.stat().st_size <= SMALL.segment_bytes for path in store.path.glob("*.log"))
    assert log.size_in_bytes() == sum(path.stat().st_size for path in store.path.glob("*.log"))
    inactive = log.segments[0]
    assert (store.path / f"{0:020d}.index").stat().st_size == inactive.offset_index.size_in_bytes
    assert inactive.time_index.last == (START_MS, 1)


def test_a_segment_is_rolled_when_its_records_span_too_much_time(store: Store) -> None:
    log = store.log(LogConfig(segment_ms=1000))
    append(log, timestamp=START_MS)
    append(log, timestamp=START_MS + 1000)
    assert len(log.segments) == 1
    append(log, timestamp=START_MS + 1001)
    assert log.segments.base_offsets == [0, 2]


@pytest.mark.parametrize("reopened", [False, True])
def test_the_times_of_the_records_decide_whatever_the_clock_says(store: Store, reopened: bool) -> None:
    log = store.log(LogConfig(segment_ms=1000))
    for timestamp in (0, 1000, 1001):
        if reopened:
            log = store.reopened()
            log.update_config(LogConfig(segment_ms=1000))
        log.append(make_batch(timestamp=timestamp), leader_epoch=0, now_ms=START_MS + 10_000)
    assert log.segments.base_offsets == [0, 2]


def test_a_segment_without_timestamps_is_rolled_by_the_clock(store: Store) -> None:
    log = store.log(LogConfig(segment_ms=1000))
    for later in (0, 1000, 1001):
        log.append(make_batch(timestamp=-1), leader_epoch=0, now_ms=START_MS + later)
    assert log.segments.base_offsets == [0, 2]


def test_jitter_makes_segments_roll_earlier(store: Store) -> None:
    log = store.log(LogConfig(segment_ms=1000, segment_jitter_ms=1000))
    append(log, timestamp=START_MS)
    append(log, timestamp=START_MS + 1000)
    assert len(log.segments) == 2


def test_a_segment_is_rolled_when_an_index_is_full(store: Store) -> None:
    log = store.log(LogConfig(index_interval_bytes=0, segment_index_bytes=60))
    for number in range(20):
        append(log, timestamp=START_MS + number)
    assert log.segments.base_offsets == [0, 5, 10, 15]
    assert [offset for offset, _, _ in read_all(log)] == list(range(20))


def test_a_segment_is_rolled_when_offsets_do_not_fit_its_index(store: Store) -> None:
    log = store.log()
    append(log)
    far = 2**31 - 1
    log.append(make_batch(base_offset=far), leader_epoch=0, origin=Origin.REPLICATION, now_ms=START_MS)
    assert len(log.segments) == 1
    log.append(make_batch(base_offset=far + 5), leader_epoch=0, origin=Origin.REPLICATION, now_ms=START_MS)
    assert log.segments.base_offsets == [0, far + 5], "as Kafka, which begins where the batch does"
    assert [offset for offset, _, _ in read_all(log)] == [0, far, far + 5]


def test_a_replica_keeps_offsets_and_epochs_and_refuses_to_go_back(log: PartitionLog) -> None:
    batch = make_batch(2, base_offset=10, partition_leader_epoch=4)
    result = log.append(batch, leader_epoch=9, origin=Origin.REPLICATION, now_ms=START_MS)
    assert (result.base_offset, log.log_end_offset, log.leader_epoch) == (10, 12, 4)
    with pytest.raises(OffsetOutOfRangeError, match="has offset 10, the log ends at 12"):
        log.append(batch, leader_epoch=9, origin=Origin.REPLICATION, now_ms=START_MS)


@pytest.mark.parametrize("offsets", [[3 * 2**30], [5, 3 * 2**30], [5, 3 * 2**30, 3 * 2**30 + 1, 7 * 2**30]])
@pytest.mark.parametrize("clean", [True, False])
def test_a_copy_of_a_compacted_log_may_have_gaps_wider_than_a_segment_reaches(
    store: Store, offsets: list[int], clean: bool
) -> None:
    log = store.log()
    for offset in offsets:
        log.append(make_batch(base_offset=offset), leader_epoch=0, origin=Origin.REPLICATION, now_ms=START_MS)
    log.roll()
    for _ in range(2):
        assert log.log_end_offset == offsets[-1] + 1
        assert [offset for offset, _, _ in read_all(log, offsets[0])] == offsets
        assert log.segments.base_offsets[-1] == offsets[-1] + 1
        for segment in log.segments:
            assert all(segment.takes(header.last_offset) for header in segment.headers())
        log = store.reopened(clean=clean)


def test_a_coordinator_may_append_several_batches_at_once(log: PartitionLog) -> None:
    data = make_batch(2) + make_batch(3)
    result = log.append(data, leader_epoch=0, origin=Origin.COORDINATOR, now_ms=START_MS)
    assert (result.base_offset, result.last_offset) == (0, 4)
    assert len(read_all(log)) == 5


def test_a_request_as_large_as_a_segment_is_accepted(store: Store) -> None:
    batch = make_batch(3)
    log = store.log(LogConfig(segment_bytes=len(batch)))
    for _ in range(2):
        log.append(batch, leader_epoch=0, now_ms=START_MS)
    assert log.segments.base_offsets == [0, 3]


def test_a_request_larger_than_a_segment_is_refused(log: PartitionLog) -> None:
    with pytest.raises(RecordBatchTooLargeError, match="4096 of a segment"):
        append(log, 1, size=5000)
    assert log.log_end_offset == 0


def test_the_first_record_at_or_after_a_time_is_found(log: PartitionLog) -> None:
    timestamps = []
    for number in range(120):
        timestamp = START_MS + number * 100
        append(log, 3, timestamp=timestamp, step_ms=10, epoch=number // 60)
        timestamps += [timestamp, timestamp + 10, timestamp + 20]
    assert len(log.segments) > 2
    for target in range(START_MS - 5, START_MS + 12_000, 35):
        expected = next((o for o, timestamp in enumerate(timestamps) if timestamp >= target), None)
        found = log.offset_for_timestamp(target)
        if expected is None:
            assert found is None
        else:
            assert found == (expected, timestamps[expected], expected // 180)


def test_time_is_searched_from_the_log_start_on(log: PartitionLog) -> None:
    append(log, 4, timestamp=START_MS, step_ms=1000)
    log.delete_records(2)
    assert log.offset_for_timestamp(START_MS) == (2, START_MS + 2000, 0)
    assert log.offset_for_timestamp(START_MS + 3001) is None


def test_the_record_with_the_largest_timestamp_is_found(log: PartitionLog) -> None:
    assert log.offset_of_max_timestamp() is None
    for number in range(100):
        append(log, 2, timestamp=START_MS - abs(number - 30) * 1000, step_ms=10, epoch=2)
    assert len(log.segments) > 2
    assert log.offset_of_max_timestamp() == (61, START_MS + 10, 2)


def test_records_without_timestamps_have_no_largest_one(log: PartitionLog) -> None:
    append(log, 2, timestamp=-1)
    assert log.offset_of_max_timestamp() is None
    assert log.offset_for_timestamp(0) is None


def test_deleted_records_are_out_of_range(log: PartitionLog) -> None:
    for _ in range(3):
        append(log, 2)
    assert log.delete_records(3) == 3
    assert log.delete_records(1) == 3
    with pytest.raises(OffsetOutOfRangeError):
        log.read(2, 100)
    assert next(iter(read_batches(log.read(3, 1000).records.read()))).base_offset == 2
    for beyond in (7, -2):
        with pytest.raises(OffsetOutOfRangeError, match="high watermark 6"):
            log.delete_records(beyond)
    assert log.delete_records(-1) == 6
    assert len(log.read(6, 100).records) == 0


def test_the_end_of_a_leader_epoch_is_reported(log: PartitionLog) -> None:
    append(log, 5, epoch=1)
    append(log, 5, epoch=4)
    assert log.end_offset_for_epoch(1) == (1, 5)
    assert log.end_offset_for_epoch(3) == (1, 5)
    assert log.end_offset_for_epoch(4) == (4, 10)
    assert log.end_offset_for_epoch(5) == (-1, -1)
    assert log.leader_epoch == 4


def test_a_leader_epoch_may_begin_without_records(log: PartitionLog) -> None:
    append(log, 5, epoch=1)
    log.begin_leader_epoch(2)
    assert log.leader_epoch == 2
    assert log.end_offset_for_epoch(1) == (1, 5)
    assert log.end_offset_for_epoch(2) == (2, 5)


def test_settings_change_while_the_log_is_in_use(log: PartitionLog) -> None:
    append(log)
    log.update_config(LogConfig(segment_bytes=100))
    append(log)
    append(log)
    assert log.segments.base_offsets == [0, 1, 2]


def test_preallocated_segments_are_cut_when_they_are_rolled(store: Store) -> None:
    config = LogConfig(preallocate=True, segment_bytes=4096)
    log = store.log(config)
    append(log)
    path = store.path / f"{0:020d}.log"
    assert path.stat().st_size == 4096
    log.roll()
    assert path.stat().st_size == log.segments[0].size == len(make_batch())


def test_a_flush_may_be_taken_elsewhere(log: PartitionLog) -> None:
    log.flush()
    assert log.begin_flush() is None
    append(log, 5)
    flush = log.begin_flush()
    assert flush is not None
    append(log, 5)
    flush.sync()
    log.finish_flush(flush)
    assert (log.recovery_point, log.unflushed_records) == (5, 5)
    log.flush()
    assert log.recovery_point == 10


@pytest.mark.parametrize("gone", ["deleted", "closed"])
def test_a_flush_that_is_under_way_survives_the_end_of_its_log(store: Store, log: PartitionLog, gone: str) -> None:
    append(log, 5)
    log.roll()
    append(log, 5)
    flush = log.begin_flush()
    assert flush is not None
    store.disk.durable = True
    if gone == "deleted":
        log.delete()
    else:
        log.close()
    flush.sync()
    log.finish_flush(flush)


def test_rolled_segments_are_due_for_a_flush(store: Store, log: PartitionLog) -> None:
    manager = store.open() if store.manager is None else store.manager
    append(log, 5)
    assert list(manager.pending_flushes(store.clock())) == []
    log.roll()
    append(log, 1)
    [(which, flush)] = manager.pending_flushes(store.clock())
    assert (which, flush.offset) == (log, 5)
    log.update_config(LogConfig(flush_ms=1000))
    [(_, flush)] = manager.pending_flushes(store.clock() + 1000)
    assert flush.offset == 6


def test_a_flush_every_so_many_records_happens_on_append(store: Store) -> None:
    log = store.log(LogConfig(flush_messages=3))
    for _ in range(4):
        append(log)
    assert log.recovery_point == 3


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(5, "Input/output error")])
def test_a_failing_disk_takes_its_directory_offline_and_no_other(tmp_path: Path, error: OSError) -> None:
    store, other = Store(tmp_path / "one"), Store(tmp_path / "other")
    log, unharmed = store.log(), other.log()
    neighbour = store.manager.create("payments", 0, uuid.UUID(int=5)) if store.manager else log
    append(log)
    store.disk.error = error
    with pytest.raises(KafkaStorageError, match=str(error.strerror)):
        append(log)
    store.disk.error = None
    for used in (lambda: append(log), lambda: log.read(0, 100), lambda: append(neighbour)):
        with pytest.raises(KafkaStorageError, match=str(error.strerror)):
            used()
    store.close()
    assert not (store.directory / ".kafka_cleanshutdown").exists()
    append(unharmed)
    other.close()
    store.manager = None
    assert store.log().log_end_offset == 1
    store.crash()


def test_a_closed_log_says_so(log: PartitionLog) -> None:
    log.close()
    log.close()
    with pytest.raises(KafkaStorageError, match="closed"):
        append(log)
