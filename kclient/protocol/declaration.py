"""Messages and the decorators that declare them, which give a class its versions and its codec.

A message is a class, decorated with its versions; its fields are declared with the words of `schema`:

    @request(api_key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest(Message):
        group_id: str = ""
        generation_id: int32 = 0
        member_id: str = ""
        group_instance_id: Annotated[str | None, since(3)] = None

The codec is compiled from the declaration when a message is first used at a version (`encoding`, `decoding`).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError
from typing import Any, ClassVar, Self, TypeVar

from kclient.errors import ProtocolError
from kclient.protocol.schema import Decoder, Encoder, Struct, Versions

M = TypeVar("M", bound="Message")


class Message(Struct, gc=False):
    """A request, a response, or a record: a complete unit on the wire.

    `api_key` is the API's key, or the type of a record of an internal log; -1 for other messages.
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
        """Return whether the version has compact lengths and tagged fields (KIP-482)."""
        return cls.first_flexible_version is not None and version >= cls.first_flexible_version

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview, version: int) -> Self:
        """Decode a body, without header.

        Parameters:
            data: the whole body. A `Records` field of the message becomes a view of it.
            version: the version of the encoding.

        Raises:
            ProtocolError: the bytes are malformed, or longer than the message.
        """
        message, used = cls.decode_prefix(data, version)
        if used != len(data):
            raise ProtocolError(f"{cls.message_name} v{version}: {len(data) - used} bytes follow the message")
        return message

    @classmethod
    def decode_prefix(cls, data: bytes | bytearray | memoryview, version: int) -> tuple[Self, int]:
        """Decode a message that other bytes may follow; return it and the number of its bytes."""
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
            version: the version of the encoding.

        Raises:
            ProtocolError: a field has a value that the version cannot carry.
        """
        try:
            return b"".join(self._encode(version))
        except TypeError as error:
            raise ProtocolError(f"{self.message_name} v{version}: {error}; encode records with encode_parts") from error

    def encode_parts(self, version: int) -> list[Any]:
        """Encode the body without copying its records.

        Parameters:
            version: the version to encode at.

        Returns:
            The parts to send, in order: bytes, and the objects that were given as `Records`.

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
            from kclient.protocol.fields import explain

            raise ProtocolError(f"{self.message_name} v{version}: {explain(self, version) or error}") from error
        return out


_COPIED_BELOW = 1024
"""Bytes; smaller parts are joined, because handling a part costs more than copying it."""


def _compile(cls: type[Message], version: int) -> tuple[Decoder, Encoder]:
    if not cls.min_version <= version <= cls.max_version:
        raise ProtocolError(f"{cls.message_name} has versions {cls.min_version} to {cls.max_version}, not {version}")
    # Imported on first use, so that programs start faster.
    from kclient.protocol.decoding import compile_decoder
    from kclient.protocol.encoding import compile_encoder

    is_flexible = cls.is_flexible(version)
    # Two threads may both get here; they compile the same.
    cls._decoders[version] = decoder = compile_decoder(cls, version, is_flexible=is_flexible)
    cls._encoders[version] = encoder = compile_encoder(cls, version, is_flexible=is_flexible)
    return decoder, encoder


MESSAGES: dict[str, type[Message]] = {}
"""The messages of the modules imported so far, by name."""
REQUESTS: dict[int, type[Message]] = {}
RESPONSES: dict[int, type[Message]] = {}


def message(*, versions: str, flexible: str = "none", api_key: int = -1) -> Callable[[type[M]], type[M]]:
    """Declare a message that is neither request nor response: a header, or a record of a log.

    Parameters:
        versions: its versions, such as "0-3".
        flexible: those with compact lengths and tagged fields, such as "2+" or "none".
        api_key: the type of such records in their log.
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
