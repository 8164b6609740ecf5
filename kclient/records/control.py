"""Control batches: the markers that end transactions, written by a broker and skipped by consumers.

A control batch holds one record whose key is a version and a type (int16 each); the value of an end-transaction marker
is a version (int16) and the transaction coordinator's epoch (int32). The control records of KRaft's log are recognized
by type; the protocol decodes their values. Source: KIP-98, KIP-595.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from kclient.errors import CorruptRecordError
from kclient.records.pure.builder import BatchBuilder

__all__ = ["ABORT", "COMMIT", "ControlRecord", "control_batch", "control_type", "parse_control_record"]

ABORT, COMMIT = 0, 1

KEY = struct.Struct(">hh")
END_MARKER = struct.Struct(">hi")


class ControlRecord(NamedTuple):
    """The content of a control record.

    `type` is 0 for ABORT, 1 for COMMIT, 2 and up for KRaft's own; `coordinator_epoch` is None unless it
    ends a transaction.
    """

    type: int
    version: int
    coordinator_epoch: int | None


def control_batch(
    control: int,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Return the batch that ends a producer's transaction in one partition.

    Parameters:
        control: ABORT or COMMIT.
        timestamp: milliseconds since the epoch.
    """
    builder = BatchBuilder()
    builder.append(timestamp, KEY.pack(0, control), END_MARKER.pack(0, coordinator_epoch))
    return bytes(
        builder.build(
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partition_leader_epoch=partition_leader_epoch,
            is_transactional=True,
            is_control=True,
        )
    )


def control_type(key: bytes | None) -> int:
    """Return the type of a control record from its key.

    Raises:
        ValueError: the key is not that of a control record.
    """
    if key is None or len(key) < KEY.size:
        raise ValueError("the key of a control record is shorter than 4 bytes")
    version, control = KEY.unpack_from(key)
    if version < 0:
        raise ValueError(f"a control record has the version {version}")
    return int(control)


def parse_control_record(record: Any) -> ControlRecord:
    """Return the content of a control batch's record.

    Raises:
        CorruptRecordError: it is not a control record.
    """
    try:
        control = control_type(record.key)
        version = KEY.unpack_from(record.key)[0]
        epoch = None
        if control in (ABORT, COMMIT):
            version, epoch = END_MARKER.unpack_from(record.value or b"")
    except (ValueError, struct.error) as error:
        raise CorruptRecordError(
            f"the record at offset {record.offset} is not a control record: {error}",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        ) from None
    return ControlRecord(control, version, epoch)
