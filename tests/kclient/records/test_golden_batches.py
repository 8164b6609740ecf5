"""Batches written by Kafka's Java client are read, and written, byte for byte alike."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from kclient.records import ABORT, COMMIT, control_batch, parse_control_record
from tests.support.golden_data import golden_assignor_rows, golden_rows

GOLDEN = golden_rows("record_batches")
DATA = [row for row in GOLDEN if "records" in row]
MARKERS = [row for row in GOLDEN if "marker" in row]


def name(row: dict[str, Any]) -> str:
    if "marker" in row:
        return f"v{row['magic']}-{row['marker']}-{row['baseOffset']}"
    return f"v{row['magic']}-{row['codec']}-{row['timestampType']}-epoch {row['leaderEpoch']}"


def as_golden(record: Any) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
        "headers": [[key, None if value is None else value.hex()] for key, value in record.headers],
    }


@pytest.mark.parametrize("row", DATA, ids=name)
def test_batches_by_java_are_read(twin: ModuleType, row: dict[str, Any]) -> None:
    batches = list(twin.read_batches(bytes.fromhex(row["hex"])))
    first = batches[0]
    assert [as_golden(record) for batch in batches for record in batch.records()] == row["records"]
    assert first.magic == row["magic"]
    assert first.compression_type == row["codec"]
    assert first.base_offset == row["baseOffset"]
    assert first.last_offset == row["lastOffset"]
    assert first.partition_leader_epoch == row["leaderEpoch"]
    assert first.producer_id == row["producerId"]
    assert first.producer_epoch == row["producerEpoch"]
    assert first.base_sequence == row["baseSequence"]
    assert first.is_transactional == row["transactional"]
    assert first.is_control == row["control"]
    assert first.max_timestamp == row["maxTimestamp"]
    if row["magic"] > 0:
        assert first.timestamp_type == (row["timestampType"] == "LogAppendTime")


@pytest.mark.parametrize("row", DATA, ids=name)
def test_a_cursor_hands_out_the_same_records(twin: ModuleType, row: dict[str, Any]) -> None:
    cursor = twin.RecordCursor(bytes.fromhex(row["hex"]), "t", 1, row["baseOffset"])
    assert [as_golden(record) for record in cursor.take()] == row["records"]
    assert cursor.next_offset == row["records"][-1]["offset"] + 1
    assert cursor.exhausted


@pytest.mark.parametrize("row", [row for row in DATA if row["magic"] == 2], ids=name)
def test_a_batch_with_the_same_records_has_the_same_bytes(twin: ModuleType, row: dict[str, Any]) -> None:
    builder = twin.BatchBuilder(row["codec"])
    for record in row["records"]:
        headers = [(key, None if value is None else bytes.fromhex(value)) for key, value in record["headers"]]
        key, value = (None if part is None else bytes.fromhex(part) for part in (record["key"], record["value"]))
        builder.append(record["timestamp"], key, value, headers)
    built = bytes(
        builder.build(
            base_offset=row["baseOffset"],
            producer_id=row["producerId"],
            producer_epoch=row["producerEpoch"],
            base_sequence=row["baseSequence"],
            partition_leader_epoch=row["leaderEpoch"],
            is_transactional=row["transactional"],
            timestamp_type=int(row["timestampType"] == "LogAppendTime"),
        )
    )
    # Compressors differ, and with LogAppendTime, the producer's timestamps are in the bytes, but not returned.
    if row["codec"] == "none" and row["timestampType"] == "CreateTime":
        assert built.hex() == row["hex"]
    (batch,) = twin.read_batches(built)
    assert [as_golden(record) for record in batch.records()] == row["records"]
    assert batch.last_sequence == (-1 if row["baseSequence"] < 0 else row["baseSequence"] + len(row["records"]) - 1)


@pytest.mark.parametrize("row", MARKERS, ids=name)
def test_markers_by_java_are_read_and_written(twin: ModuleType, row: dict[str, Any]) -> None:
    control = COMMIT if row["marker"] == "COMMIT" else ABORT
    (batch,) = twin.read_batches(bytes.fromhex(row["hex"]))
    assert batch.is_control
    assert batch.is_transactional
    (record,) = batch.records()
    assert parse_control_record(record) == (control, 0, row["coordinatorEpoch"])
    written = control_batch(
        control,
        producer_id=row["producerId"],
        producer_epoch=row["producerEpoch"],
        coordinator_epoch=row["coordinatorEpoch"],
        timestamp=batch.max_timestamp,
        base_offset=row["baseOffset"],
        partition_leader_epoch=row["leaderEpoch"],
    )
    assert written.hex() == row["hex"]


@pytest.mark.parametrize(
    ("data", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_murmur2_of_known_keys(twin: ModuleType, data: bytes, hashed: int) -> None:
    assert twin.murmur2(data) == hashed
    assert twin.murmur2(memoryview(data)) == hashed


def test_murmur2_is_javas(twin: ModuleType) -> None:
    for row in golden_assignor_rows("murmur2"):
        key = bytes.fromhex(row["key"])
        assert twin.murmur2(key) == row["hash"]
        assert (twin.murmur2(key) & 0x7FFFFFFF) % row["partitions"] == row["partition"]
