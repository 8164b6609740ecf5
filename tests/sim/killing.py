"""Disks whose process is killed at one of its writes: just before, when nothing of it is there, or just after.

Every change of a file or name, and every flush, is a moment to be killed at, in a start as well. What was written stays
(the page cache outlives a process) unless the power goes as well (`SimulatedDisk.lose_unflushed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from refbroker.log import Files
from refbroker.log.files import BytesLike, OpenFile
from refbroker.testing.simulated_disk import SimulatedDisk

T = TypeVar("T")


class KilledError(BaseException):
    """The process has been killed; no code of the process may handle it."""


class KillingFiles(Files):
    """Real files of a process that can be killed.

    Attributes:
        dead: whether it was killed; until `revive` nothing is written.
    """

    def __init__(self, *, durable: bool = False) -> None:
        super().__init__(durable=durable)
        self.dead = False
        self._left = -1
        self._is_done = False

    def kill(self, after: int, *, done: bool) -> None:
        """Kill at a write to come.

        Parameters:
            after: how many pass before it.
            done: whether that one is still done.
        """
        self._left, self._is_done = after, done

    def spare(self) -> None:
        """Do not kill at what is to come."""
        self._left = -1

    def revive(self) -> None:
        """Let another process have the files."""
        self.dead = False
        self.spare()

    def _pass(self, work: Callable[[], T]) -> T:
        if self.dead:
            raise KilledError
        if self._left == 0:
            self.dead = True
            if self._is_done:
                work()
            raise KilledError
        self._left = max(self._left - 1, -1)
        return work()

    def pwrite(self, file: OpenFile, parts: Sequence[BytesLike], position: int) -> int:
        write = super().pwrite
        return self._pass(lambda: write(file, parts, position))

    def truncate(self, file: OpenFile, size: int) -> None:
        truncate = super().truncate
        self._pass(lambda: truncate(file, size))

    def fsync(self, file: OpenFile) -> None:
        fsync = super().fsync
        self._pass(lambda: fsync(file))

    def fsync_directory(self, path: Path) -> None:
        fsync = super().fsync_directory
        self._pass(lambda: fsync(path))

    def rename(self, old: Path, new: Path, *, sync: bool = True) -> None:
        rename = super().rename
        self._pass(lambda: rename(old, new, sync=False))
        if sync:
            self.fsync_directory(new.parent)

    def unlink(self, path: Path) -> None:
        unlink = super().unlink
        self._pass(lambda: unlink(path))


class KillingDisk(KillingFiles, SimulatedDisk):
    """The same on a disk that loses what was not flushed."""
