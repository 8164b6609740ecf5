"""Messages from Kafka's JSON form, and messages with random values."""

from __future__ import annotations

import base64
import random
from typing import Any
from uuid import UUID

from kclient.protocol import Message, Struct, lookup
from kclient.protocol.fields import FIXED_FORMATS, INTEGERS, Type, fields_of


def plain(name: str) -> str:
    """Return a name without the characters in which Kafka's spelling and Python's differ."""
    return name.replace("_", "").lower()


def from_json(cls: type[Struct], value: dict[str, Any]) -> Any:
    """Build a message or struct from Kafka's JSON form; missing fields keep their defaults."""
    given = {plain(name): item for name, item in value.items()}
    known = {
        field.name: _value(field.type, given.pop(plain(field.name)))
        for field in fields_of(cls)
        if plain(field.name) in given
    }
    assert not given, f"{cls.__qualname__} has no {sorted(given)}"
    return cls(**known)


def _value(kind: Type, value: Any) -> Any:
    if value is None:
        return None
    if kind.element is not None:
        return [_value(kind.element, item) for item in value]
    if kind.struct is not None:
        return from_json(kind.struct, value)
    if kind.name == "uuid":
        return UUID(bytes=base64.urlsafe_b64decode(value + "=="))
    if kind.name in ("bytes", "records"):
        return base64.b64decode(value)
    return value


def golden_message(line: dict[str, Any]) -> Message:
    """Build the message of a golden line from its JSON form."""
    message: Message = from_json(lookup(line["message"]), line["value"])
    return message


def random_message(cls: type[Struct], version: int, rng: random.Random, flexible: bool) -> Any:
    """Build a message with random values in the fields of a version."""
    values: dict[str, Any] = {}
    for field in fields_of(cls):
        if version not in field.versions or rng.random() < 0.15:
            continue
        if version in field.nullable and rng.random() < 0.2:
            values[field.name] = None
        else:
            values[field.name] = _random_value(field.type, version, rng, flexible)
    if flexible and rng.random() < 0.2:
        values["unknown_tagged_fields"] = ((100, b""), (300, rng.randbytes(rng.randrange(200))))
    return cls(**values)


def _random_value(kind: Type, version: int, rng: random.Random, flexible: bool) -> Any:
    if kind.element is not None:
        count = rng.choice((0, 1, 2, 3, 130 if kind.element.name in FIXED_FORMATS else 2))
        return [_random_value(kind.element, version, rng, flexible) for _ in range(count)]
    if kind.struct is not None:
        return random_message(kind.struct, version, rng, flexible)
    if kind.name in INTEGERS:
        low, high = INTEGERS[kind.name]
        return rng.choice((low, high, max(low, -1), 0, 1, rng.randint(low, high)))
    if kind.name == "string":
        return rng.choice(("", "a", "grüße", "日本", "x" * 127, "y" * 32767, str(rng.random())))
    if kind.name in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 126, 127, 3000)))
    if kind.name == "uuid":
        return UUID(int=rng.getrandbits(128))
    return rng.random() < 0.5 if kind.name == "bool" else rng.uniform(-1e9, 1e9)
