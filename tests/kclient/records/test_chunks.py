"""Chunks of records: windows over fetched bytes that behave like sequences."""

from __future__ import annotations

import gc
from types import ModuleType

import pytest

from kclient._bound_serializers import bind_deserializer

from .batches import batch, offsets, values

DATA = batch(b"a", b"b", b"c") + batch(b"d", base_offset=3) + batch(b"e", b"f", base_offset=4, compression="zstd")


def test_a_chunk_knows_its_place_and_length(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(DATA, "orders", 2, 1)
    chunk = cursor.take(3)
    assert (chunk.topic, chunk.partition, chunk.first_offset, chunk.next_offset) == ("orders", 2, 1, 4)
    assert len(chunk) == 3
    rest = cursor.take()
    assert (rest.first_offset, rest.next_offset, len(rest)) == (4, 6, 2)
    empty = cursor.take()
    assert (empty.first_offset, empty.next_offset, len(empty)) == (6, 6, 0)
    assert list(empty) == []
    assert "orders" in repr(chunk)


def test_a_chunk_can_be_iterated_again_and_at_the_same_time(twin: ModuleType) -> None:
    chunk = twin.RecordCursor(DATA, "t", 0, 0).take()
    assert list(chunk) == list(chunk)
    assert [(a.offset, b.offset) for a, b in zip(chunk, chunk, strict=True)] == [(n, n) for n in range(6)]


def test_chunks_are_independent_of_the_cursor_that_continues(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(DATA, "t", 0, 0)
    chunks = [cursor.take(2) for _ in range(3)]
    assert [offsets(chunk) for chunk in chunks] == [[0, 1], [2, 3], [4, 5]]


def test_records_are_found_by_index(twin: ModuleType) -> None:
    chunk = twin.RecordCursor(DATA, "t", 0, 0).take()
    assert [chunk[index].value for index in range(6)] == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert chunk[-1].value == b"f"
    assert chunk[-6].value == b"a"
    assert values(chunk[1:4]) == [b"b", b"c", b"d"]
    for index in (6, -7):
        with pytest.raises(IndexError):
            chunk[index]


def test_several_chunks_are_iterated_as_one(twin: ModuleType) -> None:
    first, second = (twin.RecordCursor(DATA, "t", partition, 0) for partition in (0, 1))
    chunks = [first.take(2), second.take(), twin.RecordCursor(b"", "t", 2, 0).take(), first.take()]
    records = list(twin.chain_iter(chunks))
    assert [(record.partition, record.offset) for record in records] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (0, 2), (0, 3), (0, 4), (0, 5),
    ]  # fmt: skip
    assert list(twin.chain_iter([])) == []


def test_an_exhausted_iterator_stays_exhausted(twin: ModuleType) -> None:
    iterator = iter(twin.RecordCursor(DATA, "t", 0, 4).take())
    assert len(list(iterator)) == 2
    for _ in range(3):
        assert next(iterator, None) is None


def test_deserialized_chunks_mix_with_raw_ones(twin: ModuleType) -> None:
    raw = twin.RecordCursor(DATA, "t", 0, 4).take()
    made = twin.RecordCursor(DATA, "t", 0, 0, value_deserializer=bind_deserializer("value", bytes.decode)).take()
    assert values(twin.chain_iter([made, raw, made])) == [*"abcdef", b"e", b"f", *"abcdef"]
    assert made[2].value == "c"


def test_chunks_keep_the_bytes_they_need(twin: ModuleType) -> None:
    data = bytearray(DATA)
    chunk = twin.RecordCursor(memoryview(data), "t", 0, 0).take()
    del data
    gc.collect()
    assert values(chunk) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_records_outlive_their_chunk(twin: ModuleType) -> None:
    records = list(twin.RecordCursor(bytes(bytearray(DATA)), "t", 0, 0).take())
    gc.collect()
    assert values(records) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert {record.topic for record in records} == {"t"}


def test_more_records_than_the_free_list_holds(twin: ModuleType) -> None:
    builder = twin.BatchBuilder()
    for number in range(5000):
        builder.append(number, None, b"%d" % number, [("h", b"%d" % number)] if number % 7 == 0 else ())
    chunk = twin.RecordCursor(bytes(builder.build()), "t", 0, 0).take()
    for _ in range(2):
        records = list(chunk)
        assert values(records) == [b"%d" % number for number in range(5000)]
        assert all((record.headers != ()) == (record.offset % 7 == 0) for record in records)
        del records
