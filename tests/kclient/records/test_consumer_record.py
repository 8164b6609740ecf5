"""The record a consumer hands out, as users make, compare and pickle it."""

from __future__ import annotations

import gc
import pickle
from types import ModuleType

import pytest

from kclient._bound_serializers import bind_deserializer

from .batches import batch


def test_records_are_made_with_keywords(twin: ModuleType) -> None:
    record = twin.ConsumerRecord(
        topic="t",
        partition=1,
        offset=2,
        timestamp=3,
        timestamp_type=1,
        key=b"k",
        value={"any": "thing"},
        headers=(("h", None),),
        leader_epoch=4,
    )
    assert (record.topic, record.partition, record.offset, record.timestamp) == ("t", 1, 2, 3)
    assert (record.timestamp_type, record.key, record.value) == (1, b"k", {"any": "thing"})
    assert (record.headers, record.leader_epoch) == ((("h", None),), 4)


def test_what_is_omitted_is_absent(twin: ModuleType) -> None:
    record = twin.ConsumerRecord("t")
    assert (record.partition, record.offset, record.timestamp, record.timestamp_type) == (0, 0, -1, 0)
    assert (record.key, record.value, record.headers, record.leader_epoch) == (None, None, (), None)


def test_equal_records_are_equal(twin: ModuleType) -> None:
    made = twin.ConsumerRecord("t", 0, 5, 1_700_000_000_000, 0, b"k", b"v", (), 3)
    (read,) = twin.RecordCursor(batch(b"v", base_offset=5), "t", 0, 5).take()
    assert made == read
    assert made != twin.ConsumerRecord("t", 0, 6, 1_700_000_000_000, 0, b"k", b"v", (), 3)
    assert made != "t"
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


def test_repr_shows_everything(twin: ModuleType) -> None:
    assert repr(twin.ConsumerRecord("t", 1, 2, 3, 0, b"k", b"v", (("h", b"1"),), 9)) == (
        "ConsumerRecord(topic='t', partition=1, offset=2, timestamp=3, timestamp_type=0, key=b'k', value=b'v', "
        "headers=(('h', b'1'),), leader_epoch=9)"
    )


def test_records_can_be_pickled(twin: ModuleType) -> None:
    (read,) = twin.RecordCursor(batch(b"v"), "t", 0, 0).take()
    assert pickle.loads(pickle.dumps(read)) == read


def test_headers_of_records_without_are_one_empty_tuple(twin: ModuleType) -> None:
    first, second = twin.RecordCursor(batch(b"v", b"w"), "t", 0, 0).take()
    assert first.headers is second.headers
    assert first.headers == ()


def test_a_cycle_through_a_deserialized_value_is_collected(twin: ModuleType) -> None:
    collected = []

    class Value:
        def __del__(self) -> None:
            collected.append(True)

    cursor = twin.RecordCursor(
        batch(b"v"), "t", 0, 0, value_deserializer=bind_deserializer("value", lambda data: Value())
    )
    (record,) = cursor.take()
    record.value.record = record
    del record, cursor
    gc.collect()
    assert collected == [True]
