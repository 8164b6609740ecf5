"""Records as Arrow columns, alike from both twins."""

from __future__ import annotations

import datetime
import sys
from types import ModuleType
from typing import Any

import pytest

from kclient._bound_serializers import bind_deserializer
from kclient.records import assign_offsets, to_arrow
from kclient.records.arrow import COLUMNS

from .batches import TIMESTAMP, batch, resealed

pyarrow = pytest.importorskip("pyarrow")


def rich_batch(base_offset: int = 0, *, append_time: bool = False, leader_epoch: int = 3) -> bytes:
    from kclient.records import pure

    builder = pure.BatchBuilder("lz4" if base_offset else "none")
    builder.append(TIMESTAMP, b"k", b"value", [("a", b"1"), ("b", None), ("ключ", b"")])
    builder.append(-1, None, None)
    builder.append(TIMESTAMP + 5, b"", b"x" * 300, [("a", b"2")])
    data = bytearray(builder.build())
    assign_offsets(
        data, base_offset, leader_epoch, max_timestamp=TIMESTAMP + 99, timestamp_type=1 if append_time else None
    )
    return bytes(data)


def expected_rows(chunks: list[Any]) -> list[dict[str, Any]]:
    rows = []
    for chunk in chunks:
        for record in chunk:
            row = {column: getattr(record, column) for column in COLUMNS}
            row["headers"] = [{"key": key, "value": value} for key, value in record.headers]
            moment = datetime.datetime.fromtimestamp(record.timestamp / 1000, datetime.UTC)
            row["timestamp"] = None if record.timestamp == -1 else moment
            rows.append(row)
    return rows


def taken(twin: ModuleType, *, partial: bool = False) -> list[Any]:
    first = twin.RecordCursor(rich_batch() + rich_batch(3, append_time=True), "orders", 1, 0)
    second = twin.RecordCursor(rich_batch(10, leader_epoch=-1), "payments", 7, 11)
    if partial:
        return [first.take(2), second.take(1), first.take(3), second.take()]
    return [first.take(), second.take()]


@pytest.mark.parametrize("partial", [False, True])
def test_every_record_becomes_a_row(twin: ModuleType, partial: bool) -> None:
    chunks = taken(twin, partial=partial)
    batch = to_arrow(chunks)
    batch.validate(full=True)
    assert batch.to_pylist() == expected_rows(chunks)


def test_the_schema_is_the_documented_one(twin: ModuleType) -> None:
    for chunks in (taken(twin), [twin.RecordCursor(b"", "t", 0, 0).take()]):
        schema = to_arrow(chunks).schema
        assert schema.names == list(COLUMNS)
        assert schema.field("topic").type == pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        assert schema.field("partition").type == pyarrow.int32()
        assert schema.field("offset").type == pyarrow.int64()
        assert schema.field("timestamp").type == pyarrow.timestamp("ms", tz="UTC")
        assert schema.field("timestamp_type").type == pyarrow.int32()
        assert schema.field("key").type == pyarrow.binary()
        assert schema.field("value").type == pyarrow.binary()
        header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
        assert schema.field("headers").type == pyarrow.list_(header)
        assert schema.field("leader_epoch").type == pyarrow.int32()


@pytest.mark.parametrize("columns", [*[[name] for name in COLUMNS], ["value", "key"], ["offset", "headers", "topic"]])
def test_columns_can_be_picked(twin: ModuleType, columns: list[str]) -> None:
    chunks = taken(twin)
    batch = to_arrow(chunks, columns)
    batch.validate(full=True)
    assert batch.schema.names == columns
    assert batch.to_pylist() == [{name: row[name] for name in columns} for row in expected_rows(chunks)]


def test_an_unknown_column_is_an_error(twin: ModuleType) -> None:
    with pytest.raises(ValueError, match="'colour'"):
        to_arrow(taken(twin), ["colour"])


def test_nothing_is_an_empty_batch() -> None:
    assert to_arrow([]).num_rows == 0


def test_deserialized_chunks_give_their_raw_bytes(twin: ModuleType) -> None:
    chunk = twin.RecordCursor(batch(b"1", b"2"), "t", 0, 0, value_deserializer=bind_deserializer("value", int)).take()
    assert to_arrow([chunk], ["value"]).to_pylist() == [{"value": b"1"}, {"value": b"2"}]


def test_header_names_that_are_not_utf8_are_replaced(twin: ModuleType) -> None:
    data = bytearray(rich_batch())
    data[data.index("ключ".encode())] = 0xFF
    chunk = twin.RecordCursor(resealed(data), "t", 0, 0).take()
    arrow = to_arrow([chunk])
    arrow.validate(full=True)
    assert arrow.to_pylist() == expected_rows([chunk])


def test_columns_outlive_what_they_were_made_of(twin: ModuleType) -> None:
    arrow = to_arrow(taken(twin))
    assert arrow.to_pylist() == expected_rows(taken(twin))


def test_without_pyarrow_the_error_says_what_to_install(twin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'kclient\[arrow\]'"):
        to_arrow(taken(twin))
