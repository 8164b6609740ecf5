"""The snapshots beside the metadata log, and the deletion of old ones.

A log that starts after offset 0 needs a snapshot that covers its start. Retention checks snapshots from the oldest on:
while log and snapshots have more than `metadata.max.retention.bytes`, or a snapshot is older than
`metadata.max.retention.ms`, the log start moves to the next snapshot, and segments completely before it and the older
snapshot are deleted. The latest snapshot stays. Source: Kafka's KafkaRaftLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from kclient.errors import KafkaStorageError
from refbroker.log import Files, PartitionLog
from refbroker.log.deletions import Deletions
from refbroker.log.files import storage_errors
from refbroker.log.retention import before_log_start
from refbroker.metadata.snapshot_file import (
    DELETED_SUFFIX,
    SUFFIX,
    Snapshot,
    SnapshotId,
    parse_file_name,
    read_snapshot,
    read_timestamp,
)

logger = logging.getLogger(__name__)


class Snapshots:
    """The snapshots of one metadata log.

    Parameters:
        files: the disk.
        log: the metadata log.
        deletions: takes files to remove later.
    """

    def __init__(self, files: Files, log: PartitionLog, deletions: Deletions) -> None:
        self._files = files
        self._log = log
        self._deletions = deletions
        self._sizes: dict[SnapshotId, int] = {}

    def find(self) -> list[Path]:
        """Find the snapshots; return the files that a crash left incomplete, or that the log does not need.

        Raises:
            KafkaStorageError: the disk fails.
        """
        directory, start = self._log.directory, self._log.log_start_offset
        doomed: list[Path] = []
        kept: dict[SnapshotId, int] = {}
        with storage_errors(f"list the snapshots in {directory}"):
            for name in self._files.names(directory):
                found = parse_file_name(name)
                if found is None:
                    continue
                if found[1] == SUFFIX and found[0].offset >= start:
                    kept[found[0]] = self._size_of(directory / name)
                else:
                    doomed.append(directory / name)
        self._sizes = dict(sorted(kept.items()))
        return doomed

    def recover(self) -> None:
        """Find the snapshots, and remove files that a crash left incomplete.

        Raises:
            KafkaStorageError: the log starts after the latest snapshot or ends before it, or the disk fails.
        """
        doomed = self.find()
        directory, start, end = self._log.directory, self._log.log_start_offset, self._log.log_end_offset
        latest = self.latest
        if start > 0 and latest is None:
            raise KafkaStorageError(
                f"the metadata log in {directory} starts at offset {start}, and there is no snapshot that reaches "
                f"to it; restore the newest .checkpoint file"
            )
        if latest is not None and latest.offset > end:
            raise KafkaStorageError(
                f"the metadata log in {directory} ends at offset {end}, before its snapshot {latest.file_name}; "
                f"restore the log, or move that snapshot away to lose the later changes that it contains"
            )
        with storage_errors(f"remove files from {directory}"):
            for path in doomed:
                logger.info("Removing %s, which is not needed", path)
                self._files.unlink(path)

    def start_with(self, snapshot: SnapshotId) -> None:
        """Take a snapshot that was fetched, after which the log starts, and remove the older ones.

        Raises:
            KafkaStorageError: the disk fails.
        """
        with storage_errors(f"replace the snapshots in {self._log.directory}"):
            self._sizes[snapshot] = self._size_of(self.path(snapshot))
            for older in [each for each in self._sizes if each < snapshot]:
                self._remove(older)

    @property
    def latest(self) -> SnapshotId | None:
        """The latest snapshot, or None."""
        return next(reversed(self._sizes), None)

    @property
    def ids(self) -> list[SnapshotId]:
        """All snapshots, the oldest first."""
        return list(self._sizes)

    def add(self, snapshot: SnapshotId, size: int) -> None:
        """Add a snapshot that was written; it is removed if the log starts with a later one meanwhile.

        Parameters:
            size: its size in bytes.

        Raises:
            KafkaStorageError: the disk fails.
        """
        latest = self.latest
        self._sizes[snapshot] = size
        if latest is not None and snapshot < latest:
            with storage_errors(f"remove {self.path(snapshot)}"):
                self._remove(snapshot)

    def path(self, snapshot: SnapshotId) -> Path:
        return self._log.directory / snapshot.file_name

    def read(self, snapshot: SnapshotId) -> Snapshot:
        """Return the contents of a snapshot.

        Raises:
            KafkaStorageError: it is damaged, or the disk fails.
        """
        path = self.path(snapshot)
        with storage_errors(f"read {path}"):
            return read_snapshot(self._files, path)

    def clean(self, max_bytes: int, max_ms: int, now_ms: int) -> None:
        """Delete snapshots and segments beyond the limits.

        Parameters:
            max_bytes: of log and snapshots together; negative for no limit.
            max_ms: the age of a snapshot, by its last record; negative for no limit.
            now_ms: milliseconds since the epoch.

        Raises:
            KafkaStorageError: the disk fails.
        """
        with storage_errors(f"clean the snapshots in {self._log.directory}"):
            if max_bytes >= 0:
                self._clean(lambda _: self._size() > max_bytes, f"log and snapshots have more than {max_bytes} bytes")
            if max_ms >= 0:
                self._clean(
                    lambda snapshot: now_ms - read_timestamp(self._files, self.path(snapshot)) > max_ms,
                    f"it is older than {max_ms} ms",
                )

    def _clean(self, too_much: Callable[[SnapshotId], bool], reason: str) -> None:
        ids = self.ids
        for oldest, follower in pairwise(ids):
            if not too_much(oldest):
                break
            logger.info("Deleting the snapshot %s, since %s", oldest.file_name, reason)
            self._log.delete_records(follower.offset)
            self._log.delete_segments(before_log_start(self._log), f"the snapshot {follower.file_name} has them")
            self._remove(oldest)

    def _remove(self, snapshot: SnapshotId) -> None:
        del self._sizes[snapshot]
        deleted = self.path(snapshot).with_suffix(DELETED_SUFFIX)
        self._files.rename(self.path(snapshot), deleted)
        self._deletions.schedule([deleted], self._log.config.file_delete_delay_ms)

    def _size(self) -> int:
        return self._log.size_in_bytes() + sum(self._sizes.values())

    def _size_of(self, path: Path) -> int:
        file = self._files.open(path, writable=False)
        try:
            return self._files.size(file)
        finally:
            file.close()
