"""Serializers and deserializers: pairs that undo each other, in the forms of Java's."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kclient import serialization as s


@pytest.mark.parametrize(
    ("serialize", "deserialize", "value", "data"),
    [
        (s.serialize_text, s.deserialize_text, "grün", b"gr\xc3\xbcn"),
        (s.serialize_int32, s.deserialize_int32, -2, b"\xff\xff\xff\xfe"),
        (s.serialize_int64, s.deserialize_int64, 258, b"\0\0\0\0\0\0\x01\x02"),
        (s.serialize_double, s.deserialize_double, 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        (s.serialize_json, s.deserialize_json, {"a": [1, None]}, b'{"a":[1,null]}'),
        (s.serialize_uuid, s.deserialize_uuid, uuid.UUID(int=5), b"00000000-0000-0000-0000-000000000005"),
    ],
)
def test_a_value_goes_there_and_back(
    serialize: Callable[[Any], bytes], deserialize: Callable[[bytes], Any], value: Any, data: bytes
) -> None:
    assert serialize(value) == data
    assert deserialize(data) == value


@pytest.mark.parametrize(
    "serialize", [s.serialize_text, s.serialize_int32, s.serialize_int64, s.serialize_double, s.serialize_uuid]
)
def test_none_stays_null(serialize: Callable[[Any], bytes | None]) -> None:
    assert serialize(None) is None
