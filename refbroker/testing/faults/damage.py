"""Corruption of bytes: a flipped bit in records, a truncated response."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kclient.protocol import Struct
from kclient.protocol.fields import fields_of
from refbroker.handlers.naming import Covers, Resolve, shape_of
from refbroker.log import FileRange

HEADER_BYTES = 61
"""The size of a batch's header; the checksum covers its last 40 bytes and the records."""

_LENGTH = struct.Struct(">8xi")


def flip_bit(
    value: Struct, covers: Covers, resolve: Resolve, apply: Callable[[], bool], topic: str | None = None
) -> bool:
    """Flip a bit in the first batch of the first matching records; return whether there were any.

    Parameters:
        value: the message, or a part of it; its records are replaced.
        covers: returns whether a topic and partition match.
        resolve: finds names of topics by id.
        apply: called when records were found; False leaves them unchanged.
        topic: the topic of the enclosing parts.
    """
    shape = shape_of(type(value))
    if topic is None:
        topic = shape.topic_of(value, resolve)
    partition = None if shape.partition is None else getattr(value, shape.partition)
    for field in fields_of(type(value)):
        records = getattr(value, field.name) if field.type.name == "records" else None
        if records is not None and len(records) and covers(topic, partition):
            if apply():
                setattr(value, field.name, _flipped(records))
            return True
    return any(
        flip_bit(item, covers, resolve, apply, topic)
        for array, _ in shape.arrays
        for item in getattr(value, array) or ()
    )


def _flipped(records: Any) -> memoryview:
    data = bytearray(records.read() if isinstance(records, FileRange) else records)
    end = len(data)
    if end > HEADER_BYTES:
        (length,) = _LENGTH.unpack_from(data)
        end = min(max(_LENGTH.size + length, HEADER_BYTES + 1), end)
    # In the middle of the records, usually in a value, so that only the checksum shows it.
    position = (min(HEADER_BYTES, end - 1) + end) // 2
    data[position] ^= 1
    return memoryview(data)


def truncated(parts: list[Any]) -> bytes:
    """Return the first half of a response."""
    data = b"".join(part.read() if isinstance(part, FileRange) else part for part in parts)
    return data[: len(data) // 2]
