"""The functions that compiled codecs call: varints, tagged fields, UUIDs, and the errors they raise.

Everything here works on a buffer and a position and knows nothing about messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any
from uuid import UUID

from kclient.errors import ProtocolError

Tags = tuple[tuple[int, bytes], ...]

ONE_BYTE = [bytes((value,)) for value in range(128)]
"""The varints of one byte, which are those of most lengths."""


def read_uvarint(buf: Any, position: int) -> tuple[int, int]:
    """Read an unsigned varint of up to five bytes; return the value and the position behind it."""
    value = shift = 0
    while True:
        byte = buf[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise ProtocolError("a varint is longer than five bytes")
    if value > 0xFFFFFFFF:
        raise ProtocolError("a varint exceeds 32 bits")
    return value, position


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=1024)
def read_uuid(raw: bytes) -> UUID:
    """Return the UUID of 16 bytes. Cached, because the same topic ids are in every response."""
    return UUID(bytes=raw)


def read_tags(buf: Any, position: int, end: int) -> tuple[Tags, int]:
    """Read a section of unknown tagged fields, including its count.

    They are returned in ascending order and each once, as they have to be sent.
    """
    count, position = read_uvarint(buf, position)
    # A tagged field takes at least two bytes: its tag and its size.
    if count > (end - position) // 2:
        raise short("tagged fields", count, end - position)
    found = {}
    for _ in range(count):
        tag, position = read_uvarint(buf, position)
        size, position = read_uvarint(buf, position)
        if size > end - position:
            raise short(f"tagged field {tag}", size, end - position)
        found[tag] = bytes(buf[position : position + size])
        position += size
    return tuple(sorted(found.items())), position


def write_tags(known: Iterable[tuple[int, bytes]], unknown: Iterable[tuple[int, bytes]]) -> bytes:
    """Encode a section of tagged fields in ascending order of their tags, as the protocol requires."""
    tags = sorted((*known, *unknown), key=lambda item: item[0])
    out = bytearray(uvarint(len(tags)))
    last = -1
    for tag, value in tags:
        if tag == last:
            raise ProtocolError(f"tag {tag} is set twice")
        last = tag
        out += uvarint(tag)
        out += uvarint(len(value))
        out += value
    return bytes(out)


def short(what: str, announced: int, left: int) -> ProtocolError:
    """Return the error for a length or count that the remaining bytes cannot contain."""
    return ProtocolError(f"{what}: {announced} announced, but only {left} bytes are left")


def null(what: str) -> ProtocolError:
    """Return the error for a null that is not allowed."""
    return ProtocolError(f"{what}: null, or a negative length, where it cannot be null")


def too_many(what: str, count: int) -> ProtocolError:
    """Return the error for an absurd number of elements without bytes."""
    return ProtocolError(f"{what}: {count} elements that take no bytes")


def too_long(what: str, size: int) -> ProtocolError:
    """Return the error for a string that is too long for Kafka."""
    return ProtocolError(f"{what}: a string of {size} bytes exceeds the limit of 32767 bytes")


def bad_tag(what: str, size: int, used: int) -> ProtocolError:
    """Return the error for a tagged field whose size does not match its contents."""
    return ProtocolError(f"{what}: a tagged field of {size} bytes holds {used}")


def absent(what: str, version: int) -> ProtocolError:
    """Return the error for a value that would be lost in a version."""
    return ProtocolError(f"{what} is set, but version {version} does not have it")
