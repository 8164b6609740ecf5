"""What a leader refuses, and what it changes in the batches it takes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c

from kclient.errors import (
    CorruptRecordError,
    InvalidConfigurationError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
)
from kclient.records import BatchBuilder, control_batch, read_batches
from refbroker.log import LogConfig, Origin, RejectedRecordsError, RejectedTimestampsError
from tests.support.stores import START_MS, Store, append, make_batch, read_all


def changed(batch: bytes, form: str, position: int, value: int) -> bytes:
    """The batch with one field changed, and a checksum that fits."""
    copy = bytearray(batch)
    struct.pack_into(form, copy, position, value)
    struct.pack_into(">I", copy, 17, crc32c(bytes(copy[21:])))
    return bytes(copy)


GOOD = make_batch(3)

REFUSED = {
    "nothing": (b"", "at least one whole record batch"),
    "half a batch": (GOOD[:-1], "at least one whole record batch"),
    "two batches": (GOOD + GOOD, "exactly one record batch"),
    "a base offset": (make_batch(3, base_offset=7), "base offset of the record batch should be 0, but is 7"),
    "no records": (changed(GOOD, ">i", 57, 0), "Invalid reported count for record batch: 0"),
    "another count than offsets": (changed(GOOD, ">i", 57, 2), r"Inconsistent batch offset range \[0, 2\]"),
    "a negative offset delta": (changed(GOOD, ">i", 23, -2), "Inconsistent batch offset range"),
    "a control batch": (
        control_batch(0, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=START_MS),
        "not allowed to write control records",
    ),
    "format 1": (GOOD[:16] + b"\1" + GOOD[17:], "must be in format 2, not 1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_client_may_not_send(store: Store, what: str) -> None:
    records, reason = REFUSED[what]
    with pytest.raises(InvalidRecordError, match=reason) as caught:
        store.log().append(records, leader_epoch=0, now_ms=START_MS)
    assert (caught.value.topic, caught.value.partition) == ("orders", 0)
    assert store.log().log_end_offset == 0


@pytest.mark.parametrize(
    "records",
    [GOOD[:-1] + b"\xff", GOOD[:8] + b"\0\0\0\1" + GOOD[12:], GOOD[:16] + b"\7" + GOOD[17:]],
    ids=["checksum", "length", "magic"],
)
def test_a_damaged_batch_is_refused(store: Store, records: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        store.log().append(records, leader_epoch=0, now_ms=START_MS)
    assert store.log().size_in_bytes() == 0


def test_a_batch_that_is_too_large_is_refused_with_both_sizes(store: Store) -> None:
    log = store.log(LogConfig(max_message_bytes=200))
    batch = make_batch(3, size=100)
    with pytest.raises(RecordTooLargeError, match=rf"has {len(batch)} bytes, .* the 200 that max.message.bytes allows"):
        log.append(batch, leader_epoch=0, now_ms=START_MS)
    log.append(batch, leader_epoch=0, origin=Origin.RAFT_LEADER, now_ms=START_MS)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_timestamps_too_far_in_the_future_are_named(store: Store, compression: str) -> None:
    log = store.log()
    hour = 3_600_000
    log.append(make_batch(2, timestamp=START_MS + hour), leader_epoch=0, now_ms=START_MS)
    batch = make_batch(3, timestamp=START_MS + hour - 1, step_ms=1, compression=compression)
    with pytest.raises(RejectedTimestampsError, match="invalid timestamp") as caught:
        log.append(batch, leader_epoch=0, now_ms=START_MS)
    assert isinstance(caught.value, InvalidTimestampError)
    assert caught.value.code == 32
    [error] = caught.value.record_errors
    assert error.batch_index == 2
    assert f"within [{START_MS - 2**63 + 1}, {START_MS + hour}]" in error.message


def test_timestamps_too_far_in_the_past_are_refused_where_the_topic_says_so(store: Store) -> None:
    log = store.log(LogConfig(message_timestamp_before_max_ms=1000))
    log.append(make_batch(2, timestamp=START_MS - 1000), leader_epoch=0, now_ms=START_MS)
    with pytest.raises(RejectedTimestampsError) as caught:
        log.append(make_batch(3, timestamp=START_MS - 1001, step_ms=1), leader_epoch=0, now_ms=START_MS)
    assert [error.batch_index for error in caught.value.record_errors] == [0]


def test_records_without_timestamp_are_taken(store: Store) -> None:
    log = store.log(LogConfig(message_timestamp_before_max_ms=1000))
    log.append(make_batch(2, timestamp=-1), leader_epoch=0, now_ms=START_MS)


def test_append_time_replaces_the_producers_timestamps(store: Store) -> None:
    log = store.log(LogConfig(message_timestamp_type="LogAppendTime"))
    now = START_MS + 99_000
    result = log.append(make_batch(3, timestamp=5), leader_epoch=2, now_ms=now)
    assert result.log_append_time_ms == now
    [batch] = read_batches(log.read(0, 1000).records.read())
    assert (batch.timestamp_type, batch.max_timestamp, batch.partition_leader_epoch) == (1, now, 2)
    assert [timestamp for _, timestamp, _ in read_all(log)] == [now] * 3
    with pytest.raises(InvalidTimestampError, match="should not set timestamp type"):
        log.append(make_batch(timestamp_type=1, max_timestamp=START_MS), leader_epoch=0, now_ms=now)


def test_a_batch_that_claims_append_time_is_create_time_on_a_create_time_topic(store: Store) -> None:
    log = store.log()
    log.append(make_batch(timestamp_type=1, max_timestamp=START_MS), leader_epoch=0, now_ms=START_MS)
    [batch] = read_batches(log.read(0, 1000).records.read())
    assert batch.timestamp_type == 0


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", ["none", "lz4"])
def test_a_topic_with_its_own_compression_uses_it(store: Store, wanted: str, sent: str) -> None:
    log = store.log(LogConfig(compression_type=wanted))
    builder = BatchBuilder(sent)
    for number in range(50):
        key = None if number % 3 == 0 else b"key"
        builder.append(START_MS + number, key, b"value" * 10, [("h", b"x"), ("n", None)])
    data = bytes(builder.build(producer_id=4, producer_epoch=1, base_sequence=0))
    log.append(data, leader_epoch=6, now_ms=START_MS)
    [batch] = read_batches(log.read(0, 1 << 20).records.read())
    assert batch.compression_type == {"uncompressed": "none"}.get(wanted, wanted)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4, 1, 0)
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (0, 49, 6)
    [original] = read_batches(data)
    fields = [(r.timestamp, r.key, r.value, r.headers) for r in original.records()]
    assert [(r.timestamp, r.key, r.value, r.headers) for r in batch.records()] == fields
    assert log.append(data, leader_epoch=6, now_ms=START_MS).duplicate


def test_a_batch_that_outgrows_the_limit_when_it_is_unpacked_is_refused(store: Store) -> None:
    log = store.log(LogConfig(compression_type="uncompressed", max_message_bytes=1000))
    with pytest.raises(RecordTooLargeError, match=r"Compressed with uncompressed .* more than the 1000"):
        append(log, 50, size=100, compression="zstd")


def test_a_compacted_topic_refuses_records_without_key_and_names_them(store: Store) -> None:
    log = store.log(LogConfig(cleanup_policy=("compact",)))
    builder = BatchBuilder()
    for key in (b"a", None, b"b", None):
        builder.append(START_MS, key, b"value")
    told = r"2 record errors in total, .*: \[RecordError\(batchIndex=1, message='Compacted topic .* orders-0'\)"
    with pytest.raises(RejectedRecordsError, match=told) as caught:
        log.append(bytes(builder.build()), leader_epoch=0, now_ms=START_MS)
    assert isinstance(caught.value, InvalidRecordError)
    assert (caught.value.code, [e.batch_index for e in caught.value.record_errors]) == (87, [1, 3])
    assert append(log, 2).base_offset == 0


def with_base_timestamp(batch: bytes, timestamp: int) -> bytes:
    return changed(changed(batch, ">q", 27, timestamp), ">q", 35, timestamp)


@pytest.mark.parametrize("compression", ["producer", "zstd"])
def test_a_timestamp_before_the_epoch_is_refused_where_records_are_read(store: Store, compression: str) -> None:
    log = store.log(LogConfig(compression_type=compression, cleanup_policy=("compact",)))
    with pytest.raises(RejectedTimestampsError) as caught:
        log.append(with_base_timestamp(make_batch(), -5), leader_epoch=0, now_ms=START_MS)
    assert [error.batch_index for error in caught.value.record_errors] == [0]


def test_timestamps_that_the_append_time_replaces_do_not_matter(store: Store) -> None:
    log = store.log(LogConfig(compression_type="zstd", message_timestamp_type="LogAppendTime"))
    log.append(with_base_timestamp(make_batch(2), -5), leader_epoch=0, now_ms=START_MS)
    assert [timestamp for _, timestamp, _ in read_all(log)] == [START_MS, START_MS]


def test_batches_with_offsets_out_of_order_are_refused_when_they_are_read(store: Store) -> None:
    log = store.log(LogConfig(cleanup_policy=("compact",)))
    batch = make_batch(2, key=b"k", size=1)
    # Size, attributes and timestamp delta take a byte each; the offset delta of the second record follows.
    second = 61 + 1 + batch[61] // 2
    with pytest.raises(InvalidRecordError, match="incremental offsets"):
        log.append(changed(batch, ">b", second + 3, 0), leader_epoch=0, now_ms=START_MS)


def test_an_answer_names_only_so_many_of_the_records_it_refuses(store: Store) -> None:
    log = store.log(LogConfig(cleanup_policy=("compact",)))
    with pytest.raises(RejectedRecordsError) as caught:
        append(log, 5000, size=0, key=None, compression="gzip")
    assert len(caught.value.record_errors) == 1000


def test_the_metadata_log_is_not_subject_to_topic_settings(store: Store) -> None:
    log = store.log(LogConfig(compression_type="gzip", message_timestamp_type="LogAppendTime", max_message_bytes=50))
    batch = make_batch(timestamp=5)
    log.append(batch, leader_epoch=0, origin=Origin.RAFT_LEADER, now_ms=START_MS)
    assert log.read(0, 1000).records.read()[16:] == batch[16:]


def test_settings_come_from_kafkas_names() -> None:
    broker = LogConfig().with_topic_configs({"segment.bytes": "2048", "segment.ms": "5", "retention.ms": "3"})
    assert (broker.segment_bytes, broker.segment_ms, broker.segment_index_bytes) == (2048, 5, 10485760)
    topic = broker.with_topic_configs({"cleanup.policy": "compact,delete", "preallocate": "true", "segment.ms": "7"})
    assert (topic.segment_bytes, topic.segment_ms, topic.compacted, topic.preallocate) == (2048, 7, True, True)


BAD_SETTINGS: dict[str, Any] = {
    "segment.bytes": "1e9",
    "segment.ms": "soon",
    "min.cleanable.dirty.ratio": "half",
    "preallocate": "maybe",
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_a_value_of_another_type_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=f"Invalid value .* for configuration {name}"):
        LogConfig().with_topic_configs({name: BAD_SETTINGS[name]})
