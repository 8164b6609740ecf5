"""What poll returns: iterated, by partition, to Arrow."""

from __future__ import annotations

import pytest

from kclient.consumer.records import Records
from kclient.records import RecordChunk, RecordCursor
from kclient.types import TopicPartition
from tests.support.consumer_model import make_batch


def chunk(partition: int, first: int, count: int) -> RecordChunk:
    batch = make_batch(first, [b"%d" % (first + index) for index in range(count)], 0)
    return RecordCursor(batch.data, "t", partition, first).take(count)


@pytest.fixture
def records() -> Records:
    return Records([chunk(0, 0, 3), chunk(1, 10, 2), chunk(0, 3, 1)])


def test_records_are_a_sequence(records: Records) -> None:
    offsets = [0, 1, 2, 10, 11, 3]
    assert len(records) == 6
    assert bool(records)
    assert [record.offset for record in records] == offsets
    assert [record.offset for record in records] == offsets, "a second pass gives the same"
    assert [records[index].offset for index in range(6)] == offsets
    assert [records[index].offset for index in range(-6, 0)] == offsets
    assert [record.offset for record in records[1:4]] == [1, 2, 10]
    for index in (6, -7):
        with pytest.raises(IndexError):
            records[index]


def test_no_records_are_false() -> None:
    assert not Records()
    assert list(Records()) == []
    assert Records().partitions == ()


def test_records_are_grouped_by_partition(records: Records) -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    assert records.partitions == (first, second)
    grouped = records.by_partition()
    assert [record.offset for record in grouped[first]] == [0, 1, 2, 3]
    assert [record.offset for record in grouped[second]] == [10, 11]
    assert records.next_offsets() == {first: 4, second: 12}


def test_records_become_columns(records: Records) -> None:
    pytest.importorskip("pyarrow")
    table = records.to_arrow(["partition", "offset", "value"])
    assert table.column("partition").to_pylist() == [0, 0, 0, 1, 1, 0]
    assert table.column("offset").to_pylist() == [0, 1, 2, 10, 11, 3]
    assert table.column("value").to_pylist() == [b"0", b"1", b"2", b"10", b"11", b"3"]
