"""Small batches for the tests, built with the pure twin so that they do not depend on what is tested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kclient.records import ABORT, assign_offsets, control_batch, pure, restamp

TIMESTAMP = 1_700_000_000_000


def batch(
    *values: bytes | None,
    base_offset: int = 0,
    compression: str = "none",
    leader_epoch: int = 3,
    offsets: Sequence[int] | None = None,
    **header: Any,
) -> bytes:
    """A batch with these values; with `offsets` it looks as if compaction had removed the others."""
    count = len(values) if offsets is None else offsets[-1] + 1
    builder = pure.BatchBuilder(compression)
    for index in range(count):
        if offsets is None or index in offsets:
            value = values[index] if offsets is None else values[list(offsets).index(index)]
            builder.append(TIMESTAMP + index, b"k", value, [])
        else:
            builder.count += 1
    builder.base_timestamp = TIMESTAMP
    data = bytearray(builder.build(base_offset=base_offset, partition_leader_epoch=leader_epoch, **header))
    if offsets is not None:
        data[57:61] = len(offsets).to_bytes(4, "big")
        data[:] = restamp(data, header.get("producer_id", -1), header.get("producer_epoch", -1), -1)
    return bytes(data)


def transactional(*values: bytes, base_offset: int, producer_id: int) -> bytes:
    return batch(*values, base_offset=base_offset, producer_id=producer_id, producer_epoch=0, is_transactional=True)


def marker(control: int = ABORT, *, base_offset: int, producer_id: int) -> bytes:
    return control_batch(
        control,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=1,
        timestamp=TIMESTAMP,
        base_offset=base_offset,
        partition_leader_epoch=3,
    )


def damaged(data: bytes, position: int = -1) -> bytes:
    """The same bytes with one of them changed."""
    copy = bytearray(data)
    copy[position] ^= 0xFF
    return bytes(copy)


def resealed(data: bytes | bytearray) -> bytes:
    """The same v2 batch with the checksum that its bytes now have."""
    copy = bytearray(data)
    base_offset, max_timestamp = (int.from_bytes(copy[at : at + 8], "big", signed=True) for at in (0, 35))
    assign_offsets(copy, base_offset, 3, max_timestamp=max_timestamp)
    return bytes(copy)


def values(records: Iterable[Any]) -> list[Any]:
    return [record.value for record in records]


def offsets(records: Iterable[Any]) -> list[int]:
    return [record.offset for record in records]
