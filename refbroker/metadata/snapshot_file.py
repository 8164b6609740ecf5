"""The format of a snapshot of the metadata log, `<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`.

    control batch    SnapshotHeader, with the timestamp of its last record; with kraft.version 1 also
                     KRaftVersion and Voters
    batches          the state of the cluster as records (see `image_records`), at most 1024 in a batch
    control batch    SnapshotFooter

The batches are those of the log, uncompressed; offsets count from 0, the epoch is that of the snapshot's name. The end
offset is the one after its last record. A snapshot is written as `<name>-<number>.checkpoint.part`, synced and renamed,
so that a file with the final name is complete; `.checkpoint.deleted` is removed later. `bootstrap.checkpoint`
in the data directory has the same format (see `refbroker.controller.bootstrap`). Source: KIP-630, KIP-853.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kclient.errors import CorruptRecordError, KafkaStorageError, ProtocolError
from kclient.protocol import Message
from kclient.protocol.log_records import decode_metadata_record
from kclient.protocol.messages.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from kclient.records import BatchBuilder, RecordBatch, read_batches
from refbroker.log import Files
from refbroker.log.files import OpenFile
from refbroker.metadata.control_records import VoterSet, control_batch, decode_control
from refbroker.metadata.versions import encode_record

SUFFIX = ".checkpoint"
PART_SUFFIX = SUFFIX + ".part"
DELETED_SUFFIX = SUFFIX + ".deleted"

_NAME = re.compile(r"(\d{20})-(\d{10})(?:-\w+)?(\.checkpoint(?:\.part|\.deleted)?)")
_MOST_RECORDS = 1024
_INT32_MAX = 2**31 - 1
_FRAME = struct.Struct(">qi")


class SnapshotId(NamedTuple):
    """The id of a snapshot; a later snapshot has a larger id.

    Attributes:
        offset: the offset after its last record.
        epoch: the epoch of its last record.
    """

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}{SUFFIX}"


def parse_file_name(name: str) -> tuple[SnapshotId, str] | None:
    """Return the snapshot of a file name and the suffix, None for other names."""
    match = _NAME.fullmatch(name)
    return None if match is None else (SnapshotId(int(match[1]), int(match[2])), match[3])


@dataclass(slots=True)
class Snapshot:
    """The contents of a snapshot.

    Attributes:
        records: the state of the cluster.
        last_contained_log_timestamp: the timestamp of its last record, in milliseconds since the epoch.
        voters: the voters, as control records contain them.
    """

    records: list[Message] = field(default_factory=list)
    last_contained_log_timestamp: int = 0
    voters: VoterSet = field(default_factory=VoterSet)


def encode_snapshot(snapshot: Snapshot, epoch: int, metadata_version: int, now_ms: int) -> Iterator[bytes | memoryview]:
    """Yield the batches of a snapshot file.

    Parameters:
        epoch: the epoch of the snapshot.
        metadata_version: the level that determines the versions of records.
        now_ms: milliseconds since the epoch.

    Raises:
        ProtocolError: a record cannot be written at this level.
    """
    header = SnapshotHeaderRecord(last_contained_log_timestamp=snapshot.last_contained_log_timestamp)
    first = [header, *snapshot.voters.records()]
    yield control_batch(first, now_ms, leader_epoch=epoch)
    offset = len(first)
    for start in range(0, len(snapshot.records), _MOST_RECORDS):
        some = snapshot.records[start : start + _MOST_RECORDS]
        builder = BatchBuilder(max_bytes=_INT32_MAX)
        for record in some:
            builder.append(now_ms, None, encode_record(record, metadata_version))
        yield builder.build(base_offset=offset, partition_leader_epoch=epoch)
        offset += len(some)
    yield control_batch([SnapshotFooterRecord()], now_ms, base_offset=offset, leader_epoch=epoch)


def write_snapshot(files: Files, path: Path, batches: Iterable[bytes | memoryview]) -> int:
    """Write a snapshot file, which gets its name after it is complete and synced; may run in any thread.

    Returns:
        Its size in bytes.

    Raises:
        OSError: the disk fails; no file is left.
    """
    part = path.with_name(f"{path.name.removesuffix(SUFFIX)}-{uuid.uuid4().int}{PART_SUFFIX}")
    file = files.open(part, create=True)
    try:
        size = 0
        for batch in batches:
            size += files.pwrite(file, [batch], size)
        files.fsync(file)
        file.close()
        files.rename(part, path)
    except BaseException:
        file.close()
        files.unlink(part)
        raise
    return size


def read_snapshot(files: Files, path: Path) -> Snapshot:
    """Read a snapshot file completely.

    Raises:
        KafkaStorageError: it is damaged or incomplete, or has an unknown record.
        OSError: the disk fails.
    """
    snapshot = Snapshot()
    file = files.open(path, writable=False)
    try:
        complete = False
        for number, batch in enumerate(_batches(files, file)):
            if complete:
                raise CorruptRecordError("its footer is followed by more batches")
            if number == 0:
                _read_header(snapshot, batch)
            elif batch.is_control:
                complete = any(isinstance(decode_control(one), SnapshotFooterRecord) for one in batch.records())
            else:
                snapshot.records += [decode_metadata_record(record.value or b"") for record in batch.records()]
        if not complete:
            raise CorruptRecordError("it ends without a footer")
    except (CorruptRecordError, ProtocolError) as error:
        raise KafkaStorageError(
            f"the snapshot {path} cannot be read: {error.message}; restore it, or move it away to start from an older "
            f"one and the log after it, if they still exist"
        ) from error
    finally:
        file.close()
    return snapshot


def read_timestamp(files: Files, path: Path) -> int:
    """Return the timestamp of the last record in a snapshot, in milliseconds since the epoch.

    Raises:
        KafkaStorageError: its header is damaged.
        OSError: the disk fails.
    """
    snapshot = Snapshot()
    file = files.open(path, writable=False)
    try:
        first = next(_batches(files, file), None)
        if first is None:
            raise CorruptRecordError("it is empty")
        _read_header(snapshot, first)
    except (CorruptRecordError, ProtocolError) as error:
        raise KafkaStorageError(f"the snapshot {path} cannot be read: {error.message}") from error
    finally:
        file.close()
    return snapshot.last_contained_log_timestamp


def _read_header(snapshot: Snapshot, batch: RecordBatch) -> None:
    messages = [decode_control(record) for record in batch.records()] if batch.is_control else []
    if not messages or not isinstance(messages[0], SnapshotHeaderRecord):
        raise CorruptRecordError("it does not begin with a header")
    snapshot.last_contained_log_timestamp = messages[0].last_contained_log_timestamp
    for message in messages[1:]:
        snapshot.voters.replay(message)


def _batches(files: Files, file: OpenFile) -> Iterator[RecordBatch]:
    """Yield the batches of a file, with one in memory at a time."""
    size, position = files.size(file), 0
    while position < size:
        frame = files.pread(file, _FRAME.size, position)
        length = _FRAME.unpack(frame)[1] if len(frame) == _FRAME.size else -1
        if not 0 < length <= size - position - _FRAME.size:
            raise CorruptRecordError(f"the batch at position {position} of {size} is cut off or has no valid size")
        data = files.pread(file, _FRAME.size + length, position)
        yield from read_batches(data)
        position += len(data)
