"""How the clients call an application's serializers and deserializers: with the context or without, decided once.

Elsewhere: the context and ready-made serializers (`serialization`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

from kclient._misuse import is_coroutine_function
from kclient.errors import ConfigError, SerializationError
from kclient.serialization import Deserializer, SerializationContext, Serializer

_CONTEXT_NAMES = ("context", "ctx")
"""The second parameter of a callable that receives the context; confluent-kafka's serializers call it `ctx`."""

BoundSerializer = Callable[[Any, str, list[tuple[str, bytes | None]]], bytes | None]
"""Takes the key or value, the topic, and the headers, to which it may add."""
BoundDeserializer = Callable[[bytes, str, tuple[tuple[str, bytes | None], ...]], Any]
"""Takes the bytes, the topic and the headers."""


def check_signatures(**functions: Callable[..., Any] | None) -> None:
    """Check serializers and deserializers by the option that each is given as; see `takes_context`."""
    for option, function in functions.items():
        if function is not None:
            takes_context(function, option)


def takes_context(function: Callable[..., Any], option: str) -> bool:
    """Return whether a serializer or deserializer receives the context.

    Parameters:
        option: what it was given as, for the error.

    Raises:
        ConfigError: it is a coroutine function, or needs other arguments than the value and a context.
    """
    if is_coroutine_function(function):
        raise ConfigError(f"{option} must be a plain function, not the coroutine function {function!r}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # many functions in C have none
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in signature.parameters.values() if parameter.kind in positional]
    found = len(names) > 1 and names[1] in _CONTEXT_NAMES
    try:
        signature.bind(*(None, None)[: 1 + found])
    except TypeError as error:
        raise ConfigError(
            f"{option} {function!r} cannot be called: {error}. It takes the value, and the context if its second "
            'parameter is named "context"'
        ) from None
    return found


def bind_serializer(part: Literal["key", "value"], serializer: Serializer) -> BoundSerializer:
    """Return the serializer as the producer calls it; it raises SerializationError for all that goes wrong."""
    function: Callable[..., Any] = serializer
    with_context = takes_context(serializer, f"{part}_serializer")

    def serialize(value: Any, topic: str, headers: list[tuple[str, bytes | None]]) -> bytes | None:
        try:
            data = function(value, SerializationContext(topic, part, headers)) if with_context else function(value)
        except Exception as error:
            raise SerializationError(f"the serializer of the {part} failed: {error!r}", topic=topic) from error
        if data is None or type(data) is bytes:
            return data
        if inspect.iscoroutine(data):
            data.close()
        try:
            return bytes(memoryview(data))
        except TypeError:
            kind = type(data).__name__
            raise SerializationError(f"the serializer of the {part} returned {kind}, not bytes", topic=topic) from None

    return serialize


def bind_deserializer(part: Literal["key", "value"], deserializer: Deserializer) -> BoundDeserializer:
    """Return the deserializer as the consumer calls it."""
    function: Callable[..., Any] = deserializer
    if takes_context(deserializer, f"{part}_deserializer"):
        return lambda data, topic, headers: function(data, SerializationContext(topic, part, list(headers)))
    return lambda data, _topic, _headers: function(data)
