"""read_batches, batch_headers and what a broker stamps: whole, cut off and damaged batches."""

from __future__ import annotations

from types import ModuleType

import pytest

from kclient.errors import CorruptRecordError
from kclient.records import assign_offsets, batch_headers

from .batches import TIMESTAMP, batch, damaged, offsets, resealed, values

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_batches_come_one_after_the_other(twin: ModuleType, codec: str) -> None:
    data = batch(b"a", b"b", compression=codec) + batch(b"c", base_offset=2, compression=codec)
    first, second = twin.read_batches(data)
    assert (first.base_offset, first.last_offset, first.next_offset, first.record_count) == (0, 1, 2, 2)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert values(first.records()) == [b"a", b"b"]
    assert values(second.records()) == [b"c"]
    assert first.raw == data[: first.size_in_bytes]
    assert second.position == first.size_in_bytes


def test_records_carry_where_they_are_from(twin: ModuleType) -> None:
    (found,) = twin.read_batches(batch(b"a", base_offset=7, leader_epoch=5))
    (record,) = found.records("orders", 3)
    assert (record.topic, record.partition, record.offset, record.leader_epoch) == ("orders", 3, 7, 5)
    assert (record.timestamp, record.timestamp_type) == (TIMESTAMP, 0)


def test_log_append_time_counts_for_every_record(twin: ModuleType) -> None:
    stamped = bytearray(batch(b"a", b"b"))
    assign_offsets(stamped, 40, 8, max_timestamp=TIMESTAMP + 999, timestamp_type=1)
    (found,) = twin.read_batches(stamped)
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in found.records()] == [
        (40, TIMESTAMP + 999, 1),
        (41, TIMESTAMP + 999, 1),
    ]
    assert found.partition_leader_epoch == 8


def test_create_time_can_be_stamped_back(twin: ModuleType) -> None:
    stamped = bytearray(batch(b"a", b"b"))
    assign_offsets(stamped, 0, 0, max_timestamp=TIMESTAMP + 1, timestamp_type=1)
    assign_offsets(stamped, 0, 3, max_timestamp=TIMESTAMP + 1, timestamp_type=0)
    assert stamped == batch(b"a", b"b")


def test_offset_and_epoch_lie_outside_the_checksum() -> None:
    stamped = bytearray(batch(b"a"))
    (before,) = batch_headers(bytes(stamped))
    assign_offsets(memoryview(stamped), 12345, 77)
    (header,) = batch_headers(stamped)
    header.verify()
    assert header.checksum == before.checksum
    assert (header.base_offset, header.partition_leader_epoch) == (12345, 77)


@pytest.mark.parametrize("missing", [1, 30, 60])
def test_a_last_batch_that_is_cut_off_is_omitted(twin: ModuleType, missing: int) -> None:
    data = batch(b"a") + batch(b"b" * 100, base_offset=1)
    found = list(twin.read_batches(data[:-missing]))
    assert offsets(found[0].records()) == [0]
    assert len(found) == 1
    assert len(list(batch_headers(data[:-missing]))) == 1


def test_nothing_is_no_batches(twin: ModuleType) -> None:
    assert list(twin.read_batches(b"")) == []


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_batch_is_an_error_with_its_offset(twin: ModuleType, codec: str) -> None:
    found = twin.read_batches(batch(b"a") + damaged(batch(b"b", base_offset=10, compression=codec)))
    assert next(found).base_offset == 0
    with pytest.raises(CorruptRecordError, match="checksum") as caught:
        next(found)
    assert caught.value.offset == 10


def test_checksums_are_not_looked_at_when_not_wanted(twin: ModuleType) -> None:
    (found,) = twin.read_batches(damaged(batch(b"a"), 17), verify_checksum=False)
    assert values(found.records()) == [b"a"]


def test_headers_are_verified_on_demand() -> None:
    header, bad = batch_headers(batch(b"a") + damaged(batch(b"b", base_offset=1)))
    header.verify()
    assert not bad.is_valid()
    with pytest.raises(CorruptRecordError):
        bad.verify()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ((8, b"\x00\x00\x00\x05"), "size"),
        ((8, b"\xff\xff\xff\xff"), "size"),
        ((16, b"\x03"), "magic 3"),
        ((8, b"\x00\x00\x00\x20"), "size"),
    ],
)
def test_a_frame_that_no_batch_has_is_an_error(twin: ModuleType, change: tuple[int, bytes], what: str) -> None:
    position, replacement = change
    data = bytearray(batch(b"a", base_offset=6))
    data[position : position + len(replacement)] = replacement
    for read in (twin.read_batches, batch_headers):
        with pytest.raises(CorruptRecordError, match=what) as caught:
            list(read(data))
        assert caught.value.offset == 6


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_wrong_record_count_is_an_error(twin: ModuleType, codec: str, count: int) -> None:
    data = bytearray(batch(b"a", b"b", compression=codec))
    data[57:61] = count.to_bytes(4, "big", signed=True)
    (found,) = twin.read_batches(resealed(data))
    with pytest.raises(CorruptRecordError):
        found.records()


def test_an_unknown_compression_type_is_an_error(twin: ModuleType) -> None:
    data = bytearray(batch(b"a"))
    data[22] = 5
    (found,) = twin.read_batches(resealed(data))
    with pytest.raises(CorruptRecordError, match="compression type 5"):
        found.records()


def test_compressed_garbage_is_an_error(twin: ModuleType) -> None:
    for type_id in range(1, 5):
        data = bytearray(batch(b"a" * 50))
        data[22] = type_id
        (found,) = twin.read_batches(resealed(data))
        with pytest.raises(CorruptRecordError):
            found.records()


def test_the_delete_horizon_is_reported(twin: ModuleType) -> None:
    data = bytearray(batch(b"a"))
    data[22] |= 0x40
    (found,) = twin.read_batches(resealed(data))
    assert found.has_delete_horizon
    assert values(found.records()) == [b"a"]


def test_header_names_that_are_not_utf8_do_not_stop_a_reader(twin: ModuleType) -> None:
    builder = twin.BatchBuilder()
    builder.append(TIMESTAMP, None, b"v", [("name", b"1"), ("ключ", None)])
    data = bytearray(builder.build())
    data[data.index(b"name")] = 0xFF
    (found,) = twin.read_batches(resealed(data))
    assert found.records()[0].headers == (("\ufffdame", b"1"), ("ключ", None))


def test_records_whose_offsets_go_back_are_read_nevertheless(twin: ModuleType) -> None:
    data = bytearray(batch(b"a", b"b", base_offset=5))
    # A record of this size takes a byte each for its size, attributes and deltas.
    data[61 + 3], data[61 + 1 + data[61] // 2 + 3] = 2, 0
    [found] = twin.read_batches(resealed(bytes(data)))
    assert offsets(found.records()) == [6, 5]
