"""Message formats 0 and 1, plain and in compressed wrappers, as old brokers and clients left them."""

from __future__ import annotations

import struct
import zlib
from types import ModuleType

import pytest
import xxhash

from kclient.errors import CorruptRecordError
from kclient.records import codecs

from .batches import offsets, values

T = 1_600_000_000_000


def message(
    offset: int,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = T,
    key: bytes | None = None,
) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(
    offset: int, inner: bytes, codec: str = "gzip", *, magic: int = 1, attributes: int = 0, timestamp: int = T
) -> bytes:
    value = codecs.compress(codec, inner)
    return message(offset, value, magic=magic, attributes=attributes | codecs.TYPE_IDS[codec], timestamp=timestamp)


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages_are_batches_of_one(twin: ModuleType, magic: int) -> None:
    data = message(5, b"a", magic=magic, key=b"k") + message(9, None, magic=magic)
    first, second = twin.read_batches(data)
    assert (first.magic, first.base_offset, first.last_offset, first.record_count) == (magic, 5, 5, 1)
    (record,) = first.records()
    assert (record.key, record.value, record.headers) == (b"k", b"a", ())
    assert (record.timestamp, record.timestamp_type) == ((T, 0) if magic else (-1, -1))
    assert (second.base_offset, second.producer_id, second.partition_leader_epoch) == (9, -1, -1)
    cursor = twin.RecordCursor(data, "t", 0, 6)
    assert [(record.offset, record.leader_epoch) for record in cursor.take()] == [(9, None)]
    assert cursor.next_offset == 10


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_relative_offsets_in_a_wrapper_end_at_its_own(twin: ModuleType, codec: str) -> None:
    inner = message(0, b"a") + message(1, b"b", timestamp=T + 7) + message(4, b"c")
    data = wrapper(104, inner, codec)
    (batch,) = twin.read_batches(data)
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (100, 104, 3)
    assert [(r.offset, r.timestamp) for r in batch.records()] == [(100, T), (101, T + 7), (104, T)]
    for start in range(100, 105):
        assert offsets(twin.RecordCursor(data, "t", 0, start).take()) == [n for n in (100, 101, 104) if n >= start]


def test_a_wrapper_at_offset_zero_holds_absolute_offsets(twin: ModuleType) -> None:
    (batch,) = twin.read_batches(wrapper(0, message(0, b"a") + message(1, b"b")))
    assert offsets(batch.records()) == [0, 1]


def test_offsets_in_a_wrapper_of_format_0_are_absolute(twin: ModuleType) -> None:
    inner = message(7, b"a", magic=0) + message(9, b"b", magic=0)
    (batch,) = twin.read_batches(wrapper(9, inner, magic=0))
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in batch.records()] == [(7, -1, -1), (9, -1, -1)]


def test_the_wrappers_append_time_counts(twin: ModuleType) -> None:
    data = wrapper(1, message(0, b"a") + message(1, b"b"), attributes=0x08, timestamp=T + 999)
    (batch,) = twin.read_batches(data)
    assert [(r.timestamp, r.timestamp_type) for r in batch.records()] == [(T + 999, 1), (T + 999, 1)]


@pytest.mark.parametrize("magic", [0, 1])
def test_the_wrong_lz4_header_checksum_is_only_right_in_format_0(twin: ModuleType, magic: int) -> None:
    frame = bytearray(codecs.compress("lz4", message(0, b"a", magic=magic)))
    # What the first implementations hashed: the magic number, too.
    frame[6] = (xxhash.xxh32_intdigest(bytes(frame[:6])) >> 8) & 0xFF
    cursor = twin.RecordCursor(message(0, bytes(frame), magic=magic, attributes=3), "t", 0, 0)
    if magic == 0:
        assert values(cursor.take()) == [b"a"]
    else:
        with pytest.raises(CorruptRecordError):
            cursor.take()


def test_a_message_cut_off_inside_a_wrapper_is_omitted(twin: ModuleType) -> None:
    (batch,) = twin.read_batches(wrapper(5, message(0, b"a") + message(1, b"b")[:-1]))
    assert offsets(batch.records()) == [5]


@pytest.mark.parametrize(
    "data",
    [
        wrapper(5, b""),
        wrapper(5, wrapper(0, message(0, b"a"))),
        wrapper(1, message(7, b"a")),
        wrapper(5, message(0, b"a")[:-1] + b"?"),
        wrapper(5, struct.pack(">qi", 0, 3) + bytes(30)),
        message(5, None, attributes=1),
        message(5, b"not gzip", attributes=1),
        message(5, b"zstd", attributes=4),
        message(5, b"nothing", attributes=7),
        wrapper(2**33, message(-(2**32), b"a") + message(0, b"b")),
    ],
    ids=[
        "empty", "nested", "offset too large", "bad inner checksum", "tiny message", "no value", "not gzip", "zstd",
        "unknown codec", "far apart",
    ],
)  # fmt: skip
def test_malformed_wrappers_are_errors(twin: ModuleType, data: bytes) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        [batch.records() for batch in twin.read_batches(data)]
    cursor = twin.RecordCursor(data, "t", 0, 0)
    with pytest.raises(CorruptRecordError):
        cursor.take()
    assert caught.value.offset is not None
    cursor.skip_to(2**40)
    assert len(cursor.take()) == 0


def test_a_damaged_message_is_an_error_with_its_offset(twin: ModuleType) -> None:
    data = message(1, b"a") + message(2, b"b")[:-1] + b"?"
    cursor = twin.RecordCursor(data, "t", 0, 0)
    assert values(cursor.take()) == [b"a"]
    with pytest.raises(CorruptRecordError) as caught:
        cursor.take()
    assert caught.value.offset == 2


def test_sizes_beyond_the_message_are_errors(twin: ModuleType) -> None:
    for size in (2**31 - 1, 9, 3):
        body = struct.pack(">bbqi", 1, 0, T, -1) + struct.pack(">i", size) + b"12345"
        data = struct.pack(">qiI", 3, 4 + len(body), zlib.crc32(body)) + body
        (batch,) = twin.read_batches(data)
        with pytest.raises(CorruptRecordError):
            batch.records()
