"""Protobuf: messages are created from the registry's descriptors, without generated code.

Between the schema id and the message is its index in the file: the indexes of the message and of those it is nested in,
as zigzag varints after their number; a single 0 stands for the first message of the file. Fields have presence as in
Protobuf: a field without presence that is not set has its default, not null.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Iterator
from datetime import UTC
from typing import TYPE_CHECKING, Any

from kclient.spark.values.columns import references
from kclient.spark.values.errors import ValueSchemaError

if TYPE_CHECKING:
    import pyarrow
    from confluent_kafka.schema_registry import Schema
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

    from kclient.spark.values.columns import Registry

OWN = "google/protobuf/"
"""The directory of Protobuf's own files."""

TIMESTAMP = "google.protobuf.Timestamp"
MAX_NESTING = 64
"""The maximum levels of nested messages in an index."""


def make(registry: Registry, schema: Schema, message: str | None) -> Protobuf:
    """Return a codec of a message of this schema."""
    return Protobuf(registry, schema, message)


class Protobuf:
    """The Protobuf codec for the message of a column."""

    def __init__(self, registry: Registry, schema: Schema, message: str | None) -> None:
        self._registry = registry
        file = _file(registry, schema)
        self._place = [0]
        if message is not None:
            places = {found.full_name: place for found, place in _messages(file.message_types_by_name.values())}
            if message not in places:
                raise ValueSchemaError(f"there is no message {message!r}; there are {', '.join(places)}")
            self._place = places[message]
        self._message = _at(file, self._place)
        self._type: pyarrow.DataType | None = None

    def arrow_type(self) -> pyarrow.DataType:
        """Return the type of the column."""
        if self._type is None:
            self._type = _struct(self._message, ())
        return self._type

    def reader(self, written: Schema) -> FileDescriptor:
        """Return the file with which values were written."""
        return _file(self._registry, written)

    def decode(self, data: memoryview, reader: FileDescriptor) -> Any:
        """Return the value.

        Raises:
            ValueSchemaError: it is not the column's message.
        """
        from google.protobuf.message_factory import GetMessageClass

        place, start = _read_place(data)
        written = _at(reader, place)
        if written.full_name != self._message.full_name:
            raise ValueSchemaError(f"it is a {written.full_name}, and the column has type {self._message.full_name}")
        message = GetMessageClass(written)()
        message.ParseFromString(bytes(data[start:]))
        return _value(message)

    def encode(self, value: Any) -> bytes:
        """Return the index of the message, and the message."""
        from google.protobuf.message_factory import GetMessageClass

        message = GetMessageClass(self._message)()
        _fill(message, value)
        place = b"\0" if self._place == [0] else b"".join(map(_varint, [len(self._place), *self._place]))
        return place + bytes(message.SerializeToString())


# -- files and index paths


def _file(registry: Registry, schema: Schema) -> FileDescriptor:
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool = descriptor_pool.DescriptorPool()

    def add(name: str, text: str) -> str:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        file.name = name or file.name
        for needed in file.dependency:
            if needed.startswith(OWN):
                _add_own(pool, needed)
        pool.Add(file)
        return str(file.name)

    for name, other in references(registry, schema).items():
        if not name.startswith(OWN):
            add(name, other.schema_str or "")
    return pool.FindFileByName(add("", schema.schema_str or ""))


def _add_own(pool: Any, name: str) -> None:
    from google.protobuf import descriptor_pb2

    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    file = descriptor_pb2.FileDescriptorProto()
    importlib.import_module(module).DESCRIPTOR.CopyToProto(file)
    for needed in file.dependency:
        _add_own(pool, needed)
    pool.Add(file)


def _messages(messages: Any, inside: tuple[int, ...] = ()) -> Iterator[tuple[Descriptor, list[int]]]:
    for index, message in enumerate(messages):
        yield message, [*inside, index]
        yield from _messages(message.nested_types, (*inside, index))


def _at(file: FileDescriptor, place: list[int]) -> Descriptor:
    messages = list(file.message_types_by_name.values())
    found = None
    for index in place:
        if not 0 <= index < len(messages):
            raise ValueSchemaError(f"there is no message with the indexes {place} in {file.name}")
        found = messages[index]
        messages = list(found.nested_types)
    if found is None:
        raise ValueSchemaError(f"there is no message in {file.name}")
    return found


def _read_place(data: memoryview) -> tuple[list[int], int]:
    count, position = _read_varint(data, 0)
    if count == 0:
        return [0], position
    if not 0 < count <= MAX_NESTING:
        raise ValueSchemaError(f"the number of indexes of the message is {count}, and must be 0 to {MAX_NESTING}")
    place = []
    for _ in range(count):
        index, position = _read_varint(data, position)
        place.append(index)
    return place, position


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    raw = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            raise ValueSchemaError("the value ends in the indexes of its message")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
    raise ValueSchemaError("the indexes of the message are not varints")


def _varint(number: int) -> bytes:
    raw = number << 1
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


# -- types


def _struct(message: Descriptor, inside: tuple[str, ...]) -> pyarrow.DataType:
    import pyarrow

    if message.full_name in inside:
        raise ValueSchemaError(f"message {message.full_name} contains itself; Spark has no recursive types")
    return pyarrow.struct([(each.name, _arrow(each, (*inside, message.full_name))) for each in message.fields])


def _arrow(field: FieldDescriptor, inside: tuple[str, ...]) -> pyarrow.DataType:
    import pyarrow

    if _is_map(field):
        key, value = (_arrow(field.message_type.fields_by_name[name], inside) for name in ("key", "value"))
        return pyarrow.map_(key, value)
    kind = _single(field, inside)
    return pyarrow.list_(kind) if field.is_repeated else kind


def _single(field: FieldDescriptor, inside: tuple[str, ...]) -> pyarrow.DataType:
    import pyarrow

    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            return pyarrow.timestamp("us", tz="UTC")
        return _struct(field.message_type, inside)
    if field.type == field.TYPE_BYTES:
        return pyarrow.binary()
    return {
        field.CPPTYPE_INT32: pyarrow.int32(),
        field.CPPTYPE_INT64: pyarrow.int64(),
        field.CPPTYPE_UINT32: pyarrow.int64(),
        field.CPPTYPE_UINT64: pyarrow.decimal128(20, 0),
        field.CPPTYPE_DOUBLE: pyarrow.float64(),
        field.CPPTYPE_FLOAT: pyarrow.float32(),
        field.CPPTYPE_BOOL: pyarrow.bool_(),
        field.CPPTYPE_ENUM: pyarrow.string(),
        field.CPPTYPE_STRING: pyarrow.string(),
    }[field.cpp_type]


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


# -- values


def _value(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            found[field.name] = None
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            kind = field.message_type.fields_by_name["value"]
            found[field.name] = [(key, _one(value[key], kind)) for key in value]
        elif field.is_repeated:
            found[field.name] = [_one(each, field) for each in value]
        else:
            found[field.name] = _one(value, field)
    return found


def _one(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return value.ToDatetime(tzinfo=UTC) if field.message_type.full_name == TIMESTAMP else _value(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


def _fill(message: Any, values: dict[str, Any]) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in values.items():
        if name not in fields:
            raise ValueSchemaError(f"message {message.DESCRIPTOR.full_name} has no field {name}")
        if value is None:
            continue
        field = fields[name]
        if _is_map(field):
            kind = field.message_type.fields_by_name["value"]
            for key, each in value.items():
                if kind.message_type is None:
                    getattr(message, name)[key] = _told(each, kind)
                else:
                    _fill_one(getattr(message, name)[key], each)
        elif field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                place = getattr(message, name).add() if field.is_repeated else getattr(message, name)
                place.SetInParent()
                _fill_one(place, each)
        elif field.is_repeated:
            getattr(message, name).extend(_told(each, field) for each in value)
        else:
            setattr(message, name, _told(value, field))


def _fill_one(message: Any, value: Any) -> None:
    if message.DESCRIPTOR.full_name == TIMESTAMP:
        message.FromDatetime(value)
    else:
        _fill(message, value)


def _told(value: Any, field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        if value not in field.enum_type.values_by_name:
            raise ValueSchemaError(
                f"{field.name} cannot be {value!r}; there are {', '.join(field.enum_type.values_by_name)}"
            )
        return field.enum_type.values_by_name[value].number
    if field.cpp_type == field.CPPTYPE_UINT64:
        return int(value)
    return value
