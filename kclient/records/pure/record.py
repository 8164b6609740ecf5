"""Consumed records, and their decoding from the records section of a v2 batch.

A record is, with every number but the attributes a zig-zag varint:

    size of what follows | attributes, 1 byte, unused | timestamp delta | offset delta
    key size, -1 for null | key | value size, -1 for null | value
    header count | per header: key size | key, UTF-8 | value size, -1 for null | value
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kclient.records import codecs
from kclient.records.batch import HEADER_SIZE, LOG_APPEND_TIME, BatchHeader, RecordBatch, iterate_batches
from kclient.records.legacy import decode_messages, v2_section

__all__ = ["ConsumerRecord", "Malformed", "decode_batch", "decode_section", "read_batches", "records_section"]

Headers = tuple[tuple[str, bytes | None], ...]

UINT32 = 0xFFFFFFFF
UINT64 = 0xFFFFFFFFFFFFFFFF


class ConsumerRecord:
    """A record as a consumer returns it.

    Parameters:
        topic: the topic of the record.
        partition: the partition of the record.
        offset: the offset of the record.
        timestamp: milliseconds since the epoch; -1 if the record has no timestamp.
        timestamp_type: 0 if the producer set the timestamp, 1 if the broker did, -1 if there is no timestamp.
        key: bytes, None for null, or the result of the key deserializer.
        value: bytes, None for null, or the result of the value deserializer.
        headers: pairs of name and bytes or None, in order; a name may occur more than once.
        leader_epoch: the leader epoch of the partition when the record was written, None if unknown.
    """

    __slots__ = (
        "headers",
        "key",
        "leader_epoch",
        "offset",
        "partition",
        "timestamp",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int = 0,
        offset: int = 0,
        timestamp: int = -1,
        timestamp_type: int = 0,
        key: Any = None,
        value: Any = None,
        headers: Headers = (),
        leader_epoch: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = headers
        self.leader_epoch = leader_epoch

    def _astuple(self) -> tuple[Any, ...]:
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.timestamp_type,
            self.key,
            self.value,
            self.headers,
            self.leader_epoch,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return self._astuple() == other._astuple()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, timestamp_type={self.timestamp_type}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r}, leader_epoch={self.leader_epoch})"
        )

    def __reduce__(self) -> tuple[type[ConsumerRecord], tuple[Any, ...]]:
        return type(self), self._astuple()


class Malformed(ValueError):
    """A records section does not match its batch's header."""


def read_raw(data: bytes | memoryview, position: int, limit: int, longest: int) -> tuple[int, int]:
    """Return an unsigned varint of at most `longest` bytes, and the position after it."""
    raw = shift = 0
    while position < limit and shift < 7 * longest:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position
        shift += 7
    raise Malformed("a varint is cut off or too long")


def read_varint(data: bytes | memoryview, position: int, limit: int) -> tuple[int, int]:
    """Return a zig-zag varint of 32 bits, and the position after it."""
    raw, position = read_raw(data, position, limit, 5)
    raw &= UINT32
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: bytes | memoryview, position: int, limit: int) -> tuple[int, int]:
    """Return a zig-zag varint of 64 bits, and the position after it."""
    raw, position = read_raw(data, position, limit, 10)
    raw &= UINT64
    return (raw >> 1) ^ -(raw & 1), position


def read_sized(data: bytes | memoryview, position: int, limit: int) -> tuple[bytes | None, int]:
    """Return bytes after their size, and the position after them; a negative size is null."""
    size, position = read_varint(data, position, limit)
    if size < 0:
        return None, position
    if size > limit - position:
        raise Malformed(f"{size} bytes are promised where {limit - position} are left")
    return bytes(data[position : position + size]), position + size


def read_headers(data: bytes | memoryview, position: int, limit: int) -> Headers:
    """Return the headers of a record, which end at its end."""
    count, position = read_varint(data, position, limit)
    if not 0 <= count <= limit - position:
        raise Malformed(f"{count} headers are promised where {limit - position} bytes are left")
    headers = []
    for _ in range(count):
        name, position = read_sized(data, position, limit)
        if name is None:
            raise Malformed("a header has no name")
        value, position = read_sized(data, position, limit)
        # Kafka does not check that names are UTF-8; a consumer must not fail on others.
        headers.append((name.decode("utf-8", "replace"), value))
    if position != limit:
        raise Malformed(f"{limit - position} bytes follow a record's headers")
    return tuple(headers)


def decode_section(
    data: bytes | memoryview,
    header: BatchHeader,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
    timestamp_type: int,
    count: int,
    topic: str,
    partition: int,
) -> list[ConsumerRecord]:
    """Decode the whole records section `data`, which must contain exactly `count` records.

    Parameters:
        append_timestamp: the time of the append, which then applies to every record; or None.

    Raises:
        CorruptRecordError: it does not match.
    """
    leader_epoch = header.partition_leader_epoch if header.partition_leader_epoch >= 0 else None
    records: list[ConsumerRecord] = []
    position, limit = 0, len(data)
    if count < 0:
        raise header.corrupt(f"it says it has {count} records")
    try:
        for _ in range(count):
            size, position = read_varint(data, position, limit)
            if not 1 <= size <= limit - position:
                raise Malformed(f"a record of {size} bytes is promised where {limit - position} are left")
            end = position + size
            timestamp, position = read_varlong(data, position + 1, end)
            offset, position = read_varint(data, position, end)
            key, position = read_sized(data, position, end)
            value, position = read_sized(data, position, end)
            headers = read_headers(data, position, end)
            position = end
            timestamp = wrap64(base_timestamp + timestamp) if append_timestamp is None else append_timestamp
            offset = wrap64(base_offset + offset)
            records.append(
                ConsumerRecord(topic, partition, offset, timestamp, timestamp_type, key, value, headers, leader_epoch)
            )
    except Malformed:
        raise header.corrupt(f"record {len(records)} of {count} is malformed") from None
    if position != limit:
        raise header.corrupt(f"bytes are left after its {count} records")
    return records


def wrap64(value: int) -> int:
    """Wrap `value` to a signed 64-bit number: deltas from the wire may be arbitrary."""
    return (value + (1 << 63) & UINT64) - (1 << 63)


def records_section(header: BatchHeader) -> bytes | memoryview:
    """Return the decompressed records section of a v2 batch."""
    compression = header.compression_type
    section = header.raw[HEADER_SIZE:]
    if compression == "none":
        return section
    try:
        return codecs.decompress(compression, section)
    except codecs.DecompressionError as error:
        raise header.corrupt(str(error)) from None


def decode_batch(header: BatchHeader, topic: str, partition: int, verify: bool) -> list[ConsumerRecord]:
    """Decode all records of a batch in any format.

    Parameters:
        verify: whether to check the checksums of messages inside a wrapper in format 0 or 1.

    Raises:
        CorruptRecordError: the records do not match the header, or cannot be decompressed.
    """
    if header.magic < 2:
        messages = decode_messages(header, verify)
        first = messages[0]
        return decode_section(
            v2_section(header, messages),
            header,
            first.offset,
            first.timestamp,
            None,
            first.timestamp_type,
            len(messages),
            topic,
            partition,
        )
    append_timestamp = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    return decode_section(
        records_section(header),
        header,
        header.base_offset,
        header.base_timestamp,
        append_timestamp,
        header.timestamp_type,
        header.record_count,
        topic,
        partition,
    )


def read_batches(data: Any, *, verify_checksum: bool = True) -> Iterator[RecordBatch]:
    """Yield the batches in bytes-like `data`, in any format; an incomplete last batch is skipped.

    Raises:
        CorruptRecordError: a batch is corrupt; the error has its offset. Earlier batches were yielded.
    """
    return iterate_batches(data, decode_batch, verify_checksum)
