"""The lock of a data directory, which one broker may use at a time.

The broker holds an operating system lock on the empty file `.lock`, as Kafka does, so this broker and Apache Kafka
exclude each other. Such locks exclude other processes only, so the directories locked by this process are also kept
in a set.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kclient.errors import KafkaStorageError
from refbroker.log.files import Files, OpenFile

LOCK = ".lock"

_in_use: set[Path] = set()


class DirectoryInUseError(KafkaStorageError):
    """Another broker uses the data directory."""


class DirectoryLock:
    """The lock of one data directory.

    Parameters:
        files: the disk.
        path: the directory.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._file: OpenFile | None = None

    def take(self) -> None:
        """Lock the directory.

        Raises:
            DirectoryInUseError: another broker uses it.
            OSError: the disk fails.
        """
        path = self._path.resolve()
        file = None if path in _in_use else self._files.lock(self._path / LOCK)
        if file is None:
            raise DirectoryInUseError(
                f"the data directory {self._path} is in use by another broker; stop that one, or use another directory"
            )
        _in_use.add(path)
        self._file = file

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._file is not None:
            # Closing may fail on a broken disk.
            with suppress(OSError):
                self._file.close()
            self._file = None
            _in_use.discard(self._path.resolve())
