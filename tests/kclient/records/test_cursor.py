"""The consumer's cursor: what it hands out, where its position goes, and what stops it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from kclient._bound_serializers import bind_deserializer
from kclient.errors import CorruptRecordError, DeserializationError
from kclient.records import ABORT, COMMIT

from .batches import batch, damaged, marker, offsets, resealed, transactional, values

THREE_BATCHES = (
    batch(b"a", b"b") + batch(b"c", b"d", base_offset=2, leader_epoch=4) + batch(b"e", base_offset=4, leader_epoch=5)
)


def drain(cursor: Any, max_records: int | None = None) -> list[Any]:
    """All that is left, as a list."""
    records: list[Any] = []
    while len(chunk := cursor.take(max_records)):
        records += chunk
    return records


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("max_records", [1, 2, 3, 100, None])
def test_records_come_in_order_however_many_are_taken(twin: ModuleType, max_records: int | None, codec: str) -> None:
    data = batch(b"a", b"b", b"c", compression=codec) + batch(b"d", b"e", base_offset=3, compression=codec)
    cursor = twin.RecordCursor(data, "t", 0, 0)
    records = drain(cursor, max_records)
    assert values(records) == [b"a", b"b", b"c", b"d", b"e"]
    assert offsets(records) == [0, 1, 2, 3, 4]
    assert cursor.next_offset == 5
    assert cursor.exhausted


def test_position_and_epoch_follow_what_was_handed_out(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(THREE_BATCHES, "t", 0, 0)
    assert (cursor.next_offset, cursor.leader_epoch) == (0, None)
    seen = []
    while (record := cursor.next_record()) is not None:
        seen.append((record.offset, cursor.next_offset, cursor.leader_epoch, record.leader_epoch))
    assert seen == [(0, 1, 3, 3), (1, 2, 3, 3), (2, 3, 4, 4), (3, 4, 4, 4), (4, 5, 5, 5)]
    assert cursor.exhausted
    assert cursor.next_record() is None


def test_single_records_and_chunks_mix(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(THREE_BATCHES, "t", 0, 0)
    assert cursor.next_record().value == b"a"
    assert values(cursor.take(2)) == [b"b", b"c"]
    assert cursor.next_record().value == b"d"
    assert values(cursor.take()) == [b"e"]


def test_records_below_the_fetch_offset_are_dropped(twin: ModuleType) -> None:
    for fetch_offset in range(6):
        cursor = twin.RecordCursor(THREE_BATCHES, "t", 0, fetch_offset)
        assert offsets(cursor.take()) == list(range(fetch_offset, 5))
        assert cursor.next_offset == 5


def test_compaction_gaps_are_stepped_over(twin: ModuleType) -> None:
    data = batch(b"a", b"b", offsets=[1, 4]) + batch(b"c", offsets=[7], base_offset=5)
    cursor = twin.RecordCursor(data, "t", 0, 0)
    assert cursor.next_record().offset == 1
    assert cursor.next_offset == 2
    assert cursor.next_record().offset == 4
    assert cursor.next_offset == 5
    assert cursor.next_record().offset == 12


def test_the_position_goes_to_the_end_of_a_batch_whose_last_records_are_gone(twin: ModuleType) -> None:
    data = bytearray(batch(b"a", b"b"))
    data[23:27] = (9).to_bytes(4, "big")
    cursor = twin.RecordCursor(resealed(data), "t", 0, 0)
    assert offsets(cursor.take()) == [0, 1]
    assert cursor.next_offset == 10


def test_an_emptied_batch_only_moves_the_position(twin: ModuleType) -> None:
    data = bytearray(batch(b"a", b"b")[:61])
    data[8:12] = (49).to_bytes(4, "big")
    data[57:61] = bytes(4)
    cursor = twin.RecordCursor(resealed(data), "t", 0, 0)
    assert len(cursor.take()) == 0
    assert cursor.next_offset == 2
    assert cursor.exhausted


@pytest.mark.parametrize("missing", [1, 40, 75])
def test_a_last_batch_that_is_cut_off_ends_the_cursor(twin: ModuleType, missing: int) -> None:
    cursor = twin.RecordCursor(batch(b"a") + batch(b"b", base_offset=1)[:-missing], "t", 0, 0)
    assert values(cursor.take()) == [b"a"]
    assert len(cursor.take()) == 0
    assert cursor.exhausted
    assert cursor.next_offset == 1


def test_nothing_fetched_is_exhausted_at_once(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(b"", "t", 0, 17)
    assert cursor.exhausted
    assert len(cursor.take()) == 0
    assert cursor.next_record() is None
    assert cursor.next_offset == 17


def test_bytes_remaining_counts_batches_not_opened(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(THREE_BATCHES, "t", 0, 0)
    assert cursor.bytes_remaining == len(THREE_BATCHES)
    cursor.take(1)
    assert cursor.bytes_remaining == len(THREE_BATCHES) - len(batch(b"a", b"b"))
    cursor.take()
    assert cursor.bytes_remaining == 0


def test_views_are_read_where_they_are(twin: ModuleType) -> None:
    framed = b"header" + THREE_BATCHES + b"trailer"
    cursor = twin.RecordCursor(memoryview(framed)[6:-7], "t", 0, 0)
    assert offsets(cursor.take()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("number", [0, -1])
def test_taking_less_than_one_record_is_an_error(twin: ModuleType, number: int) -> None:
    with pytest.raises(ValueError, match="max_records"):
        twin.RecordCursor(THREE_BATCHES, "t", 0, 0).take(number)


def test_records_with_repeated_offsets_are_handed_out_once(twin: ModuleType) -> None:
    data = bytearray(batch(b"a", b"b", b"c"))
    position = data.index(b"kb") if b"kb" in data else data.index(b"b") - 3
    data[position - 1] = 0
    cursor = twin.RecordCursor(resealed(data), "t", 0, 0)
    assert len(cursor.take()) == 2
    assert cursor.next_offset == 3


# Corrupt batches


def test_a_corrupt_batch_is_reached_after_all_in_front_of_it(twin: ModuleType) -> None:
    data = batch(b"a", b"b") + damaged(batch(b"c", base_offset=2)) + batch(b"d", base_offset=3)
    cursor = twin.RecordCursor(data, "orders", 6, 0)
    assert values(cursor.take(10)) == [b"a", b"b"]
    for _ in range(2):
        for read in (cursor.take, cursor.next_record):
            with pytest.raises(CorruptRecordError, match="checksum") as caught:
                read()
            assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 6, 2)
    assert cursor.next_offset == 2
    assert not cursor.exhausted
    cursor.skip_to(3)
    assert values(cursor.take()) == [b"d"]
    assert cursor.next_offset == 4


def test_skipping_into_a_corrupt_batch_does_not_get_past_it(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(damaged(batch(b"a", b"b", b"c")), "t", 0, 0)
    cursor.skip_to(2)
    with pytest.raises(CorruptRecordError) as caught:
        cursor.take()
    assert caught.value.offset == 2
    cursor.skip_to(3)
    assert len(cursor.take()) == 0
    assert cursor.next_offset == 3


def test_a_malformed_record_spoils_its_whole_batch(twin: ModuleType) -> None:
    data = bytearray(batch(b"a", b"b"))
    data[-1] = 2
    cursor = twin.RecordCursor(resealed(data), "t", 0, 0)
    with pytest.raises(CorruptRecordError, match="record 1 of 2"):
        cursor.take(1)


def test_a_damaged_last_offset_never_hides_records(twin: ModuleType) -> None:
    data = bytearray(batch(b"a", b"b", base_offset=10))
    data[23:27] = bytes(4)
    cursor = twin.RecordCursor(data, "t", 0, 11)
    with pytest.raises(CorruptRecordError):
        cursor.take()


def test_a_broken_frame_ends_what_can_be_read(twin: ModuleType) -> None:
    data = bytearray(batch(b"a") + batch(b"b", base_offset=1) + batch(b"c", base_offset=2))
    data[len(batch(b"a")) + 8 : len(batch(b"a")) + 12] = b"\xff\xff\xff\x00"
    cursor = twin.RecordCursor(data, "t", 2, 0)
    assert values(cursor.take()) == [b"a"]
    with pytest.raises(CorruptRecordError, match="size") as caught:
        cursor.take()
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 2, 1)
    cursor.skip_to(2)
    assert len(cursor.take()) == 0
    assert cursor.exhausted
    assert cursor.next_offset == 2


def test_checksums_may_be_left_alone(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(damaged(batch(b"a"), 17), "t", 0, 0, check_checksums=False)
    assert values(cursor.take()) == [b"a"]


@pytest.mark.parametrize("base_offset", [-1, 2**63 - 1])
def test_offsets_that_do_not_exist_are_an_error(twin: ModuleType, base_offset: int) -> None:
    cursor = twin.RecordCursor(batch(b"a", base_offset=base_offset), "t", 0, 0)
    with pytest.raises(CorruptRecordError, match="offsets"):
        cursor.take()


def test_a_last_offset_below_all_that_exist_hides_no_batch(twin: ModuleType) -> None:
    nonsense = bytearray(batch(b"x"))
    nonsense[:8], nonsense[23:27] = b"\x80" + bytes(7), b"\xff\0\0\0"
    cursor = twin.RecordCursor(resealed(bytes(nonsense)) + batch(b"y", base_offset=7), "t", 0, 5)
    with pytest.raises(CorruptRecordError, match="offsets do not exist"):
        cursor.take()
    cursor.skip_to(6)
    assert values(cursor.take()) == [b"y"]
    assert cursor.next_offset == 8


# Skipping


def test_skipping_continues_at_the_offset(twin: ModuleType) -> None:
    for start in range(5):
        for target in range(start, 8):
            cursor = twin.RecordCursor(THREE_BATCHES, "t", 0, 0)
            if start:
                cursor.take(start)
            cursor.skip_to(target)
            assert cursor.next_offset == target
            assert offsets(cursor.take()) == list(range(target, 5))
            assert cursor.next_offset == max(target, 5)


def test_going_back_is_an_error(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(THREE_BATCHES, "t", 0, 0)
    cursor.take(3)
    with pytest.raises(ValueError, match="cannot go back"):
        cursor.skip_to(2)


# Transactions


def test_control_batches_are_never_handed_out(twin: ModuleType) -> None:
    data = (
        transactional(b"a", base_offset=0, producer_id=1)
        + marker(COMMIT, base_offset=1, producer_id=1)
        + transactional(b"b", base_offset=2, producer_id=1)
        + marker(ABORT, base_offset=3, producer_id=1)
    )
    cursor = twin.RecordCursor(data, "t", 0, 0)
    assert values(cursor.take()) == [b"a", b"b"]
    assert cursor.next_offset == 4


def test_aborted_transactions_are_omitted_under_read_committed(twin: ModuleType) -> None:
    data = (
        transactional(b"committed", base_offset=0, producer_id=1)
        + transactional(b"aborted", base_offset=1, producer_id=2)
        + batch(b"plain", base_offset=2)
        + marker(COMMIT, base_offset=3, producer_id=1)
        + transactional(b"aborted too", base_offset=4, producer_id=2)
        + marker(ABORT, base_offset=5, producer_id=2)
        + transactional(b"later", base_offset=6, producer_id=2)
        + marker(COMMIT, base_offset=7, producer_id=2)
    )
    committed = twin.RecordCursor(data, "t", 0, 0, read_committed=True, aborted=[(2, 1)])
    assert values(drain(committed, 1)) == [b"committed", b"plain", b"later"]
    assert committed.next_offset == 8
    everything = twin.RecordCursor(data, "t", 0, 0, aborted=[(2, 1)])
    assert len(everything.take()) == 5


def test_several_aborted_transactions_of_one_producer(twin: ModuleType) -> None:
    data = b"".join(
        transactional(b"%d" % offset, base_offset=offset, producer_id=9)
        + marker(ABORT if offset % 4 == 0 else COMMIT, base_offset=offset + 1, producer_id=9)
        for offset in range(0, 12, 2)
    )
    cursor = twin.RecordCursor(data, "t", 0, 0, read_committed=True, aborted=[(9, 8), (9, 0), (9, 4)])
    assert values(cursor.take()) == [b"2", b"6", b"10"]


def test_an_abort_ends_only_its_own_producers_transaction(twin: ModuleType) -> None:
    data = (
        transactional(b"x", base_offset=0, producer_id=1)
        + transactional(b"y", base_offset=1, producer_id=2)
        + marker(ABORT, base_offset=2, producer_id=1)
        + transactional(b"y", base_offset=3, producer_id=2)
        + transactional(b"new", base_offset=4, producer_id=1)
    )
    cursor = twin.RecordCursor(data, "t", 0, 0, read_committed=True, aborted=[(1, 0), (2, 1)])
    assert values(cursor.take()) == [b"new"]


def test_an_abort_that_is_skipped_still_ends_its_transaction(twin: ModuleType) -> None:
    data = (
        transactional(b"aborted", base_offset=0, producer_id=1)
        + marker(ABORT, base_offset=1, producer_id=1)
        + transactional(b"committed", base_offset=2, producer_id=1)
        + marker(COMMIT, base_offset=3, producer_id=1)
    )
    cursor = twin.RecordCursor(data, "t", 0, 0, read_committed=True, aborted=[(1, 0)])
    cursor.skip_to(2)
    assert values(cursor.take()) == [b"committed"]


def test_a_transaction_whose_beginning_is_skipped_stays_aborted(twin: ModuleType) -> None:
    data = transactional(b"x", b"y", base_offset=0, producer_id=1) + transactional(b"z", base_offset=2, producer_id=1)
    cursor = twin.RecordCursor(data, "t", 0, 0, read_committed=True, aborted=[(1, 0)])
    cursor.skip_to(2)
    assert values(cursor.take()) == []


def test_a_corrupt_aborted_batch_is_still_an_error(twin: ModuleType) -> None:
    data = damaged(transactional(b"x", base_offset=0, producer_id=1))
    cursor = twin.RecordCursor(data, "t", 0, 0, read_committed=True, aborted=[(1, 0)])
    with pytest.raises(CorruptRecordError):
        cursor.take()


def test_an_invalid_marker_is_an_error_under_read_committed(twin: ModuleType) -> None:
    data = batch(b"v", producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    cursor = twin.RecordCursor(data, "t", 0, 0, read_committed=True)
    with pytest.raises(CorruptRecordError, match="control record"):
        cursor.take()


# Deserializers


def test_deserializers_make_keys_and_values(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(
        batch(b"1", None, b"3"),
        "t",
        0,
        0,
        key_deserializer=bind_deserializer("key", bytes.decode),
        value_deserializer=bind_deserializer("value", int),
    )
    assert [(record.key, record.value) for record in cursor.take(2)] == [("k", 1), ("k", None)]
    assert cursor.next_record().value == 3
    assert cursor.next_offset == 3


def test_what_a_deserializer_fails_on_is_named_and_waits(twin: ModuleType) -> None:
    data = batch(b"1", b"2") + batch(b"3", b"x", b"5", base_offset=2)
    cursor = twin.RecordCursor(data, "t", 4, 0, value_deserializer=bind_deserializer("value", int))
    assert values(cursor.take()) == [1, 2, 3]
    assert cursor.next_offset == 3
    for read in (cursor.take, cursor.next_record, lambda: cursor.take(1)):
        with pytest.raises(DeserializationError, match="invalid literal") as caught:
            read()
        error = caught.value
        assert (error.topic, error.partition, error.offset) == ("t", 4, 3)
        assert (error.part, error.key, error.value) == ("value", b"k", b"x")
        assert isinstance(error.__cause__, ValueError)
        assert cursor.next_offset == 3
    cursor.skip_to(4)
    assert values(cursor.take()) == [5]
    assert cursor.next_offset == 5


def test_a_key_that_cannot_be_deserialized_is_distinguished(twin: ModuleType) -> None:
    cursor = twin.RecordCursor(batch(b"v"), "t", 0, 0, key_deserializer=bind_deserializer("key", int))
    with pytest.raises(DeserializationError) as caught:
        cursor.take()
    assert caught.value.part == "key"
