"""The disk as the log sees it: the only module that calls the operating system about files.

A test passes its own `Files`, which fails, fills up, or loses unflushed data. Everything here raises OSError;
`storage_errors` converts it to Kafka's KAFKA_STORAGE_ERROR at the interface of the log. There is no buffering: written
data is in the page cache when the call returns, and on the disk after `fsync`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from kclient.errors import KafkaStorageError
from refbroker.log.spare_files import SpareFiles

BytesLike = bytes | bytearray | memoryview

# Linux accepts at most this many parts in one call.
_MOST_PARTS = 1024
_TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)


class OpenFile:
    """An open file: its descriptor is closed by `close`, or with the last reference to the object.

    A response that is being sent refers to the file of its bytes; a segment that is rolled or deleted in the meantime
    only drops its own reference.
    """

    __slots__ = ("_close", "fd", "path")

    def __init__(self, fd: int, path: Path, close: Callable[[int], None]) -> None:
        self.fd = fd
        self.path = path
        self._close = close

    def close(self) -> None:
        """Close the descriptor now; no other reference may exist."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            self._close(fd)

    def __del__(self) -> None:
        self.close()


class DiskSpace(NamedTuple):
    """The size of a disk in bytes, and its usable space."""

    total: int
    usable: int


class Files:
    """Files of the operating system.

    Parameters:
        durable: False skips every fsync, for brokers whose data need not survive the machine.

    Attributes:
        spare_files: the files that are closed when too many are open.
    """

    def __init__(self, *, durable: bool = True) -> None:
        self.durable = durable
        self.spare_files = SpareFiles()

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> OpenFile:
        """Open for reading and, by default, writing; `create` creates a missing file."""
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        return OpenFile(self._descriptor(path, flags), path, self.close)

    def _descriptor(self, path: Path, flags: int) -> int:
        try:
            return os.open(path, flags, 0o644)
        except OSError as error:
            if not too_many_files(error) or not self.spare_files.release():
                raise
        return os.open(path, flags, 0o644)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread(self, file: OpenFile, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file."""
        data = os.pread(file.fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        missing = size - len(data)
        while missing:
            data = os.pread(file.fd, missing, position + size - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def pwrite(self, file: OpenFile, parts: Sequence[BytesLike], position: int) -> int:
        """Write all of `parts` one after the other at `position`, and return the number of bytes."""
        total = 0
        for first in range(0, len(parts), _MOST_PARTS):
            views = [memoryview(part).cast("B") for part in parts[first : first + _MOST_PARTS]]
            while views:
                written = os.pwritev(file.fd, views, position + total)
                total += written
                while views and written >= len(views[0]):
                    written -= len(views.pop(0))
                if views and written:
                    views[0] = views[0][written:]
        return total

    def truncate(self, file: OpenFile, size: int) -> None:
        """Set the size of the file to `size` bytes; added bytes read as zeros and use no space."""
        os.ftruncate(file.fd, size)

    def size(self, file: OpenFile) -> int:
        return os.fstat(file.fd).st_size

    def modified_ms(self, path: Path) -> int:
        """Return when the file was last written, in milliseconds since the epoch."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: Path, time_ms: int) -> None:
        """Set when the file was last written, in milliseconds since the epoch."""
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def fsync(self, file: OpenFile) -> None:
        if self.durable:
            os.fsync(file.fd)

    def fsync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        if not self.durable:
            return
        fd = self._descriptor(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: Path) -> OpenFile | None:
        """Lock a file against other processes, including Java's, until it is closed; return None if another has it."""
        file = self.open(path, create=True)
        try:
            fcntl.lockf(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(directory))

    def is_directory(self, path: Path) -> bool:
        return os.path.isdir(path)

    def make_directory(self, path: Path, *, sync: bool = False) -> None:
        """Create a directory and its missing parents.

        Parameters:
            sync: make the new names durable.
        """
        missing = [each for each in (path, *path.parents) if not self.is_directory(each)]
        for each in reversed(missing):
            self._make_one(each)
        for each in missing if sync else ():
            self.fsync_directory(each.parent)

    def _make_one(self, path: Path) -> None:
        with suppress(FileExistsError):
            os.mkdir(path)

    def rename(self, old: Path, new: Path, *, sync: bool = True) -> None:
        """Rename, replacing an existing file, and make that durable."""
        os.replace(old, new)
        if sync:
            self.fsync_directory(new.parent)

    def unlink(self, path: Path) -> None:
        """Remove a file; a missing one is no error."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path)

    def space(self, path: Path) -> DiskSpace:
        """Return the size and free space of a directory's disk."""
        found = os.statvfs(path)
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def read_bytes(self, path: Path) -> bytes:
        """Return the whole content of a small file."""
        file = self.open(path, writable=False)
        try:
            return self.pread(file, self.size(file), 0)
        finally:
            file.close()

    def write_bytes(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        """Replace a small file: a reader, or a crash, sees the old or the new content, never a part."""
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary, create=True)
        try:
            self.truncate(file, 0)
            self.pwrite(file, [data], 0)
            if sync:
                self.fsync(file)
        finally:
            file.close()
        self.rename(temporary, path, sync=sync)


def too_many_files(error: BaseException | None) -> bool:
    """Return whether an error means that too many files are open, in this process or the system."""
    return isinstance(error, OSError) and error.errno in _TOO_MANY_FILES


@contextmanager
def storage_errors(doing: str, topic: str | None = None, partition: int | None = None) -> Iterator[None]:
    """Convert an OSError to a KafkaStorageError that names the operation.

    Parameters:
        doing: the operation, to follow "could not", with the path.
        topic, partition: the log.

    Raises:
        KafkaStorageError: in place of the OSError.
    """
    try:
        yield
    except OSError as error:
        advice = "; raise the limit of open files (ulimit -n)" if too_many_files(error) else ""
        raise KafkaStorageError(f"could not {doing}: {error}{advice}", topic=topic, partition=partition) from error
