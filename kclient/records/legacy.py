"""Message formats 0 and 1: reading them, and converting them to the records of a v2 batch.

A message is an offset (int64), a size (int32), a CRC-32 of what follows it, magic, attributes, in format 1 a timestamp,
then key and value, each with an int32 size, -1 for null. A compressed one is a wrapper: its value holds further
messages, and its offset is that of the last of them. Inside a wrapper of format 1 offsets are relative (KIP-31) and the
wrapper's timestamp may override the inner ones (KIP-32). In format 0 the header checksum of lz4 frames is wrong
(KIP-57) and is repaired here.

Not implemented: writing these formats, which no broker since Kafka 4.0 accepts.
"""

from __future__ import annotations

from typing import NamedTuple

from kclient.records import codecs
from kclient.records.batch import (
    COMPRESSION_MASK,
    INT32_MAX,
    LEGACY_HEADERS,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_TIMESTAMP_TYPE,
    SMALLEST_LEGACY,
    BatchHeader,
)

__all__ = ["LegacyMessage", "decode_messages", "v2_section"]


class LegacyMessage(NamedTuple):
    """One message; its offset is absolute. In format 0 the timestamp and its type are -1."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None


def decode_messages(header: BatchHeader, verify: bool = True) -> list[LegacyMessage]:
    """Return the messages of a batch in format 0 or 1, at least one.

    Parameters:
        verify: whether to check the checksums of messages inside a wrapper.

    Raises:
        CorruptRecordError: the message or an inner one is malformed.
    """
    key, value = _key_and_value(header, header)
    type_id = header.attributes & COMPRESSION_MASK
    if not type_id:
        return [LegacyMessage(header.last_offset, header.max_timestamp, header.timestamp_type, key, value)]
    if value is None:
        raise header.corrupt("a compressed message has no value")
    compression = header.compression_type
    if compression == "zstd":
        raise header.corrupt(f"format {header.magic} has no zstd")
    if compression == "lz4" and header.magic == 0:
        value = repair_lz4_header(value)
    try:
        inner = codecs.decompress(compression, value)
    except codecs.DecompressionError as error:
        raise header.corrupt(str(error)) from None
    return _inner_messages(header, memoryview(inner), verify)


def _inner_messages(wrapper: BatchHeader, data: memoryview, verify: bool) -> list[LegacyMessage]:
    messages: list[LegacyMessage] = []
    position = 0
    while len(data) - position >= LOG_OVERHEAD:
        size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if size < SMALLEST_LEGACY:
            raise wrapper.corrupt(f"a message in it has a size of {size} bytes, less than any message has")
        end = position + LOG_OVERHEAD + size
        if end > len(data):
            break
        magic = data[position + 16]
        if magic > 1 or size < SMALLEST_LEGACY + 8 * magic:
            raise wrapper.corrupt(f"a message in it has a wrong format (magic {magic}, {size} bytes)")
        inner = BatchHeader(data[position:end], position)
        if verify and not inner.is_valid():
            raise wrapper.corrupt("the checksum of a message in it does not match")
        if inner.attributes & COMPRESSION_MASK:
            raise wrapper.corrupt("a message in it is compressed again")
        key, value = _key_and_value(inner, wrapper)
        timestamp, timestamp_type = inner.max_timestamp, NO_TIMESTAMP_TYPE
        if magic == 1:
            timestamp_type = wrapper.timestamp_type
            if timestamp_type == LOG_APPEND_TIME:
                timestamp = wrapper.max_timestamp
        messages.append(LegacyMessage(inner.last_offset, timestamp, timestamp_type, key, value))
        position = end
    if not messages:
        raise wrapper.corrupt("there is no message in it")
    # Some versions of librdkafka left the wrapper's offset at 0: then the inner ones are absolute.
    if wrapper.magic == 0 or wrapper.last_offset == 0:
        return messages
    base = wrapper.last_offset - messages[-1].offset
    if base < 0:
        raise wrapper.corrupt(f"its last message has the relative offset {messages[-1].offset}, above its own")
    return [message._replace(offset=base + message.offset) for message in messages]


def _key_and_value(header: BatchHeader, outer: BatchHeader) -> tuple[bytes | None, bytes | None]:
    raw = header.raw
    key, position = _sized_bytes(raw, LEGACY_HEADERS[header.magic].size, outer)
    value, position = _sized_bytes(raw, position, outer)
    if position != len(raw):
        raise outer.corrupt(f"{len(raw) - position} bytes follow a message's value")
    return key, value


def _sized_bytes(raw: memoryview, position: int, outer: BatchHeader) -> tuple[bytes | None, int]:
    start = position + 4
    if start > len(raw):
        raise outer.corrupt("a message is cut off")
    size = int.from_bytes(raw[position:start], "big", signed=True)
    if size < 0:
        return None, start
    if size > len(raw) - start:
        raise outer.corrupt(f"a key or value of {size} bytes is cut off")
    return bytes(raw[start : start + size]), start + size


def v2_section(header: BatchHeader, messages: list[LegacyMessage]) -> bytes:
    """Return the records section of a v2 batch with these messages, relative to the first one's offset and
    timestamp.
    """
    base_offset, base_timestamp = messages[0].offset, messages[0].timestamp
    out = bytearray()
    for message in messages:
        delta = message.offset - base_offset
        if not -INT32_MAX <= delta <= INT32_MAX:
            raise header.corrupt("the offsets of its messages are too far apart")
        body = bytearray(1)
        write_varint(body, message.timestamp - base_timestamp)
        write_varint(body, delta)
        for part in (message.key, message.value):
            write_varint(body, -1 if part is None else len(part))
            body += part or b""
        write_varint(body, 0)
        write_varint(out, len(body))
        out += body
    return bytes(out)


def write_varint(out: bytearray, value: int) -> None:
    """Append `value`, of up to 64 bits, as a zig-zag varint."""
    raw = ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def repair_lz4_header(frame: bytes) -> bytes:
    """Return the lz4 frame with the checksum of the lz4 frame format (KIP-57: format 0 hashed too much)."""
    if len(frame) < 7:
        return frame
    descriptor_end = 6 + (8 if frame[4] & 0x08 else 0) + (4 if frame[4] & 0x01 else 0)
    if len(frame) <= descriptor_end:
        return frame
    import xxhash  # imported on first use, like the codecs

    checksum = (xxhash.xxh32_intdigest(frame[4:descriptor_end]) >> 8) & 0xFF
    return frame[:descriptor_end] + bytes((checksum,)) + frame[descriptor_end + 1 :]
