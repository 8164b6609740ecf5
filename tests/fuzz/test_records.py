"""Hostile record batches: whatever the bytes, both twins agree and neither crashes.

Golden batches are damaged, with and without a checksum that matches afterwards, and what the pure
and the compiled twin make of them must be the same: the same records and positions, or the same
error at the same offset.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import CorruptRecordError
from kclient.records import pure, to_arrow
from tests.support.golden_data import golden_rows
from tests.support.twins import compiled_twin

pytestmark = pytest.mark.fuzz

if (twin_or_none := compiled_twin()) is None:
    pytest.skip("the compiled twin is not built, or KCLIENT_PURE is set", allow_module_level=True)
compiled: ModuleType = twin_or_none

BATCHES = [bytes.fromhex(row["hex"]) for row in golden_rows("record_batches") if len(row["hex"]) < 4000]
INTERESTING = [0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF]

positions = st.one_of(st.integers(0, 80), st.integers(0, 2**31 - 1))
mutations = st.lists(
    st.tuples(
        st.sampled_from(["set", "insert", "delete", "duplicate"]),
        positions,
        st.one_of(st.sampled_from(INTERESTING), st.integers(0, 255)),
    ),
    max_size=6,
)


def mutate(data: bytes, changes: list[tuple[str, int, int]], *, keep_frame: bool, seal: bool) -> bytes:
    """Apply `changes`; with `keep_frame` the length says what is there, with `seal` the checksum matches."""
    out = bytearray(data)
    for kind, place, byte in changes:
        position = place % (len(out) + 1)
        if kind == "set" and position < len(out):
            out[position] = byte
        elif kind == "insert":
            out.insert(position, byte)
        elif kind == "delete":
            del out[position : position + 1 + byte % 8]
        elif kind == "duplicate":
            out[position:position] = out[position : position + byte]
    if keep_frame and len(out) >= 12:
        out[8:12] = (len(out) - 12).to_bytes(4, "big")
    if seal and len(out) >= 21:
        if out[16] == 2:
            out[17:21] = crc32c.crc32c(bytes(out[21:])).to_bytes(4, "big")
        else:
            out[12:16] = zlib.crc32(bytes(out[16:])).to_bytes(4, "big")
    return bytes(out)


def plain(record: Any) -> tuple[Any, ...]:
    return (
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.key,
        record.value,
        record.headers,
        record.leader_epoch,
        record.topic,
        record.partition,
    )


def outcome(read: Callable[[], Any]) -> Any:
    """What `read` returns, or the error it raises, in a form that can be compared."""
    try:
        return read()
    except CorruptRecordError as error:
        return type(error).__name__, error.message, error.offset


def plain_records(batch: Any) -> list[Any]:
    return [plain(record) for record in batch.records("t", 1)]


def through_batches(twin: ModuleType, data: bytes) -> list[Any]:
    seen: list[Any] = []

    def read() -> None:
        for batch in twin.read_batches(data):
            seen.append((batch.base_offset, batch.last_offset, batch.producer_id, batch.last_sequence))
            seen.append(outcome(partial(plain_records, batch)))

    seen.append(outcome(read))
    return seen


def through_cursor(twin: ModuleType, data: bytes, fetch_offset: int, size: int, **options: Any) -> list[Any]:
    cursor = twin.RecordCursor(data, "t", 1, fetch_offset, **options)
    seen: list[Any] = []
    for _ in range(40):
        result = outcome(lambda: cursor.take(size))
        if isinstance(result, tuple):
            seen.append(result)
            before = cursor.next_offset
            if not -(2**63) <= result[2] < 2**63 - 2:
                break
            cursor.skip_to(max(before, result[2]) + 1)
        else:
            seen.append(([plain(record) for record in result], len(result), result.first_offset, result.next_offset))
            if len(result):
                seen.append((plain(result[0]), plain(result[-1])))
            elif cursor.exhausted:
                break
        seen.append((cursor.next_offset, cursor.leader_epoch, cursor.exhausted, cursor.bytes_remaining))
    return seen


@given(
    batches=st.lists(st.sampled_from(BATCHES), min_size=1, max_size=3),
    changes=mutations,
    keep_frame=st.booleans(),
    seal=st.booleans(),
    cut=st.integers(0, 200),
)
def test_twins_agree_on_damaged_batches(
    batches: list[bytes], changes: list[tuple[str, int, int]], keep_frame: bool, seal: bool, cut: int
) -> None:
    data = b"".join(batches[:-1]) + mutate(batches[-1], changes, keep_frame=keep_frame, seal=seal)
    if cut < 60:
        data = data[: len(data) - cut]
    assert through_batches(pure, data) == through_batches(compiled, data)


@given(
    batches=st.lists(st.sampled_from(BATCHES), min_size=1, max_size=3),
    changes=mutations,
    keep_frame=st.booleans(),
    seal=st.booleans(),
    start=st.one_of(st.just(0), st.integers(0, 5), st.integers(0, 2**62)),
    size=st.integers(1, 5),
    read_committed=st.booleans(),
    check_checksums=st.booleans(),
)
def test_twins_walk_damaged_batches_alike(
    batches: list[bytes],
    changes: list[tuple[str, int, int]],
    keep_frame: bool,
    seal: bool,
    start: int,
    size: int,
    read_committed: bool,
    check_checksums: bool,
) -> None:
    data = mutate(batches[0], changes, keep_frame=keep_frame, seal=seal) + b"".join(batches[1:])
    options = {
        "read_committed": read_committed,
        "check_checksums": check_checksums,
        "aborted": [(4242, 0), (4242, 300)],
    }
    assert through_cursor(pure, data, start, size, **options) == through_cursor(compiled, data, start, size, **options)


@given(section=st.binary(max_size=200), count=st.one_of(st.integers(-2, 20), st.integers(-(2**31), 2**31 - 1)))
def test_twins_agree_on_any_records_section(section: bytes, count: int) -> None:
    header = bytearray(BATCHES[-1][:61])
    header[16] = 2
    header[21:23] = bytes(2)
    header[57:61] = count.to_bytes(4, "big", signed=True)
    data = mutate(bytes(header) + section, [], keep_frame=True, seal=True)
    assert through_batches(pure, data) == through_batches(compiled, data)


@given(
    batches=st.lists(st.sampled_from(BATCHES), min_size=1, max_size=3),
    changes=mutations,
    size=st.one_of(st.none(), st.integers(1, 4)),
)
def test_twins_make_the_same_columns(
    batches: list[bytes], changes: list[tuple[str, int, int]], size: int | None
) -> None:
    pytest.importorskip("pyarrow")
    data = b"".join(batches[:-1]) + mutate(batches[-1], changes, keep_frame=True, seal=True)
    tables = []
    for twin in (pure, compiled):
        cursor = twin.RecordCursor(data, "t", 1, 0)
        chunks = []
        try:
            while len(chunk := cursor.take(size)):
                chunks.append(chunk)
        except CorruptRecordError:
            pass
        table = to_arrow(chunks)
        table.validate(full=True)
        tables.append(table)
    assert tables[0].equals(tables[1])


@given(data=st.binary(max_size=400))
def test_twins_agree_on_any_bytes(data: bytes) -> None:
    assert through_batches(pure, data) == through_batches(compiled, data)
    assert through_cursor(pure, data, 0, 2) == through_cursor(compiled, data, 0, 2)


header_lists = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=3)
maybe_bytes = st.one_of(st.none(), st.binary(max_size=300))


@given(
    records=st.lists(
        st.tuples(st.integers(-1, 2**62), maybe_bytes, maybe_bytes, header_lists), min_size=1, max_size=20
    ),
    max_bytes=st.integers(0, 2000),
    codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
)
def test_twins_build_the_same_bytes(records: list[Any], max_bytes: int, codec: str) -> None:
    builders = [twin.BatchBuilder(codec, max_bytes=max_bytes) for twin in (pure, compiled)]
    for timestamp, key, value, headers in records:
        indexes = [builder.append(timestamp, key, value, headers) for builder in builders]
        assert indexes[0] == indexes[1]
        assert builders[0].size_in_bytes == builders[1].size_in_bytes
    built = [bytes(builder.build(producer_id=5, base_sequence=7)) for builder in builders]
    assert built[0] == built[1]
    assert through_batches(pure, built[0]) == through_batches(compiled, built[0])


@given(data=st.binary(max_size=100))
def test_twins_hash_alike(data: bytes) -> None:
    assert pure.murmur2(data) == compiled.murmur2(data)
