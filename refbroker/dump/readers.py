"""Readers of a broker's files, one for each kind: each gives entries, which are named values."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kclient.errors import ConfigError, ProtocolError
from kclient.protocol.log_records import decode_metadata_record
from kclient.protocol.schema import Struct
from kclient.records import RecordBatch, parse_control_record, read_batches
from refbroker.log.checkpoints import decode_table
from refbroker.log.leader_epochs import LEADER_EPOCHS
from refbroker.log.producer_snapshot import decode_snapshot
from refbroker.metadata.log import TOPIC as METADATA_TOPIC

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")
_LEADER_CHANGE = 2


@dataclass(slots=True)
class Entry:
    """What is shown in one line; `nested` when it belongs to the one before."""

    fields: dict[str, Any]
    nested: bool = False


Reader = Callable[[Path, bool], Iterator[Entry]]


def reader_for(path: Path) -> Reader:
    """The reader of a file, by its name.

    Raises:
        ConfigError: it is none of a broker's files, or a folder.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name the files in it, as {path}/*.log")
    reader = _BY_SUFFIX.get(path.suffix) or _BY_NAME.get(path.name)
    if reader is None:
        known = ", ".join([*_BY_SUFFIX, *_BY_NAME])
        raise ConfigError(f"{path} is none of the files that can be shown: {known}")
    return reader


def read_segment(path: Path, records: bool) -> Iterator[Entry]:
    """A segment's batches, and their records; those of the metadata log are always decoded."""
    is_metadata = path.parent.name.startswith(METADATA_TOPIC + "-")
    if path.stem.isdecimal():
        yield Entry({"Log starting offset": int(path.stem)})
    data = path.read_bytes()
    end = 0
    for batch in read_batches(data, verify_checksum=False):
        valid = batch.is_valid()
        yield Entry(_batch_fields(batch, valid))
        end = batch.position + batch.size_in_bytes
        if (records or is_metadata) and valid:
            for record in batch.records():
                yield Entry(_record_fields(batch, record, is_metadata), nested=True)
    if end < len(data):
        yield Entry({"Found invalid bytes": len(data) - end, "position": end})


def _batch_fields(batch: RecordBatch, valid: bool) -> dict[str, Any]:
    return {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "position": batch.position,
        ("LogAppendTime" if batch.timestamp_type == 1 else "CreateTime"): batch.max_timestamp,
        "size": batch.size_in_bytes,
        "magic": batch.magic,
        "compresscodec": batch.compression_type,
        "crc": batch.checksum,
        "isvalid": valid,
    }


def _record_fields(batch: RecordBatch, record: Any, is_metadata: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "headerKeys": [name for name, _ in record.headers],
    }
    if batch.is_control:
        fields |= _control_fields(record)
    elif is_metadata:
        try:
            message = decode_metadata_record(record.value)
            fields["payload"] = {"type": message.message_name, "data": as_dict(message)}
        except ProtocolError as error:
            fields["error"] = str(error)
    else:
        fields["key"], fields["payload"] = record.key, record.value
    return fields


def _control_fields(record: Any) -> dict[str, Any]:
    kind = int.from_bytes(record.key[2:4], "big", signed=True) if record.key and len(record.key) >= 4 else -1
    if kind == _LEADER_CHANGE:
        from kclient.protocol.messages.records.control import LeaderChangeMessage

        return {"LeaderChange": as_dict(LeaderChangeMessage.decode(record.value, 0))}
    if kind in (0, 1):
        control = parse_control_record(record)
        return {"endTxnMarker": "COMMIT" if kind == 1 else "ABORT", "coordinatorEpoch": control.coordinator_epoch}
    return {"controlType": kind}


def as_dict(message: Struct) -> dict[str, Any]:
    """A message as nested dicts, without what is null or empty."""
    fields: dict[str, Any] = {}
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name == "unknown_tagged_fields" or value is None or value == []:
            continue
        if isinstance(value, list):
            value = [as_dict(item) if isinstance(item, Struct) else item for item in value]
        fields[name] = as_dict(value) if isinstance(value, Struct) else value
    return fields


def read_offset_index(path: Path, records: bool) -> Iterator[Entry]:
    """The entries of an offset index, without the zeros at the end of an active one."""
    base = int(path.stem)
    for number, (relative, position) in enumerate(_index_entries(path, _OFFSET_ENTRY)):
        if number and not relative and not position:
            return
        yield Entry({"offset": base + relative, "position": position})


def read_time_index(path: Path, records: bool) -> Iterator[Entry]:
    """The entries of a time index, without the zeros at the end of an active one."""
    base = int(path.stem)
    for timestamp, relative in _index_entries(path, _TIME_ENTRY):
        if not timestamp and not relative:
            return
        yield Entry({"timestamp": timestamp, "offset": base + relative})


def _index_entries(path: Path, entry: struct.Struct) -> Iterator[Any]:
    data = path.read_bytes()
    yield from entry.iter_unpack(data[: len(data) - len(data) % entry.size])


def read_transaction_index(path: Path, records: bool) -> Iterator[Entry]:
    """The aborted transactions of a segment."""
    for version, producer_id, first, last, stable in _index_entries(path, _ABORTED_ENTRY):
        yield Entry(
            {
                "version": version,
                "producerId": producer_id,
                "firstOffset": first,
                "lastOffset": last,
                "lastStableOffset": stable,
            }
        )


def read_producers(path: Path, records: bool) -> Iterator[Entry]:
    """The producers in a snapshot."""
    for producer in decode_snapshot(path.read_bytes()):
        yield Entry(
            {
                "producerId": producer.producer_id,
                "producerEpoch": producer.producer_epoch,
                "coordinatorEpoch": producer.coordinator_epoch,
                "currentTxnFirstOffset": producer.current_txn_first_offset,
                "lastTimestamp": producer.last_timestamp,
                "lastSequence": producer.last_sequence,
                "lastOffset": producer.last_offset,
                "offsetDelta": producer.offset_delta,
            }
        )


def read_offsets(path: Path, records: bool) -> Iterator[Entry]:
    """The offsets of a data directory's checkpoint file."""
    for topic, partition, offset in decode_table(path.read_bytes(), path):
        yield Entry({"topic": topic, "partition": int(partition), "offset": int(offset)})


def read_epochs(path: Path, records: bool) -> Iterator[Entry]:
    """The leader epochs of a log."""
    for epoch, offset in decode_table(path.read_bytes(), path):
        yield Entry({"leaderEpoch": int(epoch), "startOffset": int(offset)})


def read_properties(path: Path, records: bool) -> Iterator[Entry]:
    """The lines of `meta.properties` or `partition.metadata`."""
    separator = ":" if path.name == "partition.metadata" else "="
    fields = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, value = line.partition(separator)
            fields[name.strip()] = value.strip()
    yield Entry(fields)


def read_json(path: Path, records: bool) -> Iterator[Entry]:
    """A file of one JSON object."""
    yield Entry(dict(json.loads(path.read_text(encoding="utf-8"))))


_BY_SUFFIX: dict[str, Reader] = {
    ".log": read_segment,
    ".checkpoint": read_segment,
    ".index": read_offset_index,
    ".timeindex": read_time_index,
    ".txnindex": read_transaction_index,
    ".snapshot": read_producers,
}
_BY_NAME: dict[str, Reader] = {
    "recovery-point-offset-checkpoint": read_offsets,
    "log-start-offset-checkpoint": read_offsets,
    "replication-offset-checkpoint": read_offsets,
    "cleaner-offset-checkpoint": read_offsets,
    LEADER_EPOCHS: read_epochs,
    "meta.properties": read_properties,
    "partition.metadata": read_properties,
    ".kafka_cleanshutdown": read_json,
    "quorum-state": read_json,
}
