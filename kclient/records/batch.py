"""The layout of record batches, and what is known without decoding records.

A v2 batch is a header of 61 bytes, big-endian, and a records section, which may be compressed:

    offset  size  field
         0     8  base offset                      (outside the checksum)
         8     4  length of what follows           (outside the checksum)
        12     4  partition leader epoch           (outside the checksum)
        16     1  magic, 2                         (outside the checksum)
        17     4  CRC-32C of everything from attributes on
        21     2  attributes: 0-2 compression, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
        23     4  last offset delta
        27     8  base timestamp, or the delete horizon
        35     8  max timestamp, which is the append time when the timestamp type is LogAppendTime
        43     8  producer id
        51     2  producer epoch
        53     4  base sequence
        57     4  record count

Formats 0 and 1 have the same first 12 bytes and the magic at the same place; the rest is in
`legacy`. Records themselves are decoded by `pure` or its compiled twin. Source: Kafka's protocol
guide, "Message sets", KIP-32, KIP-98.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from crc32c import crc32c

from kclient.errors import CorruptRecordError
from kclient.records import codecs

__all__ = ["BatchHeader", "RecordBatch", "assign_offsets", "batch_headers", "restamp"]

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
BATCH_OVERHEAD = HEADER_SIZE
"""The size of a batch before its first record."""
RECORD_OVERHEAD = BATCH_OVERHEAD + 36
"""The maximum size that a record without headers, alone in its batch, takes beyond its key and value: 5 bytes each for
record length, offset delta, lengths of key and value and header count, 10 for the timestamp delta, 1 for the
attributes.
"""
LOG_OVERHEAD = 12
CRC_OFFSET = 17
CRC_END = 21
SMALLEST_LEGACY = 14
INT32_MAX = 2**31 - 1

ATTRIBUTE_LOG_APPEND_TIME = 0x08
ATTRIBUTE_TRANSACTIONAL = 0x10
ATTRIBUTE_CONTROL = 0x20
ATTRIBUTE_DELETE_HORIZON = 0x40
COMPRESSION_MASK = 0x07

NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1

LEGACY_HEADERS = (struct.Struct(">qiIbb"), struct.Struct(">qiIbbq"))

Decode = Callable[["BatchHeader", str, int, bool], list[Any]]
"""A twin's decoder: header, topic, partition, and whether to verify the checksums of inner legacy messages."""


HEADER_OVERHEAD = 10
"""The maximum size that a record's header takes beyond its name and value."""


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence `count` records after `sequence`; it wraps to 0 after 2**31 - 1."""
    return (sequence + count) & INT32_MAX


def bytes_like_error(part: str, value: object) -> TypeError:
    """Return the error of a key or value that is neither bytes-like nor None."""
    return TypeError(f"a record's {part} must be bytes-like or None, not {type(value).__name__}; use a serializer")


def header_error(item: object) -> TypeError:
    """Return the error of a header that is not a (str, bytes-like or None) pair."""
    return TypeError(f"a record header is a pair of str and bytes-like or None, not {item!r}")


def header_name_error(row: int) -> ValueError:
    """Return the error of a row of Arrow data with a header without name."""
    return ValueError(f"row {row}: a header has no key")


class BatchHeader:
    """The header of one batch inside a buffer; reading it neither copies nor verifies the batch.

    Attributes:
        position: the start of the batch in its buffer, in bytes.
        size_in_bytes: its whole size.
        magic: the format, 0 to 2.
        raw: a view of the batch's bytes.
        checksum, attributes, partition_leader_epoch, base_timestamp, max_timestamp, producer_id,
        producer_epoch, base_sequence, record_count: as in the header; what formats 0 and 1 lack is
            -1 (their `record_count`, too, when they are compressed, else 1).
        base_offset, last_offset: of the first and last record; the base offset of a compressed
            batch in format 0 or 1 is that of its last record as long as only the header is read.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "checksum",
        "last_offset",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "raw",
        "record_count",
        "size_in_bytes",
    )

    base_offset: int
    last_offset: int
    checksum: int
    attributes: int
    magic: int
    partition_leader_epoch: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, raw: memoryview, position: int = 0) -> None:
        self.raw = raw
        self.position = position
        self.size_in_bytes = len(raw)
        if raw[16] == 2:
            (
                self.base_offset,
                _,
                self.partition_leader_epoch,
                self.magic,
                self.checksum,
                self.attributes,
                last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.record_count,
            ) = HEADER.unpack_from(raw)
            self.last_offset = self.base_offset + last_offset_delta
        else:
            offset, _, self.checksum, self.magic, self.attributes, *timestamp = LEGACY_HEADERS[raw[16]].unpack_from(raw)
            self.base_offset = self.last_offset = offset
            self.base_timestamp = self.max_timestamp = timestamp[0] if timestamp else -1
            self.partition_leader_epoch = self.producer_id = self.producer_epoch = self.base_sequence = -1
            self.record_count = -1 if self.attributes & COMPRESSION_MASK else 1

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 without one."""
        if self.base_sequence < 0:
            return -1
        return next_sequence(self.base_sequence, self.last_offset - self.base_offset)

    @property
    def compression_type(self) -> str:
        """`none`, `gzip`, `snappy`, `lz4` or `zstd`; raises CorruptRecordError for an unknown one."""
        type_id = self.attributes & COMPRESSION_MASK
        if type_id >= len(codecs.NAMES):
            raise self.corrupt(f"its compression type {type_id} does not exist")
        return codecs.NAMES[type_id]

    @property
    def timestamp_type(self) -> int:
        """0 when the producer set the timestamps, 1 when the broker did, -1 in format 0, which has none."""
        if self.magic == 0:
            return NO_TIMESTAMP_TYPE
        return LOG_APPEND_TIME if self.attributes & ATTRIBUTE_LOG_APPEND_TIME else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.magic == 2 and bool(self.attributes & ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & ATTRIBUTE_CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return self.magic == 2 and bool(self.attributes & ATTRIBUTE_DELETE_HORIZON)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    def is_valid(self) -> bool:
        """Return whether the checksum matches."""
        if self.magic == 2:
            computed: int = crc32c(self.raw[CRC_END:])
        else:
            computed = zlib.crc32(self.raw[16:])
        return computed == self.checksum

    def verify(self) -> None:
        """Raise CorruptRecordError if the checksum does not match."""
        if not self.is_valid():
            raise self.corrupt("its checksum does not match")

    def corrupt(
        self, reason: str, topic: str | None = None, partition: int | None = None, next_offset: int = 0
    ) -> CorruptRecordError:
        """Return the error for this batch, with the first offset that a reader at `next_offset` cannot read."""
        last = f" to {self.last_offset}" if self.last_offset > self.base_offset else ""
        return CorruptRecordError(
            f"the record batch at offset {self.base_offset}{last} is corrupt: {reason}",
            topic=topic,
            partition=partition,
            offset=max(self.base_offset, next_offset),
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(base_offset={self.base_offset}, last_offset={self.last_offset}, "
            f"magic={self.magic}, size_in_bytes={self.size_in_bytes})"
        )


class RecordBatch(BatchHeader):
    """A batch whose records can be decoded. For formats 0 and 1 `base_offset` is that of the first record."""

    __slots__ = ("_decode", "_verify")

    def __init__(self, raw: memoryview, position: int, decode: Decode, verify: bool) -> None:
        super().__init__(raw, position)
        self._decode = decode
        self._verify = verify
        if self.magic < 2 and self.attributes & COMPRESSION_MASK:
            records = self.records()
            self.base_offset = records[0].offset
            self.record_count = len(records)

    def records(self, topic: str = "", partition: int = -1) -> list[Any]:
        """Decode all records, control records too.

        Parameters:
            topic, partition: those of the records, which the batch does not contain.

        Raises:
            CorruptRecordError: the records do not match the header, or cannot be decompressed.
        """
        return self._decode(self, topic, partition, self._verify)


def split_batches(data: Any) -> Iterator[tuple[memoryview, int]]:
    """Yield the bytes of each batch in `data` and its position; an incomplete last batch is skipped.

    Raises:
        CorruptRecordError: a size or format is invalid.
    """
    view = memoryview(data).cast("B")
    position = 0
    while len(view) - position >= LOG_OVERHEAD:
        size = int.from_bytes(view[position + 8 : position + 12], "big", signed=True)
        if size < SMALLEST_LEGACY:
            raise frame_error(view, position, f"its size of {size} bytes is less than any batch has")
        end = position + LOG_OVERHEAD + size
        if end > len(view):
            return
        magic = view[position + 16]
        if magic > 2:
            raise frame_error(view, position, f"its format (magic {magic}) does not exist")
        if size + LOG_OVERHEAD < smallest_size(magic):
            raise frame_error(view, position, f"its size of {size} bytes is less than its format (magic {magic}) has")
        yield view[position:end], position
        position = end


def smallest_size(magic: int) -> int:
    """Return the size of the smallest batch of a format, in bytes."""
    return HEADER_SIZE if magic == 2 else LOG_OVERHEAD + SMALLEST_LEGACY + 8 * magic


def frame_error(view: memoryview, position: int, reason: str) -> CorruptRecordError:
    """Return the error for a batch whose frame is damaged, so that there is no header."""
    offset = int.from_bytes(view[position : position + 8], "big", signed=True)
    return CorruptRecordError(f"the record batch at offset {offset} is corrupt: {reason}", offset=offset)


def batch_headers(data: Any) -> Iterator[BatchHeader]:
    """Yield the headers of the batches in bytes-like `data`, without reading checksums or records.

    Raises:
        CorruptRecordError: a size or format is invalid. An incomplete last batch is skipped without an error.
    """
    for raw, position in split_batches(data):
        yield BatchHeader(raw, position)


def assign_offsets(
    buffer: Any,
    base_offset: int,
    leader_epoch: int,
    *,
    max_timestamp: int | None = None,
    timestamp_type: int | None = None,
) -> None:
    """Set the offset and leader epoch of the v2 batch at the start of a writable buffer, as a broker does at an append.

    Parameters:
        base_offset: the offset of its first record.
        leader_epoch: the epoch of the leader that appends it.
        max_timestamp: milliseconds; with `timestamp_type` 1 the time of the append.
        timestamp_type: 0 CreateTime, 1 LogAppendTime. Timestamps and their type are under the
            checksum, which is computed again when one of them is given; offset and epoch are not.

    Raises:
        ValueError: the batch is not in format 2.
    """
    view = memoryview(buffer).cast("B")
    total = _v2_size(view)
    struct.pack_into(">q", view, 0, base_offset)
    struct.pack_into(">i", view, 12, leader_epoch)
    if max_timestamp is None and timestamp_type is None:
        return
    if max_timestamp is not None:
        struct.pack_into(">q", view, 35, max_timestamp)
    if timestamp_type is not None:
        (attributes,) = struct.unpack_from(">h", view, 21)
        attributes &= ~ATTRIBUTE_LOG_APPEND_TIME
        if timestamp_type == LOG_APPEND_TIME:
            attributes |= ATTRIBUTE_LOG_APPEND_TIME
        struct.pack_into(">h", view, 21, attributes)
    struct.pack_into(">I", view, CRC_OFFSET, crc32c(view[CRC_END:total]))


def restamp(batch: Any, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """Return a copy of a v2 batch with another producer id, epoch and first sequence (KIP-360), not recompressed.

    Raises:
        ValueError: the batch is not in format 2.
    """
    copy = bytearray(batch)
    total = _v2_size(memoryview(copy))
    struct.pack_into(">qhi", copy, 43, producer_id, producer_epoch, base_sequence)
    struct.pack_into(">I", copy, CRC_OFFSET, crc32c(memoryview(copy)[CRC_END:total]))
    return bytes(copy)


def _v2_size(view: memoryview) -> int:
    """Return the size of the v2 batch at the start of `view`."""
    if len(view) < HEADER_SIZE or view[16] != 2:
        raise ValueError("not a whole record batch in format 2")
    total = LOG_OVERHEAD + int.from_bytes(view[8:12], "big", signed=True)
    if not HEADER_SIZE <= total <= len(view):
        raise ValueError(f"the record batch should have {total} bytes, but only {len(view)} are present")
    return total


def iterate_batches(data: Any, decode: Decode, verify_checksum: bool) -> Iterator[RecordBatch]:
    """Yield the batches of `data` with a twin's decoder; the implementation of a twin's `read_batches`."""
    for raw, position in split_batches(data):
        if verify_checksum:
            BatchHeader(raw, position).verify()
        yield RecordBatch(raw, position, decode, verify_checksum)
