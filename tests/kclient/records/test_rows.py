"""Arrow data as records to send, alike in both twins: what a row becomes, and what cannot be a record."""

from __future__ import annotations

import datetime
from types import ModuleType
from typing import Any

import pytest

from kclient.records import RowColumns, arrow_pieces, row_arguments

pyarrow = pytest.importorskip("pyarrow")

HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


def rows_of(twin: ModuleType, batch: Any, to: str | None = "t", first: int = 0, **columns: str | None) -> Any:
    return twin.ArrowRows(**row_arguments(batch, RowColumns(**columns), to, first))


def records(rows: Any) -> list[Any]:
    return [rows.record(row) for row in range(len(rows))]


def values(twin: ModuleType, column: Any) -> list[Any]:
    return [value for _, value, *_ in records(rows_of(twin, pyarrow.record_batch({"value": column})))]


def test_a_row_has_the_arguments_of_send(twin: ModuleType) -> None:
    batch = pyarrow.record_batch(
        {
            "v": pyarrow.array([b"one", None, b""], pyarrow.binary()),
            "k": pyarrow.array(["ключ", "", None], pyarrow.string()),
            "h": pyarrow.array([[("a", b"1"), ("ö", None)], None, []], HEADERS),
            "p": pyarrow.array([3, None, 0], pyarrow.int64()),
            "w": pyarrow.array([1234567, None, 0], pyarrow.timestamp("us", tz="UTC")),
            "t": pyarrow.array(["x", "y", "x"]),
        }
    )
    rows = rows_of(twin, batch, None, value="v", key="k", headers="h", partition="p", timestamp="w", topic="t")
    assert records(rows) == [
        ("x", b"one", "ключ".encode(), (("a", b"1"), ("ö", None)), 3, 1234),
        ("y", None, b"", (), None, None),
        ("x", b"", None, (), 0, 0),
    ]
    assert len(rows) == 3


@pytest.mark.parametrize("kind", ["binary", "large_binary", "string", "large_string", "binary_view", "string_view"])
def test_every_kind_of_bytes_and_text_is_taken(twin: ModuleType, kind: str) -> None:
    if not hasattr(pyarrow, kind):
        pytest.skip(f"this pyarrow has no {kind}")
    column = pyarrow.array(["a", None, "", "x" * 300], pyarrow.string()).cast(getattr(pyarrow, kind)())
    assert values(twin, column) == [b"a", None, b"", b"x" * 300]


def test_dictionaries_fixed_sizes_and_nothing_but_nulls_are_taken(twin: ModuleType) -> None:
    assert values(twin, pyarrow.array(["a", "b", None, "a"]).dictionary_encode()) == [b"a", b"b", None, b"a"]
    assert values(twin, pyarrow.array([b"ab", None], pyarrow.binary(2))) == [b"ab", None]
    assert values(twin, pyarrow.nulls(2)) == [None, None]
    assert values(twin, pyarrow.array(["", ""])) == [b"", b""]
    assert values(twin, pyarrow.nulls(2, pyarrow.binary())) == [None, None]


@pytest.mark.parametrize("start", [0, 1, 9, 30])
def test_a_slice_has_its_own_rows(twin: ModuleType, start: int) -> None:
    def optional(number: int, value: Any) -> Any:
        return None if number % 7 == 3 else value

    whole = pyarrow.record_batch(
        {
            "value": pyarrow.array([optional(n, b"%d" % n) for n in range(40)], pyarrow.binary()),
            "key": pyarrow.array([optional(n + 1, f"k{n}") for n in range(40)], pyarrow.large_string()),
            "h": pyarrow.array([optional(n + 2, [(f"h{n}", b"x" * n)] * (n % 3)) for n in range(40)], HEADERS),
            "p": pyarrow.array([optional(n + 3, n) for n in range(40)], pyarrow.int32()),
            "w": pyarrow.array([optional(n + 4, n) for n in range(40)], pyarrow.int64()),
        }
    )
    columns: dict[str, Any] = {"key": "key", "headers": "h", "partition": "p", "timestamp": "w"}
    everything = records(rows_of(twin, whole, **columns))
    assert everything[4] == ("t", b"4", b"k4", (("h4", b"xxxx"),), 4, 4)
    assert records(rows_of(twin, whole.slice(start, 8), **columns)) == everything[start : start + 8]


def test_timestamps_are_cut_to_milliseconds_or_are_milliseconds(twin: ModuleType) -> None:
    when = datetime.datetime(2024, 5, 1, 12, 0, 0, 123456, datetime.UTC)
    for column in (
        pyarrow.array([when], pyarrow.timestamp("ns")),
        pyarrow.array([when], pyarrow.timestamp("us", tz="Europe/Berlin")),
        pyarrow.array([1714564800123], pyarrow.uint64()),
    ):
        batch = pyarrow.record_batch({"value": pyarrow.array(["v"]), "w": column})
        (record,) = records(rows_of(twin, batch, timestamp="w"))
        assert record[-1] == 1714564800123


def test_the_largest_row_is_found(twin: ModuleType) -> None:
    batch = pyarrow.record_batch(
        {
            "value": pyarrow.array([b"x" * 50, None, b"x" * 40], pyarrow.binary()),
            "key": pyarrow.array([None, b"x" * 51, b"x" * 9], pyarrow.binary()),
            "h": pyarrow.array([None, None, [("ab", b"c"), ("d", None)]], HEADERS),
        }
    )
    assert rows_of(twin, batch, key="key").largest() == (1, 51)
    assert rows_of(twin, batch, key="key", headers="h").largest() == (2, 73)


@pytest.mark.parametrize("headers", [[("a", b"1"), (None, b"2")], [("a", b"1"), None]], ids=["no name", "no header"])
def test_a_header_without_a_name_is_refused_with_its_row(twin: ModuleType, headers: Any) -> None:
    batch = pyarrow.record_batch(
        {"value": pyarrow.array(["x", "y"]), "h": pyarrow.array([[("a", b"1")], headers], HEADERS)}
    )
    with pytest.raises(ValueError, match="row 11: a header has no key"):
        rows_of(twin, batch, first=10, headers="h").largest()


@pytest.mark.parametrize(
    ("column", "part", "message"),
    [
        (pyarrow.array([1, 2]), "value", "column 'c' is int64, and the value of a record is binary or a string"),
        (pyarrow.array([1.5, 2]), "key", "column 'c' is double, and the key"),
        (pyarrow.array(["0", "1"]), "partition", "column 'c' is string, and the partition of a record is a whole"),
        (pyarrow.array(["0", "1"]), "timestamp", "the timestamp of a record is a timestamp or milliseconds"),
        (pyarrow.array(["a", "b"]), "headers", "the headers of a record is a list of structs of key"),
        (pyarrow.array([[1], [2]]), "headers", "a list of structs"),
        (pyarrow.array([[1], [2]]), "topic", "the topic of a record is a string"),
    ],
    ids=str,
)
def test_a_column_of_the_wrong_type_is_named(column: Any, part: str, message: str) -> None:
    batch = pyarrow.record_batch({"c": column, "value": pyarrow.array(["x", "y"])})
    with pytest.raises(TypeError, match=message):
        row_arguments(batch, RowColumns(**{part: "c"}), None if part == "topic" else "t", 0)


@pytest.mark.parametrize(
    ("column", "part", "message"),
    [
        (pyarrow.array([0, -2]), "partition", "row 6: the partition must be 0 or more, not -2"),
        (pyarrow.array([0, 2**31]), "partition", "row 6: the partition must be at most 2147483647, not 2147483648"),
        (pyarrow.array([None, -1], pyarrow.int64()), "timestamp", "row 6: the timestamp must be 0 or more, not -1"),
        (pyarrow.array(["t", None]), "topic", "row 6: the topic is null"),
    ],
    ids=str,
)
def test_a_row_that_cannot_be_a_record_is_named(column: Any, part: str, message: str) -> None:
    batch = pyarrow.record_batch({"c": column, "value": pyarrow.array(["x", "y"])})
    with pytest.raises(ValueError, match=message):
        row_arguments(batch, RowColumns(**{part: "c"}), None if part == "topic" else "t", 5)


def test_a_column_that_does_not_exist_is_named_with_those_that_do() -> None:
    batch = pyarrow.record_batch({"a": pyarrow.array(["x"]), "b": pyarrow.array(["x"])})
    with pytest.raises(ValueError, match="no column 'value' to take the value from; the columns are a, b"):
        row_arguments(batch, RowColumns(), "t", 0)
    twice = pyarrow.RecordBatch.from_arrays([batch.column(0)] * 2, names=["value", "value"])
    with pytest.raises(ValueError, match="more than one column 'value'"):
        row_arguments(twice, RowColumns(), "t", 0)


class Foreign:
    """Arrow data of another library: all it has is the interface."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def test_data_comes_as_batches_tables_readers_and_by_the_interface() -> None:
    batch = pyarrow.record_batch({"value": pyarrow.array(["x", "y"])})
    table = pyarrow.Table.from_batches([batch, batch.slice(0, 0), batch.slice(1)])
    assert [piece.num_rows for piece in arrow_pieces(table)] == [2, 1]
    assert [piece.num_rows for piece in arrow_pieces(table.to_reader())] == [2, 1]
    assert sum(piece.num_rows for piece in arrow_pieces(Foreign(table))) == 3
    assert arrow_pieces(batch) == [batch]
    assert arrow_pieces(batch.slice(2)) == []
    with pytest.raises(TypeError, match="Arrow data, not list"):
        arrow_pieces([{"value": b"x"}])
