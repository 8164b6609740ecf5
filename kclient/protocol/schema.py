"""The vocabulary for declaring the fields of messages, and the base of all structs.

A field is an attribute whose annotation has its type on the wire and its exceptions:

    group_instance_id: Annotated[str | None, since(3)] = None

By default a field exists in all versions of its message, is nullable if its type has `| None`, and must have its
default value to be encoded in a version without it. Version ranges are Kafka's: "3", "0-4", "4+", "none".

Elsewhere: messages, with their versions and codecs (`declaration`), and the evaluation of declarations (`fields`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints
from uuid import UUID

import msgspec

ZERO_UUID = UUID(int=0)
"""The UUID that stands for none."""

LAST_VERSION = 32767

T = TypeVar("T")


class Versions(NamedTuple):
    """An inclusive range of versions; empty when `last` is below `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse Kafka's notation: "3", "0-4", "4+" or "none"."""
        if text == "none":
            return cls(0, -1)
        first, dash, last = text.removesuffix("+").partition("-")
        if text.endswith("+"):
            return cls(int(first), LAST_VERSION)
        return cls(int(first), int(last) if dash else int(first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


class Wire(NamedTuple):
    """The type of a field on the wire, by Kafka's name."""

    name: str


class Word(NamedTuple):
    """A property of a field in its annotation: its kind and value."""

    about: str
    value: Any


int8 = Annotated[int, Wire("int8")]
int16 = Annotated[int, Wire("int16")]
int32 = Annotated[int, Wire("int32")]
int64 = Annotated[int, Wire("int64")]
uint16 = Annotated[int, Wire("uint16")]
uint32 = Annotated[int, Wire("uint32")]
float64 = Annotated[float, Wire("float64")]

Records = Annotated[Any, Wire("records")]
"""Record batches: decoded as a view of the input, encoded from any bytes-like object, or (with
`Message.encode_parts`) from any object with a length that the transport knows how to send."""


def since(first: int) -> Word:
    """Declare that the field was added in this version."""
    return Word("versions", Versions(first, LAST_VERSION))


def until(last: int) -> Word:
    """Declare that this version was the last one with the field."""
    return Word("versions", Versions(0, last))


def between(first: int, last: int) -> Word:
    """Declare that the field exists in these versions only."""
    return Word("versions", Versions(first, last))


def nullable(versions: str) -> Word:
    """Declare the versions in which a field with `| None` in its type may be null, if not all."""
    return Word("nullable", Versions.parse(versions))


def tagged(tag: int, versions: str = "0+") -> Word:
    """Declare a tagged field (KIP-482), in these versions."""
    return Word("tagged", (tag, Versions.parse(versions)))


ignorable = Word("ignorable", True)
"""The field may be dropped without an error in versions without it."""

map_key = Word("map_key", True)
"""The field identifies its struct among the others of the same array."""

secret = Word("secret", True)
"""The value must not appear in a repr, and so in no log."""

not_flexible = Word("not_flexible", True)
"""The field keeps its old form in flexible versions too."""

null_as_empty = Word("null_as_empty", True)
"""Bytes that are never sent as null, and count as empty if others send null."""


def array() -> Any:
    """Return the default of an array: a new empty list."""
    return msgspec.field(default_factory=list)


def fresh(make: Callable[[], T]) -> T:
    """Return the default of a struct field that cannot be null: a new struct each time."""
    default: T = msgspec.field(default_factory=make)
    return default


class Struct(msgspec.Struct, kw_only=True, gc=False):
    """A part of a message, and the base of messages.

    Fields are mutable attributes; two structs are equal if all their fields are, including unknown tagged fields (as in
    the Java client), which are kept unchanged.
    """

    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    def __repr__(self) -> str:
        """Return the fields that differ from their defaults; secrets are masked, records shown by size only."""
        shown = []
        ordinary = type(self)()
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value == getattr(ordinary, name):
                continue
            if name in _secrets(type(self)):
                value = "<secret>"
            elif isinstance(value, memoryview):
                value = f"<{value.nbytes} bytes>"
            elif isinstance(value, bytes | bytearray) and len(value) > 64:
                value = f"<{len(value)} bytes>"
            else:
                value = repr(value)
            shown.append(f"{name}={value}")
        return f"{type(self).__qualname__}({', '.join(shown)})"


@cache
def _secrets(cls: type[Struct]) -> frozenset[str]:
    hints = get_type_hints(cls, include_extras=True)
    return frozenset(name for name, hint in hints.items() if secret in getattr(hint, "__metadata__", ()))


Decoder = Callable[[Any, int], tuple[Any, int]]
"""A function of a buffer and the position of its end, which returns the message and the position behind it."""

Encoder = Callable[[Any, list[Any]], None]
"""A function of a message and of a list to which it appends bytes."""
