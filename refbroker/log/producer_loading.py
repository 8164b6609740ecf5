"""Rebuilding what a log remembers of its producers: from the last good snapshot, and the batches behind it."""

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
        directory: the partition's.
        segments: of the log; they may grow and shrink between calls.
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
        """The producers as of `end`, and the offset of the snapshot they began with, `start` for none."""
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
        """No producers, as of `end`."""
        states = self._empty.without_producers()
        states.end_offset = end
        return states

    def snapshots(self) -> list[int]:
        """The offsets of the snapshots that are there, ascending."""
        return snapshot_offsets(self._files, self._directory)

    def save(self, states: ProducerStates) -> None:
        """Write a snapshot; it is durable then, for no flush to come knows of it."""
        write_snapshot(self._files, self._directory, states.end_offset, states, sync=True)

    def remove_snapshots(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._files.unlink(snapshot_path(self._directory, offset))

    def _read_snapshot(self, states: ProducerStates, offset: int) -> bool:
        """Take the producers of a snapshot over; False when it is damaged."""
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
                # What comes then may have to be recovered first.
                break
            first = segment.find(start)
            for header in segment.headers(first.position) if first is not None else ():
                if header.base_offset >= end:
                    break
                replay_batch(states, segment, header)
        states.end_offset = end


def replay_batch(states: ProducerStates, segment: Segment, header: BatchHeader) -> AbortedTransaction | None:
    """Take a batch that is in the log into the producers' state.

    Returns:
        The transaction that it aborts, None for anything else.

    Raises:
        CorruptRecordError: a control batch whose record cannot be read.
    """
    if not header.has_producer_id:
        return None
    if not header.is_control:
        states.update(header, header.base_offset, header.last_offset, header.max_timestamp)
        return None
    marker = read_marker(segment.read_batch(header))
    return None if marker is None else states.end_transaction(header, marker)


def read_marker(batch: BytesLike) -> ControlRecord | None:
    """What the control record of a batch says; None when compaction has left the batch without it.

    Raises:
        CorruptRecordError: it cannot be read.
    """
    records = [record for one in read_batches(batch) for record in one.records()]
    return parse_control_record(records[0]) if records else None
