"""Serializers and deserializers are plain callables; here are those that Kafka's own clients share, and JSON.

A serializer takes what the application has and returns bytes (or None for null), a deserializer the
reverse; the numbers are big-endian, as Java's `IntegerSerializer` and its like write them. They are
called in the thread or task that calls `send` or reads the record.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from kclient.errors import SerializationError

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")


def serialize_text(value: str | None) -> bytes | None:
    """UTF-8."""
    return None if value is None else value.encode()


def deserialize_text(data: bytes) -> str:
    """UTF-8."""
    return data.decode()


def serialize_json(value: Any) -> bytes:
    """JSON; besides its own types dataclasses, msgspec structs, datetimes, UUIDs, decimals and more."""
    return msgspec.json.encode(value)


def deserialize_json(data: bytes) -> Any:
    """JSON."""
    return msgspec.json.decode(data)


def serialize_int32(value: int | None) -> bytes | None:
    """Four bytes."""
    return None if value is None else _INT32.pack(value)


def deserialize_int32(data: bytes) -> int:
    """Four bytes."""
    number: int = _INT32.unpack(data)[0]
    return number


def serialize_int64(value: int | None) -> bytes | None:
    """Eight bytes."""
    return None if value is None else _INT64.pack(value)


def deserialize_int64(data: bytes) -> int:
    """Eight bytes."""
    number: int = _INT64.unpack(data)[0]
    return number


def serialize_double(value: float | None) -> bytes | None:
    """Eight bytes, IEEE 754."""
    return None if value is None else _DOUBLE.pack(value)


def deserialize_double(data: bytes) -> float:
    """Eight bytes, IEEE 754."""
    number: float = _DOUBLE.unpack(data)[0]
    return number


def serialize_uuid(value: uuid.UUID | None) -> bytes | None:
    """The text of the UUID, as Java's UUIDSerializer writes it."""
    return None if value is None else str(value).encode()


def deserialize_uuid(data: bytes) -> uuid.UUID:
    """The text of a UUID."""
    return uuid.UUID(data.decode())


def serialize(serializer: Callable[[Any], bytes | None], part: str, value: Any, topic: str) -> bytes | None:
    """Run a serializer of the user's.

    Parameters:
        part: what is serialized, `key` or `value`, for the error.

    Raises:
        SerializationError: it failed, or did not return bytes.
    """
    try:
        data = serializer(value)
    except Exception as error:
        raise SerializationError(f"the serializer of the {part} failed: {error!r}", topic=topic) from error
    if data is None or type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        kind = type(data).__name__
        raise SerializationError(f"the serializer of the {part} returned {kind}, not bytes", topic=topic) from None
