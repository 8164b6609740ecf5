"""JSON with a schema: what is written is validated, what is read is taken as it is.

The column's type comes from `type`, `properties`, `items`, `additionalProperties`, and references within the schema or
to others of the registry. Leaves out alternatives: `anyOf` and `oneOf` are known only for something that may be null.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from kclient.spark.values.columns import references
from kclient.spark.values.errors import ValueSchemaError

if TYPE_CHECKING:
    import pyarrow
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient


def make(client: SchemaRegistryClient, schema: Schema, message: str | None) -> Json:
    """A codec of this schema."""
    others = {name: json.loads(other.schema_str or "") for name, other in references(client, schema).items()}
    return Json(json.loads(schema.schema_str or ""), others)


class Json:
    """JSON, with the schema of a column.

    Parameters:
        schema: the schema.
        others: those it refers to, by name.
    """

    def __init__(self, schema: Any, others: dict[str, Any]) -> None:
        from jsonschema.validators import validator_for
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT7

        self._schema = schema
        self._others = others
        resources = [(name, Resource.from_contents(each, DRAFT7)) for name, each in others.items()]
        self._validator = validator_for(schema)(schema, registry=Registry().with_resources(resources))
        self._type: pyarrow.DataType | None = None

    def arrow_type(self) -> pyarrow.DataType:
        """What the column is."""
        if self._type is None:
            self._type = self._arrow(self._schema, self._schema, ())
        return self._type

    def reader(self, written: Schema) -> Any:
        """JSON says itself what it is."""
        return None

    def decode(self, data: memoryview, reader: Any) -> Any:
        """The value."""
        return msgspec.json.decode(data)

    def encode(self, value: Any) -> bytes:
        """The value, if it is valid; what is null is left out."""
        kept = _without_nulls(value)
        # To JSON and back: the validator knows no dates.
        data = msgspec.json.encode(kept)
        self._validator.validate(msgspec.json.decode(data))
        return data

    def _arrow(self, schema: Any, root: Any, inside: tuple[str, ...]) -> pyarrow.DataType:
        import pyarrow

        if "$ref" in schema:
            reference = schema["$ref"]
            if reference in inside:
                raise ValueSchemaError(f"{reference} contains itself, and no type in Spark does")
            found, root = self._found(reference, root)
            return self._arrow(found, root, (*inside, reference))
        kinds = schema.get("type") or _alternatives(schema)
        chosen = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind not in ("null", None)]
        chosen = [kind for kind in chosen if kind != {"type": "null"}]
        if len(chosen) != 1:
            raise ValueSchemaError(f"this has no one type in Spark: {json.dumps(schema)[:200]}")
        kind = chosen[0]
        if isinstance(kind, dict):
            return self._arrow(kind, root, inside)
        if kind == "object" and "properties" in schema:
            fields = [(name, self._arrow(each, root, inside)) for name, each in schema["properties"].items()]
            return pyarrow.struct(fields)
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return pyarrow.map_(pyarrow.string(), self._arrow(schema["additionalProperties"], root, inside))
        if kind == "array" and isinstance(schema.get("items"), dict):
            return pyarrow.list_(self._arrow(schema["items"], root, inside))
        simple = {
            "string": pyarrow.string(),
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "boolean": pyarrow.bool_(),
        }
        if kind not in simple:
            raise ValueSchemaError(f"nothing is said of what is in this {kind}: {json.dumps(schema)[:200]}")
        return simple[kind]

    def _found(self, reference: str, root: Any) -> tuple[Any, Any]:
        name, _, path = reference.partition("#")
        if name:
            if name not in self._others:
                raise ValueSchemaError(f"the schema refers to {name!r}, and the registry does not know of that")
            root = self._others[name]
        found = root
        for step in filter(None, path.split("/")):
            if not isinstance(found, dict) or step not in found:
                raise ValueSchemaError(f"the schema refers to {reference!r}, and there is nothing")
            found = found[step]
        return found, root


def _alternatives(schema: Any) -> Any:
    if "properties" in schema:
        return "object"
    if "enum" in schema:
        return "string" if all(isinstance(each, str) for each in schema["enum"]) else None
    return schema.get("anyOf") or schema.get("oneOf")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value
