"""Avro: fastavro encodes and decodes; this module maps its types to Spark's.

A value of another schema version is resolved to the column's schema by the rules of Avro: aliases, promotion, defaults.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from kclient.spark.values.columns import references
from kclient.spark.values.errors import ValueSchemaError

if TYPE_CHECKING:
    import pyarrow
    from confluent_kafka.schema_registry import Schema

    from kclient.spark.values.columns import Registry

LOGICAL = (
    "date",
    "timestamp-millis",
    "timestamp-micros",
    "local-timestamp-millis",
    "local-timestamp-micros",
    "decimal",
)
"""The logical types that exist in Spark; others appear as their underlying types."""


def make(registry: Registry, schema: Schema, message: str | None) -> Avro:
    """Return a codec of this schema."""
    return Avro(registry, schema)


class Avro:
    """The Avro codec for the schema of a column."""

    def __init__(self, registry: Registry, schema: Schema) -> None:
        self._registry = registry
        self._schema, self._named = self._parsed(schema)
        self._type: pyarrow.DataType | None = None

    def _parsed(self, schema: Schema) -> tuple[Any, dict[str, Any]]:
        from fastavro import parse_schema

        named: dict[str, Any] = {}
        for other in references(self._registry, schema).values():
            parse_schema(_known_logical(json.loads(other.schema_str or "")), named_schemas=named)
        return parse_schema(_known_logical(json.loads(schema.schema_str or "")), named_schemas=named), named

    def arrow_type(self) -> pyarrow.DataType:
        """Return the type of the column."""
        if self._type is None:
            self._type = _arrow(self._schema, self._named, ())
        return self._type

    def reader(self, written: Schema) -> Any:
        """Return the schema with which values were written."""
        return self._parsed(written)[0]

    def decode(self, data: memoryview, reader: Any) -> Any:
        """Return the value, resolved to the column's schema."""
        from fastavro import schemaless_reader

        return schemaless_reader(io.BytesIO(data), reader, self._schema)

    def encode(self, value: Any) -> bytes:
        """Encode the value with the column's schema."""
        from fastavro import schemaless_writer

        out = io.BytesIO()
        schemaless_writer(out, self._schema, value)
        return out.getvalue()


def _known_logical(schema: Any) -> Any:
    """Return the schema without logical types that Spark lacks."""
    if isinstance(schema, list):
        return [_known_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        name: _known_logical(each) if name in ("type", "items", "values") else each for name, each in schema.items()
    }
    if "fields" in plain:
        plain["fields"] = [_known_logical(field) for field in plain["fields"]]
    if plain.get("logicalType") not in LOGICAL:
        plain.pop("logicalType", None)
    return plain


def _arrow(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> pyarrow.DataType:
    import pyarrow

    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise ValueSchemaError(f"Spark has no type for a union of several types: {json.dumps(kinds, default=str)}")
        return _arrow(kinds[0], named, inside)
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    kind = schema["type"]
    if schema.get("logicalType"):
        return _logical(schema)
    if kind in ("record", "error"):
        name = schema["name"]
        if name in inside:
            raise ValueSchemaError(f"record {name} contains itself; Spark has no recursive types")
        fields = [(field["name"], _arrow(field["type"], named, (*inside, name))) for field in schema["fields"]]
        return pyarrow.struct(fields)
    if kind == "array":
        return pyarrow.list_(_arrow(schema["items"], named, inside))
    if kind == "map":
        return pyarrow.map_(pyarrow.string(), _arrow(schema["values"], named, inside))
    simple = {
        "null": pyarrow.string(),
        "boolean": pyarrow.bool_(),
        "int": pyarrow.int32(),
        "long": pyarrow.int64(),
        "float": pyarrow.float32(),
        "double": pyarrow.float64(),
        "bytes": pyarrow.binary(),
        "fixed": pyarrow.binary(),
        "string": pyarrow.string(),
        "enum": pyarrow.string(),
    }
    return simple[kind] if isinstance(kind, str) and kind in simple else _arrow(kind, named, inside)


def _logical(schema: dict[str, Any]) -> pyarrow.DataType:
    import pyarrow

    logical = schema["logicalType"]
    if logical == "date":
        return pyarrow.date32()
    if logical == "decimal":
        return pyarrow.decimal128(schema["precision"], schema.get("scale", 0))
    return pyarrow.timestamp("us") if logical.startswith("local") else pyarrow.timestamp("us", tz="UTC")
