"""Hostile snapshots of the metadata: whatever the bytes, reading ends with the records or with one kind of error."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from uuid import UUID

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import KafkaStorageError
from kclient.protocol.messages.records.metadata_log import ConfigRecord, FeatureLevelRecord, TopicRecord
from kclient.records import BatchBuilder
from refbroker.log import Files
from refbroker.metadata.snapshot_file import Snapshot, encode_snapshot, read_snapshot, read_timestamp
from refbroker.metadata.versions import LATEST

pytestmark = pytest.mark.fuzz

FILES = Files(durable=False)
WHOLE = [
    bytes(batch)
    for batch in encode_snapshot(
        Snapshot(
            [
                FeatureLevelRecord(name="metadata.version", feature_level=LATEST),
                TopicRecord(name="t", topic_id=UUID(int=1)),
                ConfigRecord(resource_type=2, resource_name="t", name="a", value="b"),
            ]
        ),
        1,
        LATEST,
        1_700_000_000_000,
    )
]
CRC, CRC_END = 17, 21


def read(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot"
        path.write_bytes(data)
        for reader in (read_snapshot, read_timestamp):
            with contextlib.suppress(KafkaStorageError):
                reader(FILES, path)


@given(
    changes=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(0, 255)), max_size=5),
    seal=st.booleans(),
    keep=st.integers(0, 3),
)
def test_damaged_bytes(changes: list[tuple[int, int, int]], seal: bool, keep: int) -> None:
    batches = [bytearray(batch) for batch in WHOLE]
    for number, place, byte in changes:
        batches[number][place % len(batches[number])] = byte
    if seal:
        for batch in batches:
            batch[CRC:CRC_END] = crc32c(batch[CRC_END:]).to_bytes(4, "big")
    read(b"".join(batches[:keep] if keep else batches))


@given(
    records=st.lists(st.tuples(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=40)), min_size=1),
    control=st.booleans(),
)
def test_records_of_any_content(records: list[tuple[bytes | None, bytes | None]], control: bool) -> None:
    builder = BatchBuilder()
    for key, value in records:
        builder.append(0, key, value)
    batch = bytes(builder.build(is_control=control))
    read(b"".join((WHOLE[0], batch, WHOLE[-1])))
    read(batch)
