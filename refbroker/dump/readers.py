"""The choice of the reader by file name, and the readers of checkpoints, snapshots, properties and JSON files.

Files with the temporary suffixes `.deleted`, `.cleaned`, `.swap` and `.part` are read like those without.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from refbroker.dump.entries import DamagedFileError, DumpOptions, Entry, Findings, OptionalLong, Reader, read_whole
from refbroker.dump.indexes import read_offset_index, read_time_index, read_transaction_index
from refbroker.dump.segments import read_segment
from refbroker.log.checkpoints import decode_table
from refbroker.log.leader_epochs import LEADER_EPOCHS
from refbroker.log.producer_snapshot import decode_snapshot

_TEMPORARY_SUFFIXES = (".deleted", ".cleaned", ".swap", ".part")


def reader_for(path: Path) -> Reader | None:
    """Return the reader for a file, None if brokers write no file of this name."""
    reader = _BY_NAME.get(path.name)
    if reader is not None:
        return reader
    name = path.with_suffix("") if path.suffix in _TEMPORARY_SUFFIXES else path
    return _BY_SUFFIX.get(name.suffix)


def read_producers(path: Path, options: DumpOptions, findings: Findings) -> Iterator[Entry]:
    """Yield the producers in a producer snapshot."""
    for producer in decode_snapshot(read_whole(path)):
        fields = {
            "producerId": producer.producer_id,
            "producerEpoch": producer.producer_epoch,
            "coordinatorEpoch": producer.coordinator_epoch,
            "currentTxnFirstOffset": OptionalLong.of(producer.current_txn_first_offset),
            "lastTimestamp": producer.last_timestamp,
        }
        if producer.batches:
            batch = producer.batches[0]
            fields |= {
                "firstSequence": batch.first_sequence,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
        yield Entry(fields)


def read_offsets(path: Path, options: DumpOptions, findings: Findings) -> Iterator[Entry]:
    """Yield the offsets in a checkpoint file of a data directory."""
    for row in decode_table(read_whole(path), path):
        topic, partition, offset = _cells(row, 3)
        yield Entry({"topic": topic, "partition": int(partition), "offset": int(offset)})


def read_epochs(path: Path, options: DumpOptions, findings: Findings) -> Iterator[Entry]:
    """Yield the leader epochs of a log."""
    for row in decode_table(read_whole(path), path):
        epoch, offset = _cells(row, 2)
        yield Entry({"leaderEpoch": int(epoch), "startOffset": int(offset)})


def _cells(row: list[str], count: int) -> list[str]:
    if len(row) != count:
        raise DamagedFileError(f"the line {' '.join(row)!r} does not have {count} words")
    return row


def read_partition_metadata(path: Path, options: DumpOptions, findings: Findings) -> Iterator[Entry]:
    """Yield the topic id of a partition, and the version of the file."""
    lines = read_whole(path).decode("utf-8", "replace").splitlines()
    pairs = (line.partition(":") for line in lines if line.strip())
    yield Entry({name.strip(): value.strip() for name, _, value in pairs})


def read_meta_properties(path: Path, options: DumpOptions, findings: Findings) -> Iterator[Entry]:
    """Yield the properties of a data directory: its cluster, node and id."""
    from kclient._properties import parse_properties

    yield Entry(dict(parse_properties(read_whole(path).decode("utf-8", "replace"))))


def read_json(path: Path, options: DumpOptions, findings: Findings) -> Iterator[Entry]:
    """Yield the members of a file that is one JSON object.

    Raises:
        DamagedFileError: the file is not a JSON object.
    """
    try:
        value = json.loads(read_whole(path))
    except RecursionError as error:
        raise DamagedFileError("the JSON is nested too deeply") from error
    if not isinstance(value, dict):
        raise DamagedFileError("the file is not a JSON object")
    yield Entry(value)


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
    "meta.properties": read_meta_properties,
    "partition.metadata": read_partition_metadata,
    ".kafka_cleanshutdown": read_json,
    "quorum-state": read_json,
}
