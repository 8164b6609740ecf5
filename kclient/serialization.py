"""Serializers and deserializers: the context they receive, those that Kafka's own clients share, and JSON.

A serializer is a callable that takes a key or value and returns bytes (or None for null), a deserializer the reverse.
One whose second positional parameter is named `context` or `ctx` also receives a `SerializationContext`; every other
one is called with the value alone. A client reads the signature once, when it is made. The numbers are big-endian, as
Java's `IntegerSerializer` and its like write them. Both are called in the thread or task that calls `send` or reads the
record.

Not implemented: schema registries. The serializers of confluent-kafka take this module's context.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any, Literal

import msgspec

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")


class SerializationContext(msgspec.Struct):
    """What a serializer or deserializer receives about the record, beside the key or value.

    Its attributes are those of confluent-kafka's class of the same name.

    Attributes:
        topic: the topic of the record.
        field: the part of the record in question, "key" or "value".
        headers: the headers of the record, as pairs. What a serializer adds to the list is sent with the record; the
            key is serialized before the value. A deserializer receives a copy.
    """

    topic: str
    field: Literal["key", "value"]
    headers: list[tuple[str, bytes | None]]


Serializer = Callable[[Any], bytes | None] | Callable[[Any, SerializationContext], bytes | None]
Deserializer = Callable[[bytes], Any] | Callable[[bytes, SerializationContext], Any]


def serialize_text(value: str | None) -> bytes | None:
    """Return the text in UTF-8."""
    return None if value is None else value.encode()


def deserialize_text(data: bytes) -> str:
    """Return the text that is encoded in UTF-8."""
    return data.decode()


def serialize_json(value: Any) -> bytes:
    """Return the value as JSON: its own types, dataclasses, msgspec structs, datetimes, UUIDs, decimals and more."""
    return msgspec.json.encode(value)


def deserialize_json(data: bytes) -> Any:
    """Return the value of a JSON text."""
    return msgspec.json.decode(data)


def serialize_int32(value: int | None) -> bytes | None:
    """Return the integer in four bytes."""
    return None if value is None else _INT32.pack(value)


def deserialize_int32(data: bytes) -> int:
    """Return the integer of four bytes."""
    number: int = _INT32.unpack(data)[0]
    return number


def serialize_int64(value: int | None) -> bytes | None:
    """Return the integer in eight bytes."""
    return None if value is None else _INT64.pack(value)


def deserialize_int64(data: bytes) -> int:
    """Return the integer of eight bytes."""
    number: int = _INT64.unpack(data)[0]
    return number


def serialize_double(value: float | None) -> bytes | None:
    """Return the number in eight bytes, IEEE 754."""
    return None if value is None else _DOUBLE.pack(value)


def deserialize_double(data: bytes) -> float:
    """Return the number of eight bytes, IEEE 754."""
    number: float = _DOUBLE.unpack(data)[0]
    return number


def serialize_uuid(value: uuid.UUID | None) -> bytes | None:
    """Return the text of the UUID, as Java's UUIDSerializer writes it."""
    return None if value is None else str(value).encode()


def deserialize_uuid(data: bytes) -> uuid.UUID:
    """Return the UUID of a text."""
    return uuid.UUID(data.decode())
