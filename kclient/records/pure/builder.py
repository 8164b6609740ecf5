"""Builds v2 batches, and computes Kafka's murmur2, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crc32c import crc32c

from kclient.records import codecs
from kclient.records.batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    CRC_END,
    CRC_OFFSET,
    HEADER,
    HEADER_SIZE,
    INT32_MAX,
    LOG_OVERHEAD,
    bytes_like_error,
    header_error,
)
from kclient.records.legacy import write_varint

__all__ = ["BatchBuilder", "murmur2"]

UINT32 = 0xFFFFFFFF


class BatchBuilder:
    """Collects records and builds one v2 batch from them.

    Parameters:
        compression_type: `none`, `gzip`, `snappy`, `lz4` or `zstd`.
        compression_level: the codec's level, None for its default.
        max_bytes: a record that would make the batch larger than this, uncompressed, does not fit; the first record
            always fits. Memory grows with use up to this size.

    Attributes:
        count: the number of records.
        size_in_bytes: the batch's size so far, uncompressed, with its header.
        base_timestamp, max_timestamp: the first and the largest timestamp; -1 without records.

    Raises:
        ValueError: the codec or level does not exist.
    """

    def __init__(
        self, compression_type: str = "none", compression_level: int | None = None, *, max_bytes: int = 1_000_000
    ) -> None:
        codecs.check(compression_type, compression_level)
        self.compression_type = compression_type
        self.compression_level = compression_level
        self.max_bytes = max_bytes
        self.count = 0
        self.size_in_bytes = HEADER_SIZE
        self.base_timestamp = -1
        self.max_timestamp = -1
        self._section = bytearray()
        self._packed: bytes | None = None

    def append(
        self,
        timestamp: int,
        key: Any,
        value: Any,
        headers: Iterable[tuple[str, Any]] | None = (),
    ) -> int:
        """Add a record.

        Parameters:
            timestamp: milliseconds since the epoch, -1 for none.
            key, value: bytes-like, or None for null.
            headers: pairs of str and bytes-like or None.

        Returns:
            The record's index in the batch, or -1 if it does not fit.

        Raises:
            TypeError: key, value or a header is of the wrong type; nothing was added.
            ValueError: the timestamp is negative, or the batch is built already.
        """
        body = bytearray(1)
        for part, data in (("value", value), ("key", key)):
            if data is not None:
                _require_bytes_like(part, data)
        write_headers = _encode_headers(headers)
        if self._packed is not None:
            raise ValueError("the batch is built; it takes no more records")
        if timestamp < -1:
            raise ValueError(f"a timestamp is milliseconds since the epoch, or -1 for none, not {timestamp}")
        write_varint(body, timestamp - self.base_timestamp if self.count else 0)
        write_varint(body, self.count)
        for data in (key, value):
            if data is None:
                write_varint(body, -1)
            else:
                write_varint(body, memoryview(data).nbytes)
                body += data
        body += write_headers
        record = bytearray()
        write_varint(record, len(body))
        needed = len(record) + len(body)
        if self.count and self.size_in_bytes + needed > min(self.max_bytes, INT32_MAX):
            return -1
        if self.size_in_bytes + needed > INT32_MAX:
            raise ValueError(f"a record of {needed} bytes does not fit into a batch, which holds at most 2 GiB")
        self._section += record
        self._section += body
        self.size_in_bytes += needed
        if not self.count:
            self.base_timestamp = timestamp
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.count += 1
        return self.count - 1

    def build(
        self,
        *,
        base_offset: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        partition_leader_epoch: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        timestamp_type: int = 0,
        max_timestamp: int | None = None,
    ) -> bytes | memoryview:
        """Build the batch; it accepts no more records then, but may be built again with other arguments.

        Parameters:
            timestamp_type: 0 CreateTime, 1 LogAppendTime; with the latter `max_timestamp` is the time of the append, in
                milliseconds. By default it is the largest of the records.

        Returns:
            The batch's bytes; a read-only view where that saves a copy. It stays as it is when the
            batch is built again.

        Raises:
            ValueError: the batch has no records.
        """
        if not self.count:
            raise ValueError("a batch needs at least one record")
        if self._packed is None:
            self._packed = codecs.compress(self.compression_type, self._section, self.compression_level)
            self._section = bytearray()
        attributes = codecs.TYPE_IDS[self.compression_type]
        attributes |= ATTRIBUTE_TRANSACTIONAL if is_transactional else 0
        attributes |= ATTRIBUTE_CONTROL if is_control else 0
        attributes |= ATTRIBUTE_LOG_APPEND_TIME if timestamp_type else 0
        batch = bytearray(HEADER_SIZE)
        batch += self._packed
        HEADER.pack_into(
            batch,
            0,
            base_offset,
            len(batch) - LOG_OVERHEAD,
            partition_leader_epoch,
            2,
            0,
            attributes,
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp if max_timestamp is None else max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        batch[CRC_OFFSET:CRC_END] = crc32c(memoryview(batch)[CRC_END:]).to_bytes(4, "big")
        return bytes(batch)


def _require_bytes_like(part: str, data: Any) -> None:
    try:
        memoryview(data).release()
    except TypeError:
        raise bytes_like_error(part, data) from None


def _encode_headers(headers: Iterable[tuple[str, Any]] | None) -> bytes:
    items = list(headers or ())
    out = bytearray()
    write_varint(out, len(items))
    for item in items:
        try:
            name, value = item
        except (TypeError, ValueError):
            raise header_error(item) from None
        if not isinstance(name, str):
            raise header_error(item)
        encoded = name.encode()
        write_varint(out, len(encoded))
        out += encoded
        if value is None:
            write_varint(out, -1)
            continue
        try:
            data = bytes(memoryview(value))
        except TypeError:
            raise header_error(item) from None
        write_varint(out, len(data))
        out += data
    return bytes(out)


def murmur2(data: Any) -> int:
    """Return Kafka's murmur2 of bytes-like `data`, as a signed 32-bit number."""
    data = bytes(data)
    mixer = 0x5BD1E995
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * mixer & UINT32
        word = (word ^ word >> 24) * mixer
        value = (value * mixer ^ word) & UINT32
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * mixer & UINT32
    value = (value ^ value >> 13) * mixer & UINT32
    value ^= value >> 15
    return value - (1 << 32) if value >> 31 else value
