"""Arrow data as records to send: the columns of the parts of a record, and their checks.

The reverse of `arrow`. What pyarrow can check (types, casts, nulls, ranges) is checked here, by column; the twins of
`ArrowRows` then read rows from the resulting binary columns, integers and lists of headers. Serializers are not used:
keys and values are bytes or text. Elsewhere: appending rows (`kclient.producer.rows`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kclient.records.arrow import INT32_MAX, require_pyarrow

__all__ = ["RowColumns", "arrow_pieces", "row_arguments"]

INT64_MAX = 2**63 - 1


class RowColumns(NamedTuple):
    """The names of the columns of the parts of records; None for parts without a column."""

    value: str | None = "value"
    key: str | None = None
    headers: str | None = None
    partition: str | None = None
    timestamp: str | None = None
    topic: str | None = None


def arrow_pieces(data: Any) -> list[Any]:
    """Return the non-empty `pyarrow.RecordBatch`es of Arrow data.

    Parameters:
        data: a RecordBatch or Table of pyarrow's, or any object with the Arrow PyCapsule interface, such as those of
            polars, DuckDB and pandas.

    Raises:
        ImportError: pyarrow is not installed.
        TypeError: it is not Arrow data.
    """
    pyarrow = require_pyarrow("send_arrow")
    if isinstance(data, pyarrow.RecordBatch):
        return [data] if data.num_rows else []
    if not isinstance(data, pyarrow.Table):
        if isinstance(data, pyarrow.RecordBatchReader):
            data = data.read_all()
        elif hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            data = pyarrow.table(data)
        else:
            raise TypeError(f"send_arrow takes a table or record batch of Arrow data, not {type(data).__name__}")
    return [piece for piece in data.to_batches() if piece.num_rows]


def row_arguments(piece: Any, columns: RowColumns, topic: str | None, first: int) -> dict[str, Any]:
    """Return the arguments of `ArrowRows` for one record batch.

    Parameters:
        piece: a `pyarrow.RecordBatch` that is not empty.
        topic: the topic of all rows; None if there is a column of topics.
        first: the position of its first row in all the data.

    Raises:
        TypeError: the type of a column does not fit.
        ValueError: a column does not exist, or a row is invalid; the message names it.
    """
    pyarrow = require_pyarrow("send_arrow")
    reading = _Reading(pyarrow, piece, first)
    names, topics = reading.topics(columns.topic) if topic is None else ([topic], None)
    return {
        "first": first,
        "length": piece.num_rows,
        "names": names,
        "topics": topics,
        "value": reading.binary("value", columns.value),
        "key": reading.binary("key", columns.key),
        "headers": reading.headers(columns.headers),
        "partitions": reading.partitions(columns.partition),
        "timestamps": reading.timestamps(columns.timestamp),
    }


class _Reading:
    """The columns of one record batch, by purpose."""

    def __init__(self, pyarrow: Any, piece: Any, first: int) -> None:
        self._pyarrow = pyarrow
        self._piece = piece
        self._first = first

    def _column(self, part: str, name: str | None) -> Any:
        """Return the column of this name; None without a name, or if all of it is null."""
        if name is None:
            return None
        places = self._piece.schema.get_all_field_indices(name)
        if len(places) != 1:
            have = ", ".join(self._piece.schema.names)
            found = "no column" if not places else "more than one column"
            raise ValueError(f"there is {found} {name!r} to take the {part} from; the columns are {have}")
        column = self._piece.column(places[0])
        if self._pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return None if self._pyarrow.types.is_null(column.type) else column

    def _cast(self, part: str, name: str | None, column: Any, of_type: Any, wanted: str) -> Any:
        try:
            return column if column.type.equals(of_type) else column.cast(of_type)
        except (self._pyarrow.ArrowInvalid, self._pyarrow.ArrowNotImplementedError, ValueError) as error:
            raise TypeError(
                f"column {name!r} is {column.type}, and the {part} of a record is {wanted}: {error}"
            ) from None

    def binary(self, part: str, name: str | None) -> Any:
        """Return a column of bytes or text."""
        column = self._column(part, name)
        if column is None:
            return None
        types = self._pyarrow.types
        kind = column.type
        if types.is_binary(kind) or types.is_large_binary(kind) or types.is_string(kind) or types.is_large_string(kind):
            return column
        if types.is_fixed_size_binary(kind) or kind in (_view(self._pyarrow, "binary"), _view(self._pyarrow, "string")):
            return self._cast(part, name, column, self._pyarrow.large_binary(), "binary or a string")
        raise TypeError(
            f"column {name!r} is {kind}, and the {part} of a record is binary or a string: cast or encode it first"
        )

    def headers(self, name: str | None) -> Any:
        """Return a column of lists of headers."""
        column = self._column("headers", name)
        if column is None:
            return None
        header = self._pyarrow.struct([("key", self._pyarrow.string()), ("value", self._pyarrow.binary())])
        wanted = "a list of structs of key (string) and value (binary)"
        column = self._cast("headers", name, column, self._pyarrow.list_(header), wanted)
        pairs = column.values
        names = pairs.field(0)
        if pairs.null_count:
            # A null struct may have a name underneath.
            import pyarrow.compute

            names = pyarrow.compute.if_else(pairs.is_valid(), names, self._pyarrow.scalar(None, names.type))
        return column, names, pairs.field(1)

    def partitions(self, name: str | None) -> Any:
        """Return a column of partition numbers, or null."""
        column = self._column("partition", name)
        if column is None:
            return None
        self._check_whole("partition", name, column, INT32_MAX, "a whole number")
        return column.cast(self._pyarrow.int32())

    def timestamps(self, name: str | None) -> Any:
        """Return a column of times or of milliseconds since the epoch, or null."""
        column = self._column("timestamp", name)
        if column is None:
            return None
        if self._pyarrow.types.is_timestamp(column.type):
            # Fractions of a millisecond are cut off: records have none.
            column = column.cast(self._pyarrow.timestamp("ms", column.type.tz), safe=False).view(self._pyarrow.int64())
        self._check_whole("timestamp", name, column, INT64_MAX, "a timestamp or milliseconds since the epoch")
        return column.cast(self._pyarrow.int64())

    def _check_whole(self, part: str, name: str | None, column: Any, largest: int, wanted: str) -> None:
        """Check that the values are integers from 0 to the largest one, or null."""
        import pyarrow.compute

        if not self._pyarrow.types.is_integer(column.type):
            raise TypeError(f"column {name!r} is {column.type}, and the {part} of a record is {wanted}")
        bounds = pyarrow.compute.min_max(column).as_py()
        if bounds["min"] is not None and (bounds["min"] < 0 or bounds["max"] > largest):
            wrong = bounds["min"] if bounds["min"] < 0 else bounds["max"]
            row = column.index(wrong).as_py()
            bound = "0 or more" if wrong < 0 else f"at most {largest}"
            raise ValueError(f"row {self._first + row}: the {part} must be {bound}, not {wrong}")

    def topics(self, name: str | None) -> tuple[list[str], Any]:
        """Return the names in a column of topics, and for each row the index of its name."""
        column = self._column("topic", name)
        if column is None or column.null_count:
            row = 0 if column is None else column.is_null().index(True).as_py()
            raise ValueError(f"row {self._first + row}: the topic is null")
        text = self._cast("topic", name, column, self._pyarrow.string(), "a string")
        encoded = text.dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.cast(self._pyarrow.int32())


def _view(pyarrow: Any, kind: str) -> Any:
    """Return the type of binary or string views; None if pyarrow is too old for it."""
    make = getattr(pyarrow, f"{kind}_view", None)
    return None if make is None else make()
