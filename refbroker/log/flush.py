"""Flushing written data to the disk, and the failure of a data directory's disk."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kclient.errors import KafkaStorageError
from refbroker.log.files import Files, OpenFile, storage_errors, too_many_files
from refbroker.log.log_segments import LogSegments
from refbroker.log.segment import Segment
from refbroker.metrics.histogram import Histogram


class DiskHealth:
    """Whether a data directory is usable; its logs share one, and the first failure applies to all of them.

    A failed directory stays failed until the next start: after a failed fsync the page cache may contain data that the
    disk never received, so nothing read from there can be trusted.

    Attributes:
        failure: the first failure, None without one.
        flushes: the durations of flushes of logs.
        on_failure: called at the first failure, in the thread in which it happened.
    """

    def __init__(self) -> None:
        self.failure: KafkaStorageError | None = None
        self.flushes = Histogram()
        self.on_failure: Callable[[], None] | None = None

    def check(self) -> None:
        if self.failure is not None:
            raise KafkaStorageError(f"the log directory is offline: {self.failure.message}")

    @contextmanager
    def guard(
        self, doing: str, topic: str | None = None, partition: int | None = None, *, can_repeat: bool = False
    ) -> Iterator[None]:
        """Raise KafkaStorageError for an OSError, and take the directory offline.

        Parameters:
            doing: the operation, to follow "could not", with the path.
            topic, partition: the log.
            can_repeat: whether a file that cannot be opened, because too many are open, leaves a consistent state; then
                the directory stays online.
        """
        try:
            with storage_errors(doing, topic, partition):
                yield
        except KafkaStorageError as error:
            if not can_repeat or not too_many_files(error.__cause__):
                self.fail(error)
            raise

    def fail(self, error: KafkaStorageError) -> None:
        """Record a failure."""
        if self.failure is None:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure()


@dataclasses.dataclass(slots=True)
class Flush:
    """A flush that another thread can execute.

    Attributes:
        offset: everything before it is on the disk once `sync` has returned.
        names: the number of name changes on the disk then.
        rolled, snapshots, topic_id: the files that are completely on the disk then.
        truncations: the number of truncations of the log before it began.
        took_ns: how long `sync` took, in nanoseconds.
    """

    offset: int
    names: int
    rolled: tuple[Segment, ...]
    snapshots: tuple[Path, ...]
    topic_id: Path | None
    truncations: int
    _files: Files
    _open_files: tuple[OpenFile, ...]
    _directories: tuple[Path, ...]
    took_ns: int = 0

    def sync(self) -> None:
        """Wait for the disk. Safe in any thread, also while the log is closed or deleted.

        Raises:
            OSError: the disk fails.
        """
        started = time.perf_counter_ns()
        for file in self._open_files:
            self._files.fsync(file)
        # Deleted files need not be on the disk.
        for path in (*self.snapshots, *([] if self.topic_id is None else [self.topic_id])):
            with suppress(FileNotFoundError):
                self._files.fsync(self._files.open(path))
        for path in self._directories:
            with suppress(FileNotFoundError):
                self._files.fsync_directory(path)
        self.took_ns = time.perf_counter_ns() - started


class Unsynced:
    """What a log has to flush besides the records behind its recovery point: rolled segments, snapshots, names, its id.

    A segment that was flushed while it was active is trimmed and gets its last index entries when it is rolled, so it
    must be flushed again. The indexes of the active segment need not be flushed: recovery rebuilds them. So recovery
    must begin there while they are not on the disk, even if the records are.

    The topic id must be on the disk before any record, or the records could be attributed to another topic of the same
    name. A worker thread flushes it while the log is empty.

    Parameters:
        files: the disk.
        directory: the partition's directory, whose name counts as new.
    """

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._rolled: list[Segment] = []
        self._snapshots: list[Path] = []
        self._topic_id: Path | None = None
        self._names = 1
        self._names_on_disk = 0
        self._truncations = 0

    def add_rolled(self, segment: Segment) -> None:
        """Add a segment that is no longer written to, because another one was created."""
        self._rolled.append(segment)
        self._names += 1

    def add_snapshot(self, path: Path) -> None:
        """Add a producer snapshot that was written."""
        self._snapshots.append(path)
        self._names += 1

    def add_topic_id(self, path: Path) -> None:
        """Add the `partition.metadata` of a log without records."""
        self._topic_id = path

    def sync_topic_id(self) -> None:
        """Wait until the topic id is on the disk.

        Raises:
            OSError: the disk fails.
        """
        if self._topic_id is not None:
            self._files.fsync(self._files.open(self._topic_id))
            self._files.fsync_directory(self._directory)
            self._topic_id = None

    def recovery_start(self, segments: LogSegments, recovery_point: int, end_offset: int) -> int:
        """Return the recovery point, but within the first segment whose indexes are not on the disk, never at its end.

        Parameters:
            end_offset: the end offset of the log, whose active segment has been written to.
        """
        # In this order, and without a change: the thread that fills a future log may roll it in the meantime.
        active = len(segments) - 1
        rolled = [segments.index_of(each.base_offset) for each in self._rolled if each in segments]
        first = min([active, *rolled])
        end = segments[first + 1].base_offset if first + 1 < len(segments) else end_offset
        return min(recovery_point, max(end - 1, segments[first].base_offset))

    def begin(self, segments: LogSegments, recovery_point: int, offset: int) -> Flush | None:
        """Return a flush after which everything before `offset` is on the disk; None if there is nothing to do."""
        self._rolled = [each for each in self._rolled if each in segments]
        if offset <= recovery_point and not self._rolled and self._topic_id is None:
            return None
        behind = [each for each in segments.from_offset(recovery_point) if recovery_point < offset > each.base_offset]
        chosen = [*(each for each in self._rolled if each not in behind), *behind]
        open_files = [file for each in chosen for file in (each.open_files() if not each.is_active else [each.file])]
        directories = [self._directory] if self._names > self._names_on_disk else []
        if not self._names_on_disk:
            directories.append(self._directory.parent)
        return Flush(
            offset,
            self._names,
            tuple(self._rolled),
            tuple(self._snapshots),
            self._topic_id,
            self._truncations,
            self._files,
            tuple(open_files),
            tuple(directories),
        )

    def truncated(self, segments: LogSegments) -> None:
        """Take note that the end of the log was removed, and that the last segment is active again."""
        self._truncations += 1
        self._rolled = [each for each in self._rolled if each in segments and not each.is_active]

    def is_outdated(self, flush: Flush) -> bool:
        """Return whether the log was truncated since a flush began, so that other records are at its offsets."""
        return flush.truncations != self._truncations

    def finish(self, flush: Flush) -> None:
        """Record a finished flush; later changes are left for the next one."""
        self._rolled = [each for each in self._rolled if each not in flush.rolled]
        self._snapshots = [each for each in self._snapshots if each not in flush.snapshots]
        self._topic_id = None if flush.topic_id is not None else self._topic_id
        self._names_on_disk = max(self._names_on_disk, flush.names)
