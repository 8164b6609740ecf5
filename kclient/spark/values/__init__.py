"""Columns of values that were written with a schema registry: Avro, JSON and Protobuf in Confluent's framing.

    orders.select(from_registry("value", subject="orders-value", registry="http://localhost:8081").alias("order"))
    rows.select(to_registry(struct("id", "amount"), subject="orders-value", registry=registry).alias("value"))

The column's type is made of the subject's schema when the query is built, in the driver. Each value is read by the
schema it was written with, which the executors fetch and keep; fields that the column has not are left out, and those
that the value has not are null, or the default in Avro. Schemas are not registered here: a subject has one before rows
are written to it. Leaves out unions of several types, recursive types, and schema rules.
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
        subject: whose schema says what the column is: a struct, as a rule.
        registry: its URL, or the configuration of confluent-kafka's SchemaRegistryClient.
        version: of the subject; None for the latest one there is now.
        message: of Protobuf, the full name of the message; None for the first one of the file.
        on_error: what becomes of a value that cannot be decoded, or is another message of Protobuf: "raise" fails the
            query, "null" makes it null. A registry that does not answer fails it in any case.

    Raises:
        ValueSchemaError: the registry has no such schema, or it has no type in Spark.
        SourceError: the registry does not answer, or its configuration is wrong.
    """
    from pyspark.sql.functions import arrow_udf

    if on_error not in ("raise", "null"):
        raise ValueSchemaError(f"on_error must be raise or null, not {on_error!r}")
    values = Values.of(registry, subject, version, message)
    is_lenient = on_error == "null"

    # Spark's plans show the function by its name.
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
    """Encode a column as binary values, which name the schema they are written with.

    Parameters:
        column: what the subject's schema describes, a struct as a rule; null stays null.
        subject, registry, version, message: as for `from_registry`.

    Raises:
        ValueSchemaError: the registry has no such schema, or it has no type in Spark.
        SourceError: the registry does not answer, or its configuration is wrong.
    """
    from pyspark.sql.functions import arrow_udf

    values = Values.of(registry, subject, version, message)
    # What has no type in Spark is told here, in the driver, not by each executor.
    values.codec().arrow_type()

    def to_registry(column: pyarrow.Array) -> pyarrow.Array:
        return encode(values, column)

    return arrow_udf(_typed(to_registry), returnType="binary")(column)


def _typed(function: Callable[[pyarrow.Array], pyarrow.Array]) -> Callable[[pyarrow.Array], pyarrow.Array]:
    """With annotations that are types: Spark reads from them what kind of function this is."""
    import pyarrow

    function.__annotations__ = {"column": pyarrow.Array, "return": pyarrow.Array}
    return function
