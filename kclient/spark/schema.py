"""The columns that Spark sees, which are those of its own Kafka connector, in Spark's words and in Arrow's.

Spark compares the two exactly: an Arrow batch must have the types, names and nullability that Spark derives from what
the source declares. Leaves out how the columns are filled (`arrow`), and what a writer takes (`writer`).
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
"""All columns there are, in the connector's order, with their types as Spark spells them."""

HEADERS = "headers"


def default_columns(include_headers: bool) -> tuple[str, ...]:
    """The connector's columns; it has headers only where they are asked for."""
    return tuple(name for name in COLUMNS if include_headers or name != HEADERS)


def parse_columns(text: str) -> tuple[str, ...]:
    """Names separated by commas, in the order wanted, in any case.

    Raises:
        OptionError: there is no such column, or it is named twice.
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
    """The schema as Spark takes it from a source."""
    return ", ".join(f"{name} {COLUMNS[name]}" for name in columns)


def check_schema(schema: StructType, columns: Sequence[str]) -> None:
    """See that Spark asks for what the source declares: it has one schema, which users cannot replace.

    Raises:
        SourceError: it asks for another one.
    """
    expected = f"struct<{','.join(f'{name}:{COLUMNS[name]}' for name in columns)}>"
    if schema.simpleString() != expected:
        raise SourceError(
            f"this source has a schema of its own, {ddl(columns)}; leave out .schema(...), choose columns with the "
            "option columns, and cast or decode them after load()"
        )


def arrow_schema(columns: Sequence[str]) -> pyarrow.Schema:
    """The schema that batches must have, as Spark derives it from `ddl`."""
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
