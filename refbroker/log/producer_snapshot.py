"""Producer snapshots, `<offset>.snapshot`: the producers of a log as of an offset.

One is written when a segment is rolled and when the log is closed, so that a start reads only the records after the
last one. All integers big-endian:

    size  field
       2  version, 1
       4  CRC-32C of everything after it
       4  count of entries, and for each
           8  producer id
           2  epoch
           4  last sequence, -1 for none
           8  last offset, -1 for none
           4  offset delta: last offset minus first offset of its last batch
           8  timestamp of its last batch, milliseconds
           4  epoch of the coordinator that wrote its last transaction marker, -1 for none
           8  first offset of its open transaction, -1 for none

Only the last batch of each producer survives in a snapshot: a retry of an older one is out of order then.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from crc32c import crc32c

from refbroker.log.files import Files
from refbroker.log.producer_state import BatchMetadata, ProducerEntry

SUFFIX = ".snapshot"
VERSION = 1

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshotError(ValueError):
    """A snapshot is damaged; the previous one, or the log itself, is used instead."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the bytes of a snapshot."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in entries
    ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Return the producers in a snapshot.

    Raises:
        CorruptSnapshotError: version, length or checksum is wrong.
    """
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshotError(f"a snapshot has more than {len(data)} bytes")
    version, checksum = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(f"version {version} is unknown")
    body = memoryview(data)[_HEAD.size :]
    if crc32c(body) != checksum:
        raise CorruptSnapshotError("the checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{count} entries do not fill {len(body)} bytes")
    entries = []
    for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first = fields
        entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, first)
        if last_offset >= 0:
            entry.batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp))
        entries.append(entry)
    return entries


def snapshot_path(directory: Path, offset: int) -> Path:
    return directory / f"{offset:020d}{SUFFIX}"


def snapshot_offsets(files: Files, directory: Path) -> list[int]:
    """Return the offsets of the snapshots in a partition's directory, ascending."""
    stems = [name.removesuffix(SUFFIX) for name in files.names(directory) if name.endswith(SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isdecimal())


def read_snapshot(files: Files, directory: Path, offset: int) -> list[ProducerEntry]:
    """Return the producers of the snapshot at `offset`.

    Raises:
        CorruptSnapshotError: it is damaged.
    """
    return decode_snapshot(files.read_bytes(snapshot_path(directory, offset)))


def write_snapshot(files: Files, directory: Path, offset: int, entries: Iterable[ProducerEntry], *, sync: bool) -> None:
    """Write the snapshot at `offset`."""
    files.write_bytes(snapshot_path(directory, offset), encode_snapshot(entries), sync=sync)
