"""The bytes of a batch after compaction has removed records.

Offsets, sequences, producer, leader epoch, compression and the kind of timestamps stay; so do the batch's first
and last offset, whichever records are removed, because the last sequence of the producer follows from them. The
remaining records are copied unchanged, with their headers unread. Only their timestamps may have to be rewritten,
because they are relative to the batch's base timestamp, which is that of the first remaining record or, with the
attribute bit 6, the delete horizon: when tombstones and markers in the batch may be removed (KIP-534).

The result is, byte for byte, what Kafka's own cleaner makes of the same batch if it is not compressed. A batch in
format 0 or 1 becomes one in format 2, as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from kclient.records import BatchHeader, codecs
from kclient.records.batch import (
    ATTRIBUTE_DELETE_HORIZON,
    COMPRESSION_MASK,
    CRC_END,
    CRC_OFFSET,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
)
from kclient.records.legacy import decode_messages, v2_section, write_varint
from kclient.records.pure.record import Malformed, read_varint, read_varlong, records_section

NO_TIMESTAMP = -1

# By format: compression; the timestamp type; transactional and control flags.
_KEPT_ATTRIBUTES = (0x07, 0x0F, 0x3F)


class _Section(NamedTuple):
    """The decompressed records of a batch, and the base of their offsets and timestamps."""

    data: bytes | memoryview
    base_offset: int
    base_timestamp: int


def with_records(header: BatchHeader, kept: Sequence[int], timestamps: Sequence[int], horizon_ms: int | None) -> bytes:
    """Return the batch with only some of its records.

    Parameters:
        header: the header of a batch in any format, with all its bytes.
        kept: the indexes of the records that stay, ascending, at least one.
        timestamps: their timestamps in milliseconds.
        horizon_ms: when its tombstones or its marker may be removed, None without any or if unknown.

    Raises:
        CorruptRecordError: its records do not match the header.
    """
    section = _section(header)
    base_timestamp = timestamps[0] if horizon_ms is None else horizon_ms
    same_base = base_timestamp == section.base_timestamp and header.timestamp_type != LOG_APPEND_TIME
    records = bytearray()
    places = _places(header, section.data, kept)
    for (start, body, stop), timestamp in zip(places, timestamps, strict=True):
        if same_base:
            records += section.data[start:stop]
        else:
            _append_with_timestamp(records, section.data, body, stop, timestamp - base_timestamp)
    attributes = header.attributes & _KEPT_ATTRIBUTES[header.magic]
    if horizon_ms is not None:
        attributes |= ATTRIBUTE_DELETE_HORIZON
    return _batch(
        header,
        section.base_offset,
        attributes,
        base_timestamp,
        max(timestamps),
        len(kept),
        codecs.compress(header.compression_type, records),
    )


def without_records(header: BatchHeader) -> bytes:
    """Return only the header of a batch, for its sequence and offset."""
    attributes = header.attributes & _KEPT_ATTRIBUTES[header.magic] & ~COMPRESSION_MASK
    return _batch(header, header.base_offset, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _batch(
    header: BatchHeader,
    base_offset: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    records: bytes,
) -> bytes:
    batch = bytearray(HEADER_SIZE)
    batch += records
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        header.partition_leader_epoch,
        2,
        0,
        attributes,
        header.last_offset - base_offset,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    batch[CRC_OFFSET:CRC_END] = crc32c(memoryview(batch)[CRC_END:]).to_bytes(4, "big")
    return bytes(batch)


def _section(header: BatchHeader) -> _Section:
    if header.magic == 2:
        return _Section(records_section(header), header.base_offset, header.base_timestamp)
    messages = decode_messages(header)
    return _Section(v2_section(header, messages), messages[0].offset, messages[0].timestamp)


def _places(header: BatchHeader, data: bytes | memoryview, kept: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the start, the start of the body and the end of each kept record."""
    position, limit = 0, len(data)
    following = 0
    for index in kept:
        start = body = position
        while following <= index:
            start = position
            try:
                size, body = read_varint(data, position, limit)
                position = body + size
                if size < 1 or position > limit:
                    raise Malformed(f"a record of {size} bytes")
            except Malformed:
                raise header.corrupt(f"record {following} of {header.record_count} is malformed") from None
            following += 1
        yield start, body, position


def _append_with_timestamp(out: bytearray, data: bytes | memoryview, body: int, stop: int, delta: int) -> None:
    """Append a record with another timestamp delta, which follows its byte of attributes."""
    record = bytearray(data[body : body + 1])
    _, rest = read_varlong(data, body + 1, stop)
    write_varint(record, delta)
    record += data[rest:stop]
    write_varint(out, len(record))
    out += record
