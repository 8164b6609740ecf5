"""JSON with a schema: written values are validated; values that are read must have the column's type, and are not
validated further.

The type of the column comes from `type`, `properties`, `items`, `additionalProperties`, and references within the
schema or to others of the registry. Not implemented: alternatives (`anyOf`, `oneOf`), except for nullable types.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

from kclient.spark.values.columns import references
from kclient.spark.values.errors import ValueSchemaError

if TYPE_CHECKING:
    import pyarrow
    from confluent_kafka.schema_registry import Schema

    from kclient.spark.values.columns import Registry


_LEAST, _MOST = -(2**63), 2**63 - 1
WHOLE = Annotated[int, Meta(ge=_LEAST, le=_MOST)] | Annotated[float, Meta(ge=_LEAST, lt=2.0**63, multiple_of=1)]
"""JSON integers, including 1.0."""


def make(registry: Registry, schema: Schema, message: str | None) -> Json:
    """Return a codec of this schema."""
    others = {name: json.loads(other.schema_str or "") for name, other in references(registry, schema).items()}
    return Json(json.loads(schema.schema_str or ""), others)


class Json:
    """JSON, with the schema of a column.

    Parameters:
        schema: the schema.
        others: the schemas that it refers to, by name.
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
        self._decoder: msgspec.json.Decoder[Any] | None = None

    def arrow_type(self) -> pyarrow.DataType:
        """Return the type of the column."""
        if self._type is None:
            self._type = self._arrow(self._schema, self._schema, ())
        return self._type

    def reader(self, written: Schema) -> Any:
        """Return nothing: JSON needs no schema to decode."""
        return None

    def decode(self, data: memoryview, reader: Any) -> Any:
        """Return the value."""
        if self._decoder is None:
            self._decoder = msgspec.json.Decoder(_python(self.arrow_type()))
        return self._decoder.decode(data)

    def encode(self, value: Any) -> bytes:
        """Return the value if it is valid; null fields are omitted."""
        kept = _without_nulls(value)
        # To JSON and back, because the validator has no dates.
        data = msgspec.json.encode(kept)
        self._validator.validate(msgspec.json.decode(data))
        return data

    def _arrow(self, schema: Any, root: Any, inside: tuple[str, ...]) -> pyarrow.DataType:
        import pyarrow

        if "$ref" in schema:
            reference = schema["$ref"]
            if reference in inside:
                raise ValueSchemaError(f"{reference} contains itself; Spark has no recursive types")
            found, root = self._found(reference, root)
            return self._arrow(found, root, (*inside, reference))
        kinds = schema.get("type") or _alternatives(schema)
        chosen = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind not in ("null", None)]
        chosen = [kind for kind in chosen if kind != {"type": "null"}]
        if len(chosen) != 1:
            raise ValueSchemaError(f"Spark has no single type for this schema: {json.dumps(schema)[:200]}")
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
            raise ValueSchemaError(f"the schema does not define what this {kind} contains: {json.dumps(schema)[:200]}")
        return simple[kind]

    def _found(self, reference: str, root: Any) -> tuple[Any, Any]:
        name, _, path = reference.partition("#")
        if name:
            if name not in self._others:
                raise ValueSchemaError(f"the schema refers to {name!r}, which is not among its references")
            root = self._others[name]
        found = root
        for step in filter(None, path.split("/")):
            if not isinstance(found, dict) or step not in found:
                raise ValueSchemaError(f"the schema refers to {reference!r}, which does not exist")
            found = found[step]
        return found, root


def _python(kind: pyarrow.DataType) -> Any:
    """Return the Python type of values. Arrow itself would accept 1.5 for the integer 1, and [] for an object."""
    from pyarrow import types

    if types.is_struct(kind):
        make: Any = TypedDict
        return make("Object", {field.name: _python(field.type) for field in kind}, total=False) | None
    if types.is_list(kind):
        return list[_python(kind.value_type)] | None  # type: ignore[misc]
    if types.is_map(kind):
        return dict[str, _python(kind.item_type)] | None  # type: ignore[misc]
    simple: dict[str, Any] = {"string": str, "int64": WHOLE, "double": float, "bool": bool}
    return simple[str(kind)] | None


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
