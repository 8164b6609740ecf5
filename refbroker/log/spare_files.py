"""Files that are open only so that they need not be opened again: how many stay so, and which are closed first.

A log needs the file of its active segment for good: while something in it is not on the disk, closing it could lose the
error of a write that failed. Its indexes, and all files of segments that are not active, can be closed at any time, for
who uses one opens it again. They stay open while they are few; those that were opened first are closed first, which
takes less to keep than knowing who was used last, and where files run out all of them are closed. So a log that rests
has one open file, as in Kafka, which maps its indexes into memory.
"""

from __future__ import annotations

import threading
from itertools import islice
from typing import Protocol
from weakref import WeakKeyDictionary

from refbroker.runtime.file_limit import file_limit

MOST = 1000
"""How many stay open at most."""

# Of the files that the process may have open, so many may be spare ones.
_SHARE = 4


class Holder(Protocol):
    """Who has a file open."""

    def let_go(self) -> None:
        """Close the file as soon as nobody works with it; any thread."""


class SpareFiles:
    """The files of one disk that can be closed at any time. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Who is dropped without a word takes his place along.
        self._holders: WeakKeyDictionary[Holder, None] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, holder: Holder) -> None:
        """Take note that somebody has opened such a file, which may close that of another one."""
        with self._lock:
            self._holders.pop(holder, None)
            self._holders[holder] = None
            excess = len(self._holders) - max(min(MOST, file_limit() // _SHARE), 1)
            first = self._take(max(excess, 0))
        # Not within the lock: closing a file may wait for one that is held by who waits for this one.
        for one in first:
            one.let_go()

    def release(self) -> bool:
        """Close all of them, and say whether there was one."""
        with self._lock:
            found = self._take(len(self._holders))
        for one in found:
            one.let_go()
        return bool(found)

    def _take(self, count: int) -> list[Holder]:
        taken = list(islice(self._holders, count))
        for one in taken:
            del self._holders[one]
        return taken
