"""The batch builder: what fits, what is refused, and what comes out."""

from __future__ import annotations

import gc
from types import ModuleType

import pytest

from kclient.records import batch_headers, restamp

from .batches import TIMESTAMP, values

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def test_append_returns_the_index_in_the_batch(twin: ModuleType) -> None:
    builder = twin.BatchBuilder()
    assert [builder.append(TIMESTAMP, b"k", b"v") for _ in range(3)] == [0, 1, 2]
    assert builder.count == 3


def test_size_is_what_the_batch_will_have(twin: ModuleType) -> None:
    builder = twin.BatchBuilder()
    assert builder.size_in_bytes == 61
    builder.append(TIMESTAMP, b"key", b"value" * 1000, [("h", b"1"), ("h", None)])
    assert len(builder.build()) == builder.size_in_bytes


def test_a_record_that_does_not_fit_leaves_the_batch_as_it_was(twin: ModuleType) -> None:
    builder = twin.BatchBuilder(max_bytes=200)
    assert builder.append(TIMESTAMP, None, b"x" * 100) == 0
    size = builder.size_in_bytes
    assert builder.append(TIMESTAMP + 5, None, b"x" * 100) == -1
    assert (builder.count, builder.size_in_bytes, builder.max_timestamp) == (1, size, TIMESTAMP)
    assert builder.append(TIMESTAMP, None, b"x" * (200 - size - 7)) == 1
    assert builder.size_in_bytes == 200


def test_the_first_record_always_fits(twin: ModuleType) -> None:
    builder = twin.BatchBuilder(max_bytes=100)
    assert builder.append(TIMESTAMP, None, b"x" * 10_000) == 0
    (batch,) = twin.read_batches(builder.build())
    assert values(batch.records()) == [b"x" * 10_000]


def test_many_records_grow_the_buffer_to_its_cap(twin: ModuleType) -> None:
    builder = twin.BatchBuilder(max_bytes=100_000)
    expected: list[bytes] = []
    while builder.append(TIMESTAMP, None, b"%d" % builder.count) >= 0:
        expected.append(b"%d" % len(expected))
    assert 99_980 < builder.size_in_bytes <= 100_000
    (batch,) = twin.read_batches(builder.build())
    assert values(batch.records()) == expected


def test_timestamps_may_go_backwards_and_be_missing(twin: ModuleType) -> None:
    builder = twin.BatchBuilder()
    for timestamp in (TIMESTAMP, TIMESTAMP - 10_000_000, -1, 2**62, 0):
        builder.append(timestamp, None, None)
    (batch,) = twin.read_batches(builder.build())
    assert [record.timestamp for record in batch.records()] == [TIMESTAMP, TIMESTAMP - 10_000_000, -1, 2**62, 0]
    assert batch.base_timestamp == TIMESTAMP
    assert batch.max_timestamp == 2**62


def test_bytes_like_objects_are_taken(twin: ModuleType) -> None:
    builder = twin.BatchBuilder()
    builder.append(TIMESTAMP, bytearray(b"key"), memoryview(b"value"), [("h", memoryview(b"header"))])
    builder.append(TIMESTAMP, b"", b"", None)
    (batch,) = twin.read_batches(builder.build())
    first, second = batch.records()
    assert (first.key, first.value, first.headers) == (b"key", b"value", (("h", b"header"),))
    assert (second.key, second.value, second.headers) == (b"", b"", ())


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        ("text", b"v", ()),
        (b"k", "text", ()),
        (b"k", 5, ()),
        (b"k", b"v", [("h", "text")]),
        (b"k", b"v", [(b"h", b"v")]),
        (b"k", b"v", [("h",)]),
        (b"k", b"v", [7]),
        (b"k", b"v", [(None, b"v")]),
    ],
)
def test_wrong_types_are_refused_and_nothing_is_added(
    twin: ModuleType, key: object, value: object, headers: object
) -> None:
    builder = twin.BatchBuilder()
    with pytest.raises(TypeError, match="bytes-like"):
        builder.append(TIMESTAMP, key, value, headers)
    assert builder.count == 0
    assert builder.size_in_bytes == 61


def test_a_negative_timestamp_is_refused(twin: ModuleType) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        twin.BatchBuilder().append(-2, None, None)


def test_an_empty_batch_is_refused(twin: ModuleType) -> None:
    with pytest.raises(ValueError, match="at least one record"):
        twin.BatchBuilder().build()


@pytest.mark.parametrize("codec", CODECS)
def test_a_built_batch_takes_no_more_records(twin: ModuleType, codec: str) -> None:
    builder = twin.BatchBuilder(codec)
    builder.append(TIMESTAMP, None, b"v")
    builder.build()
    with pytest.raises(ValueError, match="is built"):
        builder.append(TIMESTAMP, None, b"v")


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_can_be_built_again_under_another_producer(twin: ModuleType, codec: str) -> None:
    builder = twin.BatchBuilder(codec)
    for _ in range(10):
        builder.append(TIMESTAMP, b"key", b"value" * 10)
    first = builder.build(producer_id=1, producer_epoch=2, base_sequence=3)
    before = bytes(first)
    second = builder.build(producer_id=4, producer_epoch=5, base_sequence=6, is_transactional=True)
    assert bytes(first) == before
    assert restamp(first, 4, 5, 6)[61:] == bytes(second)[61:]
    (batch,) = twin.read_batches(second)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (4, 5, 6, 15)
    assert batch.is_transactional
    del first
    gc.collect()
    (batch,) = twin.read_batches(builder.build(producer_id=7))
    assert batch.producer_id == 7
    assert len(batch.records()) == 10


@pytest.mark.parametrize("codec", CODECS)
def test_a_built_batch_outlives_its_builder(twin: ModuleType, codec: str) -> None:
    builder = twin.BatchBuilder(codec)
    builder.append(TIMESTAMP, None, b"v" * 1000)
    built = builder.build()
    del builder
    gc.collect()
    (batch,) = twin.read_batches(built)
    assert values(batch.records()) == [b"v" * 1000]


def test_a_built_batch_is_read_only(twin: ModuleType) -> None:
    builder = twin.BatchBuilder()
    builder.append(TIMESTAMP, None, b"v")
    assert memoryview(builder.build()).readonly


def test_restamp_changes_the_producer_and_keeps_the_rest(twin: ModuleType) -> None:
    builder = twin.BatchBuilder("gzip")
    builder.append(TIMESTAMP, None, b"v")
    original = bytes(builder.build(base_offset=9))
    (batch,) = twin.read_batches(restamp(original, 11, 12, 2**31 - 1))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (11, 12, 2**31 - 1)
    assert batch.base_offset == 9
    assert values(batch.records()) == [b"v"]
    with pytest.raises(ValueError, match="format 2"):
        restamp(original[:60], 1, 1, 1)


def test_sequences_wrap_after_the_greatest_int32(twin: ModuleType) -> None:
    builder = twin.BatchBuilder()
    for _ in range(3):
        builder.append(TIMESTAMP, None, None)
    (header,) = batch_headers(builder.build(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 0


@pytest.mark.parametrize(
    ("codec", "level"), [("brotli", None), ("gzip", 10), ("gzip", 0), ("lz4", 0), ("zstd", 23), ("none", 1)]
)
def test_unknown_codecs_and_levels_are_refused(twin: ModuleType, codec: str, level: int | None) -> None:
    with pytest.raises(ValueError, match=codec):
        twin.BatchBuilder(codec, level)
