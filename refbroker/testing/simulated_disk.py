"""A disk for tests: it loses unflushed data in a power failure, fails on request, and fills up.

    disk = SimulatedDisk()
    ...                                             # a broker writes to it, and is killed
    disk.lose_unflushed(seed=7)                     # leaves what a power failure could; the same for the same seed
    disk.fail(path_prefix=path, operation="fsync")  # EIO from now on
    disk.fill(4096)                                 # ENOSPC after this many more bytes
    disk.heal()

Data lie in real files, which always hold the newest bytes, so that whatever reads them by itself
(sendfile) sees the truth. What was there before is kept in memory until an fsync of the file, or of
the directory for names. The promise is POSIX's and no more: contents are safe after an fsync of the
file, a name (made, renamed, removed) after an fsync of its directory, nothing else in any order. So a
power failure keeps, loses or tears each write at a sector, or leaves zeros where the file had grown,
and undoes names, in whatever combination the seed picks. Any thread may use it.

Not implemented: reads that return wrong bytes; renames from one directory to another, which fail with EXDEV; and
faults of what reads descriptors by itself, such as sendfile.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from refbroker.log.files import BytesLike, Files, OpenFile
from refbroker.testing.unflushed import Chance, Directory, File, Losses, NameChange, Node, Truncate, Write, data_from

Operation = Literal["open", "read", "write", "truncate", "fsync", "list", "make_directory", "rename", "unlink"]
OPERATIONS: tuple[str, ...] = get_args(Operation)


@dataclass(eq=False)
class DiskFault:
    """Operations that fail.

    Attributes:
        path_prefix: the prefix of matching paths; an empty one matches all.
        operation: the operation, None for any.
        error: the number of the error, such as `errno.EIO`.
        after: how many matching operations succeed before the first failure.
        count: how many fail, None for all later ones.
        fired: the number of failures so far.
    """

    path_prefix: str
    operation: str | None
    error: int
    after: int
    count: int | None
    fired: int = 0
    _seen: int = 0

    def applies(self, operation: str, path: Path) -> bool:
        if self.operation not in (None, operation) or not str(path).startswith(self.path_prefix):
            return False
        self._seen += 1
        if self._seen <= self.after or (self.count is not None and self.fired >= self.count):
            return False
        self.fired += 1
        return True


class SimulatedDisk(Files):
    """Real files, with power failures, errors and limited space.

    Parameters:
        durable: whether to pass an fsync on to the operating system; has no effect on `lose_unflushed`.
    """

    def __init__(self, *, durable: bool = False) -> None:
        super().__init__(durable=durable)
        self._lock = threading.RLock()
        self._root = Directory("", None)
        self._open: dict[int, File] = {}
        self._serial = 0
        self._faults: list[DiskFault] = []
        self._bytes_left: int | None = None

    # Failures

    def lose_unflushed(self, seed: int) -> Losses:
        """Simulate a power failure: leave what a disk could have kept of the unflushed data.

        Open files can no longer be written (EIO), so that other threads change nothing; stop the users of the disk
        before, and start them again afterwards. Pending errors are dropped.

        Parameters:
            seed: decides what is kept; the same operations and seed leave the same files.
        """
        with self._lock:
            self.heal()
            self._open.clear()
            chance = Chance(random.Random(seed), range(self._serial))
            self._root.lose(chance)
            self._root = Directory("", None)
            self._serial = 0
            return chance.losses

    def fail(
        self,
        *,
        path_prefix: Path | str = "",
        operation: Operation | None = None,
        error: int = errno.EIO,
        after: int = 0,
        count: int | None = None,
    ) -> DiskFault:
        """Make operations fail, before they have any effect.

        Parameters:
            path_prefix: only operations on paths with this prefix.
            operation: one of `OPERATIONS`, None for any.
            error: the number of the error, from `errno`.
            after: how many matching operations succeed before.
            count: how many fail; None for all until `heal`.

        Raises:
            ValueError: the operation does not exist.
        """
        if operation is not None and operation not in OPERATIONS:
            raise ValueError(f"{operation} is not an operation of the disk; it has {', '.join(OPERATIONS)}")
        fault = DiskFault(str(path_prefix), operation, error, after, count)
        with self._lock:
            self._faults.append(fault)
        return fault

    def fill(self, bytes_left: int) -> None:
        """Make writes fail with ENOSPC once files have grown by this many bytes; the last one is partial.

        Deleting and truncating files frees space. Growing a file by truncation uses none.
        """
        with self._lock:
            self._bytes_left = bytes_left

    def heal(self) -> None:
        """Drop pending errors, and have unlimited space."""
        with self._lock:
            self._faults.clear()
            self._bytes_left = None

    def _check(self, operation: Operation, path: Path) -> None:
        for fault in self._faults:
            if fault.applies(operation, path):
                raise OSError(fault.error, os.strerror(fault.error), str(path))

    # The tree

    def _directory(self, path: Path) -> Directory:
        directory = self._root
        for name in Path(os.path.abspath(path)).parts[1:]:
            child = directory.children.get(name)
            if not isinstance(child, Directory):
                child = directory.children[name] = Directory(name, directory)
            directory = child
        return directory

    def _file(self, path: Path) -> File:
        """Return the node of an existing file."""
        directory = self._directory(path.parent)
        node = directory.children.get(path.name)
        if not isinstance(node, File):
            node = directory.children[path.name] = File(path.name, directory, os.path.getsize(path))
        return node

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def _renamed(self, directory: Directory, node: Node, old: str | None, new: str | None) -> None:
        directory.change(NameChange(self._next_serial(), node, old, new))

    def _opened(self, file: OpenFile) -> File:
        node = self._open.get(file.fd)
        if node is None:
            raise OSError(errno.EIO, "the file was open when the power went", str(file.path))
        return node

    def _free(self, node: File, data_end: int) -> None:
        if self._bytes_left is not None:
            self._bytes_left += max(node.data_end - data_end, 0)
        node.data_end = min(node.data_end, data_end)

    # Files

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> OpenFile:
        with self._lock:
            self._check("open", path)
            is_new = create and not os.path.exists(path)
            file = super().open(path, create=create, writable=writable)
            if is_new:
                directory = self._directory(path.parent)
                # It was removed directly, without the disk.
                directory.children.pop(path.name, None)
                self._renamed(directory, File(path.name, directory, 0), None, path.name)
            self._open[file.fd] = self._file(path)
            return file

    def close(self, fd: int) -> None:
        with self._lock:
            self._open.pop(fd, None)
            super().close(fd)

    def pread(self, file: OpenFile, size: int, position: int) -> bytes:
        with self._lock:
            self._check("read", file.path)
        return super().pread(file, size, position)

    def pwrite(self, file: OpenFile, parts: Sequence[BytesLike], position: int) -> int:
        with self._lock:
            node = self._opened(file)
            self._check("write", file.path)
            size = sum(len(memoryview(part).cast("B")) for part in parts)
            fitting = size
            if self._bytes_left is not None:
                fitting = max(min(size, node.data_end + self._bytes_left - position), 0)
            if fitting:
                old_size = self.size(file)
                replaced = os.pread(file.fd, max(min(fitting, old_size - position), 0), position)
                super().pwrite(file, parts if fitting == size else [b"".join(parts)[:fitting]], position)
                node.changes.append(Write(self._next_serial(), position, fitting, replaced, old_size))
                if self._bytes_left is not None:
                    self._bytes_left -= max(position + fitting - node.data_end, 0)
                node.data_end = max(node.data_end, position + fitting)
            if fitting < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file.path))
            return size

    def truncate(self, file: OpenFile, size: int) -> None:
        with self._lock:
            node = self._opened(file)
            self._check("truncate", file.path)
            old_size = self.size(file)
            if size == old_size:
                return
            cut_off = tuple(data_from(file.fd, size)) if size < old_size else ()
            super().truncate(file, size)
            node.changes.append(Truncate(self._next_serial(), size, old_size, cut_off))
            self._free(node, size)

    def fsync(self, file: OpenFile) -> None:
        with self._lock:
            node = self._opened(file)
            self._check("fsync", file.path)
            changes = len(node.changes)
        # Writes during the flush may or may not be part of it.
        super().fsync(file)
        with self._lock:
            if self._open.get(file.fd) is node:
                del node.changes[:changes]

    # Names

    def fsync_directory(self, path: Path) -> None:
        with self._lock:
            self._check("fsync", path)
            os.stat(path)
            directory = self._directory(path)
            changes = len(directory.changes)
        super().fsync_directory(path)
        with self._lock:
            directory.flushed(changes)

    def names(self, directory: Path) -> list[str]:
        with self._lock:
            self._check("list", directory)
        return super().names(directory)

    def _make_one(self, path: Path) -> None:
        with self._lock:
            self._check("make_directory", path)
            super()._make_one(path)
            parent = self._directory(path.parent)
            self._renamed(parent, Directory(path.name, parent), None, path.name)

    def rename(self, old: Path, new: Path, *, sync: bool = True) -> None:
        with self._lock:
            self._check("rename", old)
            directory = self._directory(old.parent)
            if self._directory(new.parent) is not directory:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(old), None, str(new))
            node: Node = self._directory(old) if os.path.isdir(old) else self._file(old)
            if os.path.isfile(new):
                replaced = self._file(new)
                replaced.hold()
                self._free(replaced, 0)
            super().rename(old, new, sync=False)
            self._renamed(directory, node, old.name, new.name)
        if sync:
            self.fsync_directory(new.parent)

    def unlink(self, path: Path) -> None:
        with self._lock:
            self._check("unlink", path)
            if os.path.exists(path):
                node = self._file(path)
                node.hold()
                super().unlink(path)
                self._free(node, 0)
                self._renamed(self._directory(path.parent), node, path.name, None)

    def remove_tree(self, path: Path) -> None:
        with self._lock:
            for name in sorted(os.listdir(path)):
                if os.path.isdir(path / name):
                    self.remove_tree(path / name)
                else:
                    self.unlink(path / name)
            self._check("unlink", path)
            node = self._directory(path)
            os.rmdir(path)
            self._renamed(self._directory(path.parent), node, path.name, None)
