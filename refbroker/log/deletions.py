"""Files and directories that are deleted but stay for a while, so that who reads them can finish.

They have been renamed already (`.deleted`, `-delete`); what a crash leaves behind the next start removes. Belongs to
one data directory and to the event loop, except for `Deletion.carry_out`, which any thread may run.
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
    """Files, and directories with all that is in them, which are to be removed together."""

    paths: tuple[Path, ...]

    def carry_out(self, files: Files) -> None:
        """Remove them; what is not there is no error.

        Raises:
            OSError: the disk fails.
        """
        for path in self.paths:
            if files.is_directory(path):
                files.remove_tree(path)
            else:
                files.unlink(path)


class Deletions:
    """What waits to be removed, by when it is due.

    Parameters:
        clock: milliseconds since the epoch.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int, Deletion]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def schedule(self, paths: Iterable[Path], delay_ms: int) -> None:
        """Have paths removed once `delay_ms` have passed."""
        entry = (self._clock() + delay_ms, next(self._numbers), Deletion(tuple(paths)))
        heapq.heappush(self._waiting, entry)

    def take_due(self) -> list[Deletion]:
        """What is due now; it is forgotten here."""
        now = self._clock()
        due = []
        while self._waiting and self._waiting[0][0] <= now:
            due.append(heapq.heappop(self._waiting)[2])
        return due
