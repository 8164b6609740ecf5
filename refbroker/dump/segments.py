"""The reader of segments (`.log`) and of snapshots of the metadata log (`.checkpoint`): their batches and records.

The line of a batch shows its header and whether the checksum is valid. Records are decoded even if it is not, as far
as possible. Batches are read one at a time; a batch that extends beyond the end of the file ends the dump.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kclient.errors import CorruptRecordError, ProtocolError
from kclient.protocol import Message
from kclient.protocol.messages.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kclient.records import BatchHeader, parse_control_record, read_batches
from kclient.records.codecs import NAMES
from refbroker.controller.bootstrap import BOOTSTRAP_CHECKPOINT
from refbroker.dump.decoders import Decoder, decoder_for
from refbroker.dump.entries import DamagedFileError, DumpOptions, Entry, Findings, OptionalLong, base_offset
from refbroker.dump.kafka_json import as_json, json_text
from refbroker.dump.rendering import pairs
from refbroker.log import Files
from refbroker.log.batches import scan_batches
from refbroker.metadata.snapshot_file import parse_file_name

_COMPRESSION_MASK = 0x07
_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
_END_MARKERS = {0: "ABORT", 1: "COMMIT"}
# KRaft's control records by type: their name in the tool's output, and their message, always at version 0.
_KRAFT_CONTROLS: dict[int, tuple[str, type[Message]]] = {
    2: ("LeaderChange:", LeaderChangeMessage),
    3: ("SnapshotHeader", SnapshotHeaderRecord),
    4: ("SnapshotFooter", SnapshotFooterRecord),
    5: ("KRaftVersion", KRaftVersionRecord),
    6: ("KRaftVoters", VotersRecord),
}


def read_segment(path: Path, options: DumpOptions, findings: Findings) -> Iterator[Entry]:
    """Yield the batches of a segment, and their records if the options ask for them.

    Raises:
        DamagedFileError: the bytes after the last batch that was yielded are not a batch.
    """
    yield _title(path)
    files = Files()
    file = files.open(path, writable=False)
    try:
        size = files.size(file)
        end = size if options.max_bytes is None else min(size, options.max_bytes)
        records = _Records(path, options, findings)
        valid_bytes = 0
        try:
            for batch in scan_batches(files, file, 0, end):
                fields = _batch_fields(batch)
                findings.damage |= not fields["isvalid"]
                yield Entry(fields)
                if options.deep_iteration or options.print_data_log:
                    yield from records.entries(batch)
                valid_bytes += batch.size_in_bytes
        except CorruptRecordError as error:
            raise DamagedFileError(error.message) from error
        if end > valid_bytes and options.max_bytes is None:
            findings.damage = True
            text = f"Found {end - valid_bytes} invalid bytes at the end of {path.name}"
            yield Entry({"invalidBytes": end - valid_bytes, "position": valid_bytes}, text=text)
    finally:
        file.close()


def _title(path: Path) -> Entry:
    if ".checkpoint" not in path.name:
        return Entry({"Log starting offset": base_offset(path)})
    if path.name.startswith(BOOTSTRAP_CHECKPOINT):
        return Entry({"snapshot": "bootstrap"}, text="KRaft bootstrap snapshot")
    found = parse_file_name(path.name)
    if found is None:
        raise DamagedFileError(
            "the file name of a snapshot must be its end offset in 20 digits, a dash and its epoch in 10 digits"
        )
    snapshot, _ = found
    return Entry(
        {"snapshot": "metadata", "endOffset": snapshot.offset, "epoch": snapshot.epoch},
        text=f"Snapshot end offset: {snapshot.offset}, epoch: {snapshot.epoch}",
    )


def _batch_fields(batch: BatchHeader) -> dict[str, Any]:
    if batch.magic == 2:
        horizon = batch.base_timestamp if batch.has_delete_horizon else -1
        fields: dict[str, Any] = {
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
            "deleteHorizonMs": OptionalLong.of(horizon),
        }
    else:
        fields = {"offset": batch.last_offset}
    codec = batch.attributes & _COMPRESSION_MASK
    return fields | {
        "position": batch.position,
        _TIMESTAMP_TYPES[batch.timestamp_type]: batch.max_timestamp,
        "size": batch.size_in_bytes,
        "magic": batch.magic,
        "compresscodec": NAMES[codec] if codec < len(NAMES) else f"unknown({codec})",
        "crc": batch.checksum,
        "isvalid": batch.is_valid(),
    }


class _Records:
    """The reader of the records of one file, which also checks that offsets are consecutive."""

    def __init__(self, path: Path, options: DumpOptions, findings: Findings) -> None:
        self._path = path
        self._with_metadata = not options.skip_record_metadata
        self._decode: Decoder | None = decoder_for(options.decoder, path) if options.print_data_log else None
        self._findings = findings
        self._last_offset = -1

    def entries(self, batch: BatchHeader) -> Iterator[Entry]:
        """Yield the records of a batch, or an error if it cannot be decoded, so that the next batches can be read."""
        try:
            yield from self._decoded(batch)
        except CorruptRecordError as error:
            self._findings.damage = True
            yield Entry({"error": error.message}, text=f"| {error.message}")

    def _decoded(self, batch: BatchHeader) -> Iterator[Entry]:
        [whole] = read_batches(batch.raw, verify_checksum=False)
        for record in whole.records():
            self._check_offset(record.offset)
            fields = _record_fields(batch, record) if self._with_metadata else {}
            parts = [pairs(fields)] if fields else []
            if batch.is_control:
                if self._with_metadata:
                    control, text = _control(record)
                    fields |= control
                    parts.append(text)
            elif self._decode is not None:
                contents = self._decode(record)
                fields |= contents
                if contents:
                    parts.append(pairs(contents))
            # Kafka's tool prints an empty line for a record without fields.
            yield Entry(fields, text=" ".join(["|", *parts]) if parts else "")

    def _check_offset(self, offset: int) -> None:
        if offset != self._last_offset + 1:
            gaps = self._findings.non_consecutive.setdefault(self._path.absolute(), {})
            gaps[self._last_offset] = offset
        self._last_offset = offset


def _record_fields(batch: BatchHeader, record: Any) -> dict[str, Any]:
    fields = {
        "offset": record.offset,
        _TIMESTAMP_TYPES[batch.timestamp_type]: record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
    }
    if batch.magic == 2:
        sequence = -1
        if batch.base_sequence >= 0:
            sequence = (batch.base_sequence + record.offset - batch.base_offset) & 0x7FFFFFFF
        fields |= {"sequence": sequence, "headerKeys": [name for name, _ in record.headers]}
    elif not batch.attributes & _COMPRESSION_MASK:
        # In formats 0 and 1 an uncompressed batch is one record, so its checksum is the record's.
        fields |= {"isValid": batch.is_valid(), "crc": batch.checksum}
    return fields


def _control(record: Any) -> tuple[dict[str, Any], str]:
    """Return the contents of a control record, as fields and as the end of its line.

    Raises:
        CorruptRecordError: the record is not a valid control record.
    """
    control = parse_control_record(record)
    if control.type in _END_MARKERS:
        fields: dict[str, Any] = {
            "endTxnMarker": _END_MARKERS[control.type],
            "coordinatorEpoch": control.coordinator_epoch,
        }
        return fields, pairs(fields)
    if control.type not in _KRAFT_CONTROLS:
        kind = f"UNKNOWN({control.type})"
        return {"controlType": kind}, f"controlType: {kind}"
    name, message_type = _KRAFT_CONTROLS[control.type]
    try:
        message, _ = message_type.decode_prefix(record.value or b"", 0)
    except ProtocolError as error:
        raise CorruptRecordError(f"the control record at offset {record.offset} is damaged: {error.message}") from error
    # KRaft writes its control records at version 0; their field `version` is the version for the JSON form.
    version = min(max(getattr(message, "version", 0), 0), message_type.max_version)
    data = as_json(message, version)
    return {name.removesuffix(":"): data}, f"{name} {json_text(data)}"
