"""The unflushed data of a simulated disk, and the effect of a power failure on it.

A tree of the names and files that were touched. A file remembers its changes since its last fsync, each
with the bytes that it replaced; a directory remembers the names it had at its last fsync and what
happened to them since. `lose` takes all of that back in the real files, and then does again what chance keeps.
"""

from __future__ import annotations

import enum
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from refbroker.log.files import OpenFile

SECTOR = 512


class WriteOutcome(enum.Enum):
    """The outcome of an unflushed change."""

    KEPT = "kept"
    LOST = "lost"
    TORN = "torn"
    ZEROS = "zeros"


@dataclass
class Losses:
    """The effect of a power failure on unflushed data.

    Attributes:
        kept, lost, torn, zeros: the numbers of writes and truncations by outcome.
        names_kept, names_lost: the numbers of names that were created, changed or removed.
    """

    kept: int = 0
    lost: int = 0
    torn: int = 0
    zeros: int = 0
    names_kept: int = 0
    names_lost: int = 0


class Chance:
    """Decides the outcome of each change.

    Either everything after some moment is lost, as on a disk that writes in order, or each change has an outcome of its
    own, with odds that differ between power failures.
    """

    def __init__(self, rng: random.Random, serials: range) -> None:
        self._rng = rng
        self._moment = rng.randint(serials.start, serials.stop) if rng.random() < 0.4 else None
        self._keep = rng.choice((0.0, 0.2, 0.5, 0.8, 1.0, rng.random()))
        self.losses = Losses()

    def of_write(self, serial: int) -> WriteOutcome:
        outcome = self._outcome_of(serial)
        setattr(self.losses, outcome.value, getattr(self.losses, outcome.value) + 1)
        return outcome

    def keeps_size(self, serial: int) -> bool:
        kept = self._outcome_of(serial) is WriteOutcome.KEPT
        if kept:
            self.losses.kept += 1
        else:
            self.losses.lost += 1
        return kept

    def keeps_name(self, serial: int) -> bool:
        kept = self._outcome_of(serial) is WriteOutcome.KEPT
        if kept:
            self.losses.names_kept += 1
        else:
            self.losses.names_lost += 1
        return kept

    def sector(self, start: int, end: int) -> int:
        """Return a sector boundary from `start` to `end`, where a write is torn; `start` without one."""
        first, last = start // SECTOR + 1, (end - 1) // SECTOR
        return self._rng.randint(first, last) * SECTOR if first <= last else start

    def _outcome_of(self, serial: int) -> WriteOutcome:
        if self._moment is not None and serial != self._moment:
            return WriteOutcome.KEPT if serial < self._moment else WriteOutcome.LOST
        if self._moment is None and self._rng.random() < self._keep:
            return WriteOutcome.KEPT
        return self._rng.choice((WriteOutcome.LOST, WriteOutcome.TORN, WriteOutcome.ZEROS))


# Contents


@dataclass(frozen=True, slots=True)
class Write:
    """A write: its size and position, the replaced bytes, and the previous size of the file."""

    serial: int
    position: int
    size: int
    replaced: bytes
    old_size: int

    def undo(self, fd: int) -> bytes:
        data = os.pread(fd, self.size, self.position)
        os.pwrite(fd, self.replaced, self.position)
        os.ftruncate(fd, self.old_size)
        return data

    def redo(self, fd: int, data: bytes, chance: Chance) -> None:
        outcome = chance.of_write(self.serial)
        end = self.position + len(data)
        if outcome is WriteOutcome.TORN:
            data = data[: chance.sector(self.position, end) - self.position]
        if outcome in (WriteOutcome.KEPT, WriteOutcome.TORN):
            os.pwrite(fd, data, self.position)
        elif outcome is WriteOutcome.ZEROS and os.fstat(fd).st_size < end:
            os.ftruncate(fd, end)


@dataclass(frozen=True, slots=True)
class Truncate:
    """A change of a file's size: the sizes, and the truncated bytes."""

    serial: int
    size: int
    old_size: int
    cut_off: tuple[tuple[int, bytes], ...]

    def undo(self, fd: int) -> bytes:
        os.ftruncate(fd, self.old_size)
        for position, data in self.cut_off:
            os.pwrite(fd, data, position)
        return b""

    def redo(self, fd: int, _data: bytes, chance: Chance) -> None:
        if chance.keeps_size(self.serial):
            os.ftruncate(fd, self.size)


def data_from(fd: int, position: int) -> Iterator[tuple[int, bytes]]:
    """Yield position and content of the data in a file from `position` on, without holes, which indexes have many
    of.
    """
    while True:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:
            # ENXIO: only a hole is left, or nothing.
            return
        position = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, os.pread(fd, position - start, start)


# The tree


class Node:
    """A file or directory; its name is the latest one, even after its removal."""

    def __init__(self, name: str, parent: Directory | None) -> None:
        self.name = name
        self.parent = parent

    @property
    def path(self) -> Path:
        return Path("/") if self.parent is None else self.parent.path / self.name


class File(Node):
    """A file.

    Attributes:
        changes: of its content since the last fsync.
        held: it, once it has lost its name, so that its content is still there should the name come back.
        data_end: up to where it takes space.
    """

    def __init__(self, name: str, parent: Directory, data_end: int) -> None:
        super().__init__(name, parent)
        self.changes: list[Write | Truncate] = []
        self.held: OpenFile | None = None
        self.data_end = data_end

    def hold(self) -> None:
        self.held = OpenFile(os.open(self.path, os.O_RDWR | os.O_CLOEXEC), self.path, os.close)

    def lose(self, chance: Chance) -> None:
        """Leave in the real file what the disk could have kept."""
        changes, self.changes = self.changes, []
        if not changes:
            return
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC) if self.held is None else self.held.fd
        try:
            written = [change.undo(fd) for change in reversed(changes)]
            for change, data in zip(changes, reversed(written), strict=True):
                change.redo(fd, data, chance)
        finally:
            if self.held is None:
                os.close(fd)


@dataclass(frozen=True, slots=True)
class NameChange:
    """A node that received the name `new` and lost the name `old`; without one of them it was created or removed."""

    serial: int
    node: Node
    old: str | None
    new: str | None

    def apply(self, names: dict[str, Node | None]) -> None:
        # Wherever it is: the previous change may have been lost.
        for name in [name for name, node in names.items() if node is self.node]:
            names[name] = None
        if self.new is not None:
            names[self.new] = self.node

    @property
    def names(self) -> list[str]:
        return [name for name in (self.old, self.new) if name is not None]


class Directory(Node):
    """A directory.

    Attributes:
        children: the nodes in it that were touched, by name.
        changes: of names since the last fsync.
    """

    def __init__(self, name: str, parent: Directory | None) -> None:
        super().__init__(name, parent)
        self.children: dict[str, Node] = {}
        self.changes: list[NameChange] = []
        # The nodes of the changed names at the last fsync.
        self._flushed: dict[str, Node | None] = {}

    def change(self, change: NameChange) -> None:
        for name in change.names:
            self._flushed.setdefault(name, self.children.get(name))
        self.changes.append(change)
        if change.old is not None:
            del self.children[change.old]
        if change.new is not None:
            self.children[change.new] = change.node
            change.node.name = change.new

    def flushed(self, count: int) -> None:
        """Note that the first `count` changes are on the disk."""
        for change in self.changes[:count]:
            change.apply(self._flushed)
        del self.changes[:count]
        changed = {name for change in self.changes for name in change.names}
        self._flushed = {name: node for name, node in self._flushed.items() if name in changed}

    def lose(self, chance: Chance) -> None:
        """Leave in the real directory, and those in it, what the disk could have kept."""
        for node in self._unnamed_files():
            node.lose(chance)
        wanted = dict(self._flushed)
        for change in self.changes:
            if chance.keeps_name(change.serial):
                change.apply(wanted)
        if self.changes:
            self._settle(wanted)
        self.changes.clear()
        self._flushed.clear()
        for child in list(self.children.values()):
            if isinstance(child, (File, Directory)):
                child.lose(chance)

    def _unnamed_files(self) -> list[File]:
        nodes = {id(node): node for node in self._flushed.values()}
        nodes |= {id(change.node): change.node for change in self.changes}
        return [node for node in nodes.values() if isinstance(node, File) and node.held is not None]

    def _settle(self, wanted: dict[str, Node | None]) -> None:
        """Give the names in the real directory to the right nodes."""
        staying = {id(node) for node in wanted.values() if node is not None}
        aside: dict[int, Path] = {}
        for name, node in wanted.items():
            current = self.children.get(name)
            if current is None or current is node:
                continue
            del self.children[name]
            if id(current) in staying:
                aside[id(current)] = self.path / f"{name}.aside"
                os.rename(self.path / name, aside[id(current)])
            else:
                _remove(self.path / name)
        for name, node in wanted.items():
            if node is None or self.children.get(name) is node:
                continue
            self.children[name] = node
            node.name = name
            if id(node) in aside:
                os.rename(aside[id(node)], self.path / name)
            elif isinstance(node, File) and node.held is not None:
                _copy(node.held.fd, self.path / name)
                node.held = None
            else:
                os.mkdir(self.path / name)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _copy(fd: int, path: Path) -> None:
    target = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        for position, data in data_from(fd, 0):
            os.pwrite(target, data, position)
        os.ftruncate(target, os.fstat(fd).st_size)
    finally:
        os.close(target)
