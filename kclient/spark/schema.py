"""The columns for Spark, which are those of its own Kafka connector, in Spark's and Arrow's types.

Spark requires that an Arrow batch has exactly the types, names and nullability of the declared schema. Elsewhere:
filling the columns (`arrow`), and the columns of a writer (`record_columns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kclient.spark.errors import OptionError, SourceError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""All columns in the connector's order, with their Spark types."""

HEADERS = "headers"


def default_columns(include_headers: bool) -> tuple[str, ...]:
    """Return the connector's columns; headers only if requested."""
    return tuple(name for name in COLUMNS if include_headers or name != HEADERS)


def parse_columns(text: str) -> tuple[str, ...]:
    """Parse names separated by commas, in any case; the order is kept.

    Raises:
        OptionError: a column does not exist or occurs twice.
    """
    known = {name.lower(): name for name in COLUMNS}
    chosen: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        column = known.get(name.lower())
        if column is None:
            raise OptionError(f"columns: there is no column {name!r}; there are {', '.join(COLUMNS)}")
        if column in chosen:
            raise OptionError(f"columns: {column} is named twice")
        chosen.append(column)
    return tuple(chosen)


def ddl(columns: Sequence[str]) -> str:
    """Return the schema in Spark's DDL."""
    return ", ".join(f"{name} {COLUMNS[name]}" for name in columns)


def check_schema(schema: StructType, columns: Sequence[str]) -> None:
    """Check that Spark requests the declared schema, which users cannot replace.

    Raises:
        SourceError: it requests another one.
    """
    expected = f"struct<{','.join(f'{name}:{COLUMNS[name]}' for name in columns)}>"
    if schema.simpleString() != expected:
        raise SourceError(
            f"this source has its own schema, {ddl(columns)}; remove .schema(...), choose columns with the "
            "option columns, and cast or decode them after load()"
        )


def arrow_schema(columns: Sequence[str]) -> pyarrow.Schema:
    """Return the schema of batches, as Spark derives it from `ddl`."""
    import pyarrow

    types: dict[str, Any] = {
        "binary": pyarrow.binary(),
        "string": pyarrow.string(),
        "int": pyarrow.int32(),
        "bigint": pyarrow.int64(),
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
    }
    header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    types[COLUMNS[HEADERS]] = pyarrow.list_(pyarrow.field("element", header))
    return pyarrow.schema([(name, types[COLUMNS[name]]) for name in columns])
