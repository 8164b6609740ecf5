"""Getting what was written onto the disk, and what happens to a data directory whose disk fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kclient.errors import KafkaStorageError
from refbroker.log.files import Files, OpenFile, storage_errors


class DiskHealth:
    """Whether a data directory can be used; its logs share one, and the first failure is for all of them.

    A directory that has failed stays so until the next start: after an fsync that failed the page cache may hold what
    the disk never got, so that nothing read from there can be believed.

    Attributes:
        failure: the first failure, None while there is none.
        on_failure: called at the first failure, in the thread in which it happened.
    """

    def __init__(self) -> None:
        self.failure: KafkaStorageError | None = None
        self.on_failure: Callable[[], None] | None = None

    def check(self) -> None:
        if self.failure is not None:
            raise KafkaStorageError(f"the log directory is offline: {self.failure.message}")

    @contextmanager
    def guard(self, doing: str, topic: str | None = None, partition: int | None = None) -> Iterator[None]:
        """Raise KafkaStorageError for an OSError, and take the directory offline."""
        try:
            with storage_errors(doing, topic, partition):
                yield
        except KafkaStorageError as error:
            self.fail(error)
            raise

    def fail(self, error: KafkaStorageError) -> None:
        """Take note of a failure."""
        if self.failure is None:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure()


@dataclasses.dataclass(frozen=True, slots=True)
class Flush:
    """A flush that can be carried out in another thread.

    Attributes:
        offset: everything before it is on the disk once `sync` has returned.
    """

    offset: int
    _files: Files
    _open_files: tuple[OpenFile, ...]
    _paths: tuple[Path, ...]
    _directory: Path

    def sync(self) -> None:
        """Wait for the disk. Safe in any thread, also while the log is closed or deleted.

        Raises:
            OSError: the disk fails.
        """
        for file in self._open_files:
            self._files.fsync(file)
        # What was deleted in the meantime need not be on the disk.
        for path in self._paths:
            with suppress(FileNotFoundError):
                self._files.fsync(self._files.open(path))
        with suppress(FileNotFoundError):
            self._files.fsync_directory(self._directory)
