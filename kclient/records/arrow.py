"""Fetched records as Arrow columns, for Spark, polars, DuckDB and pandas.

pyarrow is imported on first use; `pip install kclient[arrow]` installs it. The compiled twin fills the columns' buffers
directly from the fetched bytes; the pure one creates Python objects. Deserializers are not used: keys and values are
the raw bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from kclient.records import pure

__all__ = ["COLUMNS", "to_arrow"]

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "leader_epoch")
"""The available columns, in order."""

INT32_MAX = 2**31 - 1


def to_arrow(chunks: Iterable[Any], columns: Sequence[str] | None = None) -> Any:
    """Return one `pyarrow.RecordBatch` with the records of `chunks` (`RecordChunk`s) in order.

    Schema:
        topic: dictionary of string, indexed by int32
        partition: int32
        offset: int64
        timestamp: timestamp in milliseconds, UTC; null when a record has none
        timestamp_type: int32 (0 CreateTime, 1 LogAppendTime, -1 none)
        key, value: binary, null for null; large_binary when they hold more than 2 GiB together
        headers: list of struct of key (string) and value (binary)
        leader_epoch: int32, null if unknown

    Parameters:
        columns: the columns wanted, in the order wanted; all of them by default.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: there is no such column.
    """
    pyarrow = require_pyarrow("to_arrow")
    wanted = COLUMNS if columns is None else tuple(columns)
    for column in wanted:
        if column not in COLUMNS:
            raise ValueError(f"there is no column {column!r}; the columns are {', '.join(COLUMNS)}")
    pieces = list(chunks)
    if all(isinstance(piece, pure.RecordChunk) for piece in pieces):
        arrays = _python_arrays(pyarrow, pieces, wanted)
    else:
        compiled = importlib.import_module("kclient.records._compiled")
        arrays = compiled.arrow_arrays(pyarrow, pieces, wanted)
    return pyarrow.RecordBatch.from_arrays(arrays, names=list(wanted))


def require_pyarrow(what: str) -> Any:
    """Return the module.

    Raises:
        ImportError: it is not installed; `what` needs it.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{what} needs pyarrow; install the extra: pip install 'kclient[arrow]'") from error
    return pyarrow


def column_types(pyarrow: Any) -> dict[str, Any]:
    """Return the type of every column; binary ones for less than 2 GiB."""
    header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    return {
        "topic": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
        "partition": pyarrow.int32(),
        "offset": pyarrow.int64(),
        "timestamp": pyarrow.timestamp("ms", tz="UTC"),
        "timestamp_type": pyarrow.int32(),
        "key": pyarrow.binary(),
        "value": pyarrow.binary(),
        "headers": pyarrow.list_(header),
        "leader_epoch": pyarrow.int32(),
    }


def _python_arrays(pyarrow: Any, chunks: list[Any], columns: Sequence[str]) -> list[Any]:
    types = column_types(pyarrow)
    data = pure.chunk_columns(chunks, columns)
    arrays = []
    for column in columns:
        values = data[column]
        if column == "topic":
            arrays.append(pyarrow.array(values, pyarrow.string()).dictionary_encode().cast(types[column]))
            continue
        if column == "timestamp":
            values = [None if value == -1 else value for value in values]
        elif column == "headers":
            values = [[{"key": name, "value": value} for name, value in headers] for headers in values]
        of_type = types[column]
        if column in ("key", "value") and sum(len(value or b"") for value in values) > INT32_MAX:
            of_type = pyarrow.large_binary()
        arrays.append(pyarrow.array(values, of_type))
    return arrays
