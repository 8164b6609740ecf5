"""Serializers and deserializers: pairs that undo each other, in the forms of Java's, and what they are called with."""

from __future__ import annotations

import functools
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kclient import serialization as s
from kclient._bound_serializers import bind_deserializer, bind_serializer
from kclient.config import ConsumerConfig, ProducerConfig
from kclient.errors import ConfigError, SerializationError


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


def with_context(value: Any, context: s.SerializationContext) -> bytes:
    context.headers.append(("seen", context.field.encode()))
    return f"{context.topic}:{context.field}:{value}".encode()


class LikeConfluents:
    """Has the signature of confluent-kafka's serializers."""

    def __call__(self, obj: Any, ctx: Any = None) -> bytes:
        return with_context(obj, ctx)


class LikeConfluentsAsync:
    """Returns a coroutine, which its signature does not tell."""

    def __call__(self, obj: Any, ctx: Any = None) -> Any:
        return awaited(obj)


async def awaited(value: Any) -> bytes:
    return bytes(value)


@pytest.mark.parametrize(
    "serializer",
    [with_context, LikeConfluents(), LikeConfluents().__call__, functools.partial(with_context)],
    ids=["function", "object", "method", "partial"],
)
def test_a_second_parameter_of_that_name_receives_the_context(serializer: Any) -> None:
    headers: list[tuple[str, bytes | None]] = [("given", b"1")]
    assert bind_serializer("key", serializer)(5, "orders", headers) == b"orders:key:5"
    assert headers == [("given", b"1"), ("seen", b"key")]
    assert bind_deserializer("value", serializer)(b"5", "orders", ()) == b"orders:value:b'5'"


@pytest.mark.parametrize(
    ("serializer", "value", "data"),
    [
        pytest.param(str.encode, "a", b"a", id="str.encode"),
        pytest.param(lambda value: json.dumps(value).encode(), [1], b"[1]", id="lambda"),
        pytest.param(lambda value, indent=None: json.dumps(value, indent=indent).encode(), 1, b"1", id="default"),
        pytest.param(s.serialize_json, {"a": 1}, b'{"a":1}', id="serialize_json"),
        pytest.param(bytes, [65], b"A", id="bytes"),
    ],
)
def test_any_other_callable_is_called_with_the_value_alone(serializer: Any, value: Any, data: bytes) -> None:
    assert bind_serializer("value", serializer)(value, "orders", []) == data


def test_what_a_deserializer_does_to_the_headers_stays_with_it() -> None:
    headers = (("given", b"1"),)
    bind_deserializer("value", with_context)(b"5", "orders", headers)
    assert headers == (("given", b"1"),)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        pytest.param(lambda value, topic: value, r'second parameter is named "context"', id="another name"),
        pytest.param(lambda value, context, more: value, "missing a required argument: 'more'", id="three"),
        pytest.param(lambda: b"", "too many positional arguments", id="none"),
        pytest.param(lambda value, *, context: value, "missing a required .*argument: 'context'", id="keyword"),
        pytest.param(awaited, "must be a plain function, not the coroutine function", id="coroutine function"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused_when_the_client_is_made(function: Any, message: str) -> None:
    for config, option in (
        (ProducerConfig, "key_serializer"),
        (ProducerConfig, "value_serializer"),
        (ConsumerConfig, "key_deserializer"),
        (ConsumerConfig, "value_deserializer"),
    ):
        with pytest.raises(ConfigError, match=f"^{option} .*{message}"):
            config.from_options({option: function})


def test_what_a_serializer_raises_or_returns_is_named() -> None:
    returns_a_number: Any = len
    with pytest.raises(SerializationError, match=r"the serializer of the key failed: error.*topic orders"):
        bind_serializer("key", s.serialize_int32)("x", "orders", [])
    with pytest.raises(SerializationError, match=r"the serializer of the value returned int, not bytes"):
        bind_serializer("value", returns_a_number)("x", "orders", [])
    returns_a_coroutine: Any = LikeConfluentsAsync()
    with pytest.raises(SerializationError, match=r"the serializer of the value returned coroutine, not bytes"):
        bind_serializer("value", returns_a_coroutine)(b"x", "orders", [])
    returns_a_view: Any = memoryview
    assert bind_serializer("value", returns_a_view)(b"x", "orders", []) == b"x"
