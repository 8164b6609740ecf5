"""The delayed removal of deleted files and directories, so that readers can finish.

The files have been renamed already (`.deleted`, `-delete`); after a crash, the next start removes them. Each data
directory has its own `Deletions`, used in the event loop only. `Deletion.carry_out` may run in any thread.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from refbroker.log.files import Files


@dataclass(frozen=True, slots=True)
class Deletion:
    """Files and directories that are removed together; directories with all their contents."""

    paths: tuple[Path, ...]

    def carry_out(self, files: Files) -> None:
        """Remove the files and directories; missing ones are ignored.

        Raises:
            OSError: the disk fails.
        """
        for path in self.paths:
            if files.is_directory(path):
                files.remove_tree(path)
            else:
                files.unlink(path)


class Deletions:
    """The pending deletions of a data directory, in the order of their due times.

    Parameters:
        clock: returns milliseconds since the epoch.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int, Deletion]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def schedule(self, paths: Iterable[Path], delay_ms: int) -> None:
        """Schedule the removal of paths after `delay_ms` milliseconds."""
        entry = (self._clock() + delay_ms, next(self._numbers), Deletion(tuple(paths)))
        heapq.heappush(self._waiting, entry)

    def take_due(self) -> list[Deletion]:
        """Remove and return the deletions that are due."""
        now = self._clock()
        due = []
        while self._waiting and self._waiting[0][0] <= now:
            due.append(heapq.heappop(self._waiting)[2])
        return due
