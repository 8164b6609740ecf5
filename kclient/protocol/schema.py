"""The words messages are declared with.

A message is a class, decorated with its versions; a field is an attribute whose annotation says its
type on the wire and whatever is not the ordinary case:

    @request(api_key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest(Message):
        group_id: str = ""
        generation_id: int32 = 0
        member_id: str = ""
        group_instance_id: Annotated[str | None, since(3)] = None

Without more words a field is there in all versions of its message, is nullable if its type says
`| None`, and has to be at its default to be encoded at a version that lacks it. The codec is
compiled from the declaration when a message is first used at a version (`codec`).

Version ranges are Kafka's: "3", "0-4", "4+", "none".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import error as StructError
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar
from uuid import UUID

import msgspec

from kclient.errors import ProtocolError

ZERO_UUID = UUID(int=0)
"""The UUID that stands for none."""

LAST_VERSION = 32767

T = TypeVar("T")
M = TypeVar("M", bound="Message")


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


Decoder = Callable[[Any, int], tuple[Any, int]]
Encoder = Callable[[Any, list[Any]], None]


class Message(Struct, gc=False):
    """A request, a response, or a record: what stands for itself on the wire.

    `api_key` is the API's key, or what Kafka uses in its place: the type of a record of an internal
    log. It is -1 for messages that have none.
    """

    message_name: ClassVar[str] = ""
    api_key: ClassVar[int] = -1
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = -1
    first_flexible_version: ClassVar[int | None] = None
    response_type: ClassVar[type[Message]]
    """The response to a request; set on requests only."""
    _decoders: ClassVar[dict[int, Decoder]] = {}
    _encoders: ClassVar[dict[int, Encoder]] = {}

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether the version has compact lengths and tagged fields (KIP-482)."""
        return cls.first_flexible_version is not None and version >= cls.first_flexible_version

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview, version: int) -> Self:
        """Decode a body, without header.

        Parameters:
            data: the whole body. A `Records` field of the message becomes a view of it.
            version: the version it is encoded at.

        Raises:
            ProtocolError: the bytes are not such a message, or there are more of them than it takes.
        """
        message, used = cls.decode_prefix(data, version)
        if used != len(data):
            raise ProtocolError(f"{cls.message_name} v{version}: {len(data) - used} bytes follow the message")
        return message

    @classmethod
    def decode_prefix(cls, data: bytes | bytearray | memoryview, version: int) -> tuple[Self, int]:
        """Decode a message that other bytes may follow; gives it and the number of bytes it took."""
        decoder = cls._decoders.get(version)
        if decoder is None:
            decoder = _compile(cls, version)[0]
        try:
            return decoder(data, len(data))
        except ProtocolError as error:
            raise ProtocolError(f"{cls.message_name} v{version}: {error.message}") from error
        except (IndexError, StructError) as error:
            raise ProtocolError(f"{cls.message_name} v{version}: the bytes end within the message") from error
        except UnicodeDecodeError as error:
            raise ProtocolError(f"{cls.message_name} v{version}: a string is not UTF-8: {error.reason}") from error

    def encode(self, version: int) -> bytes:
        """Encode the body, without header.

        Parameters:
            version: the version to encode at.

        Raises:
            ProtocolError: a field has a value that the version cannot carry.
        """
        try:
            return b"".join(self._encode(version))
        except TypeError as error:
            raise ProtocolError(f"{self.message_name} v{version}: {error}; does it want encode_parts?") from error

    def encode_parts(self, version: int) -> list[Any]:
        """Encode the body without copying its records.

        Parameters:
            version: the version to encode at.

        Returns:
            What is to be sent, in order: bytes, and the objects that were given as `Records`.

        Raises:
            ProtocolError: a field has a value that the version cannot carry.
        """
        parts: list[Any] = []
        small: list[bytes] = []
        for part in self._encode(version):
            if type(part) is bytes and len(part) < _COPIED_BELOW:
                small.append(part)
                continue
            if small:
                parts.append(b"".join(small))
                small = []
            parts.append(part)
        if small or not parts:
            parts.append(b"".join(small))
        return parts

    def _encode(self, version: int) -> list[Any]:
        encoder = self._encoders.get(version)
        if encoder is None:
            encoder = _compile(type(self), version)[1]
        out: list[Any] = []
        try:
            encoder(self, out)
        except ProtocolError as error:
            raise ProtocolError(f"{self.message_name} v{version}: {error.message}") from error
        except (AttributeError, TypeError, ValueError, OverflowError, StructError) as error:
            from kclient.protocol import fields

            raise ProtocolError(f"{self.message_name} v{version}: {fields.explain(self, version) or error}") from error
        return out


_COPIED_BELOW = 1024
"""Bytes; smaller parts are joined, since handling a part costs more than copying it."""


def _compile(cls: type[Message], version: int) -> tuple[Decoder, Encoder]:
    if not cls.min_version <= version <= cls.max_version:
        raise ProtocolError(f"{cls.message_name} has versions {cls.min_version} to {cls.max_version}, not {version}")
    from kclient.protocol import decoding, encoding

    # Two threads may both get here; what they compile is the same.
    cls._decoders[version] = decoder = decoding.compile_decoder(cls, version)
    cls._encoders[version] = encoder = encoding.compile_encoder(cls, version)
    return decoder, encoder


@cache
def _secrets(cls: type[Struct]) -> frozenset[str]:
    from kclient.protocol import fields

    return frozenset(field.name for field in fields.fields_of(cls) if field.secret)


MESSAGES: dict[str, type[Message]] = {}
"""The messages declared so far, that is in modules imported so far, by name."""
REQUESTS: dict[int, type[Message]] = {}
RESPONSES: dict[int, type[Message]] = {}


def message(*, versions: str, flexible: str = "none", api_key: int = -1) -> Callable[[type[M]], type[M]]:
    """Declare a message that is neither request nor response: a header, or a record of a log.

    Parameters:
        versions: the versions it has, as "0-3".
        flexible: those with compact lengths and tagged fields, as "2+" or "none".
        api_key: the type that tells such records apart in their log.
    """

    def declare(cls: type[M]) -> type[M]:
        first_flexible, last_flexible = Versions.parse(flexible)
        cls.message_name = cls.__name__
        cls.api_key = api_key
        cls.min_version, cls.max_version = Versions.parse(versions)
        cls.first_flexible_version = first_flexible if first_flexible <= last_flexible else None
        cls._decoders = {}
        cls._encoders = {}
        MESSAGES[cls.__name__] = cls
        return cls

    return declare


def request(*, api_key: int, versions: str, flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Declare a request; parameters as for `message`."""

    def declare(cls: type[M]) -> type[M]:
        REQUESTS[api_key] = cls
        return message(versions=versions, flexible=flexible, api_key=api_key)(cls)

    return declare


def response(*, api_key: int, versions: str, flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Declare the response to the request declared above it; parameters as for `message`."""

    def declare(cls: type[M]) -> type[M]:
        RESPONSES[api_key] = REQUESTS[api_key].response_type = cls
        return message(versions=versions, flexible=flexible, api_key=api_key)(cls)

    return declare
