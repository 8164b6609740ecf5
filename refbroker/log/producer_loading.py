"""Rebuilds the producers of a log: from the last valid snapshot, and the later batches."""

from __future__ import annotations

import logging
from pathlib import Path

from kclient.records import BatchHeader, ControlRecord, parse_control_record, read_batches
from refbroker.log.files import BytesLike, Files
from refbroker.log.log_segments import LogSegments
from refbroker.log.producer_snapshot import (
    CorruptSnapshotError,
    read_snapshot,
    snapshot_offsets,
    snapshot_path,
    write_snapshot,
)
from refbroker.log.producer_state import ProducerStates
from refbroker.log.segment import Segment
from refbroker.log.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)


class ProducerLoader:
    """Loads the producers of one log from its directory.

    Parameters:
        files: the disk.
        directory: the partition's directory.
        segments: the segments of the log, which may change between calls.
        empty: a state of this log without producers.
        now_ms: the clock, for producers that have expired.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        segments: LogSegments,
        empty: ProducerStates,
        now_ms: int,
    ) -> None:
        self._files = files
        self._directory = directory
        self._segments = segments
        self._empty = empty
        self._now_ms = now_ms

    def states_at(self, start: int, end: int) -> tuple[ProducerStates, int]:
        """Return the producers as of `end`, and the offset of the snapshot they began with, `start` without one."""
        states = self._empty.without_producers()
        states.end_offset = start
        for offset in reversed(self.snapshots()):
            if start < offset <= end and self._read_snapshot(states, offset):
                states.end_offset = offset
                break
        snapshot = states.end_offset
        self._replay(states, end)
        return states, snapshot

    def empty_at(self, end: int) -> ProducerStates:
        """Return an empty state as of `end`."""
        states = self._empty.without_producers()
        states.end_offset = end
        return states

    def snapshots(self) -> list[int]:
        """Return the offsets of the existing snapshots, ascending."""
        return snapshot_offsets(self._files, self._directory)

    def save(self, states: ProducerStates) -> None:
        """Write a durable snapshot, because no later flush knows of it."""
        write_snapshot(self._files, self._directory, states.end_offset, states, sync=True)

    def remove_snapshots(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._files.unlink(snapshot_path(self._directory, offset))

    def _read_snapshot(self, states: ProducerStates, offset: int) -> bool:
        """Load the producers of a snapshot; return False if it is damaged."""
        try:
            entries = read_snapshot(self._files, self._directory, offset)
        except CorruptSnapshotError as error:
            logger.warning("%s: %s", snapshot_path(self._directory, offset), error)
            return False
        for entry in entries:
            if not states.is_expired(entry, self._now_ms):
                states.put(entry)
        return True

    def _replay(self, states: ProducerStates, end: int) -> None:
        start = states.end_offset
        for segment in self._segments.from_offset(start) if start < end else ():
            if segment.base_offset >= end:
                # What follows may have to be recovered first.
                break
            first = segment.find(start)
            for header in segment.headers(first.position) if first is not None else ():
                if header.base_offset >= end:
                    break
                replay_batch(states, segment, header)
        states.end_offset = end


def replay_batch(states: ProducerStates, segment: Segment, header: BatchHeader) -> AbortedTransaction | None:
    """Apply a batch of the log to the producers' state.

    Returns:
        The transaction that it aborts, otherwise None.

    Raises:
        CorruptRecordError: the record of a control batch is malformed.
    """
    if not header.has_producer_id:
        return None
    if not header.is_control:
        states.update(header, header.base_offset, header.last_offset, header.max_timestamp)
        return None
    marker = read_marker(segment.read_batch(header))
    return None if marker is None else states.end_transaction(header, marker)


def read_marker(batch: BytesLike) -> ControlRecord | None:
    """Return the control record of a batch; None if compaction has removed it.

    Raises:
        CorruptRecordError: it is malformed.
    """
    records = [record for one in read_batches(batch) for record in one.records()]
    return parse_control_record(records[0]) if records else None
