"""Columns of values with a schema registry: Avro, JSON and Protobuf in Confluent's format.

    orders.select(from_registry("value", subject="orders-value", registry="http://localhost:8081").alias("order"))
    rows.select(to_registry(struct("id", "amount"), subject="orders-value", registry=registry).alias("value"))

The driver derives the type of the column from the subject's schema when the query is built. Each value is decoded with
the schema with which it was written, which executors fetch and cache. Fields that the column lacks are dropped, and
those that the value lacks are null, or Avro's default. Not implemented: registration of schemas, unions of several
types, recursive types, and schema rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kclient.spark.values.columns import Values, decode, encode
from kclient.spark.values.errors import ValueSchemaError
from kclient.spark.values.types import ddl

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column

__all__ = ["ValueSchemaError", "from_registry", "to_registry"]


def from_registry(
    column: Column | str,
    *,
    subject: str,
    registry: str | Mapping[str, object],
    version: int | None = None,
    message: str | None = None,
    on_error: str = "raise",
) -> Column:
    """Decode a column of binary values.

    Parameters:
        column: the values, or keys; null stays null.
        subject: the subject with the schema of the column, usually a struct.
        registry: its URL, or the configuration of confluent-kafka's SchemaRegistryClient.
        version: the version of the schema; None for the current latest one.
        message: for Protobuf, the full name of the message; None for the first one of the file.
        on_error: "raise" fails the query at a value that cannot be decoded, or is another message of Protobuf; "null"
            makes it null. A registry that does not respond fails it in any case.

    Raises:
        ValueSchemaError: the registry has no such schema, or it has no type in Spark.
        SourceError: the registry does not respond, or its configuration is wrong.
    """
    from pyspark.sql.functions import arrow_udf

    if on_error not in ("raise", "null"):
        raise ValueSchemaError(f"on_error must be raise or null, not {on_error!r}")
    values = Values.of(registry, subject, version, message)
    is_lenient = on_error == "null"

    # Spark shows the name of the function in plans.
    def from_registry(column: pyarrow.Array) -> pyarrow.Array:
        return decode(values, column, is_lenient)

    return arrow_udf(_typed(from_registry), returnType=ddl(values.codec().arrow_type()))(column)


def to_registry(
    column: Column | str,
    *,
    subject: str,
    registry: str | Mapping[str, object],
    version: int | None = None,
    message: str | None = None,
) -> Column:
    """Encode a column as binary values with the id of the schema.

    Parameters:
        column: values that fit the subject's schema, usually structs; null stays null.
        subject, registry, version, message: as for `from_registry`.

    Raises:
        ValueSchemaError: the registry has no such schema, or it has no type in Spark.
        SourceError: the registry does not respond, or its configuration is wrong.
    """
    from pyspark.sql.functions import arrow_udf

    values = Values.of(registry, subject, version, message)
    # Types that Spark lacks are an error here in the driver, not in each executor.
    values.codec().arrow_type()

    def to_registry(column: pyarrow.Array) -> pyarrow.Array:
        return encode(values, column)

    return arrow_udf(_typed(to_registry), returnType="binary")(column)


def _typed(function: Callable[[pyarrow.Array], pyarrow.Array]) -> Callable[[pyarrow.Array], pyarrow.Array]:
    """Set annotations that are types, from which Spark derives the kind of the function."""
    import pyarrow

    function.__annotations__ = {"column": pyarrow.Array, "return": pyarrow.Array}
    return function
