"""The words that the fields of messages are declared with, and what all structs have in common.

A field is an attribute whose annotation says its type on the wire and whatever is not the ordinary case:

    group_instance_id: Annotated[str | None, since(3)] = None

Without more words a field is there in all versions of its message, is nullable if its type says `| None`, and has to be
at its default to be encoded at a version that lacks it. Version ranges are Kafka's: "3", "0-4", "4+", "none".

Elsewhere: messages, with their versions and codecs (`declaration`), and what reads the words (`fields`).
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
        """Read Kafka's notation: "3", "0-4", "4+" or "none"."""
        if text == "none":
            return cls(0, -1)
        first, dash, last = text.removesuffix("+").partition("-")
        if text.endswith("+"):
            return cls(int(first), LAST_VERSION)
        return cls(int(first), int(last) if dash else int(first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


class Wire(NamedTuple):
    """The type of a field on the wire, under Kafka's name of it."""

    name: str


class Word(NamedTuple):
    """A remark in a field's annotation: what it is about and its value."""

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
    """The field came with this version."""
    return Word("versions", Versions(first, LAST_VERSION))


def until(last: int) -> Word:
    """The field went after this version."""
    return Word("versions", Versions(0, last))


def between(first: int, last: int) -> Word:
    """The field exists in these versions only."""
    return Word("versions", Versions(first, last))


def nullable(versions: str) -> Word:
    """The versions in which a field with `| None` in its type may be null, when these are not all."""
    return Word("nullable", Versions.parse(versions))


def tagged(tag: int, versions: str = "0+") -> Word:
    """The field is a tagged one (KIP-482), in the versions given, as far as they have it."""
    return Word("tagged", (tag, Versions.parse(versions)))


ignorable = Word("ignorable", True)
"""The field may be lost without an error at versions that lack it."""

map_key = Word("map_key", True)
"""The field identifies its struct among the others of the same array."""

secret = Word("secret", True)
"""The value must not show in a repr, and so in no log."""

not_flexible = Word("not_flexible", True)
"""The field keeps its old form at flexible versions too."""

null_as_empty = Word("null_as_empty", True)
"""Bytes that are never sent as null, and that are taken for empty where others do."""


def array() -> Any:
    """The default of an array: a new empty list."""
    return msgspec.field(default_factory=list)


def fresh(make: Callable[[], T]) -> T:
    """The default of a struct field that cannot be null: a new struct each time."""
    default: T = msgspec.field(default_factory=make)
    return default


class Struct(msgspec.Struct, kw_only=True, gc=False):
    """A part of a message; also what messages themselves have in common.

    Fields are mutable attributes; two structs are equal if all their fields are, tagged fields that
    this version does not know included (as in the Java client), which are kept as they came.
    """

    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    def __repr__(self) -> str:
        """The fields that are not at their defaults; secrets masked, records by their size only."""
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
"""Takes a buffer and the position of its end; returns the message and the position behind it."""

Encoder = Callable[[Any, list[Any]], None]
"""Takes a message, and a list to which it appends bytes."""
