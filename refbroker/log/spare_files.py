"""The cache of open files: how many stay open, and which are closed first.

A log always needs the file of its active segment: while some of it is not on the disk, closing it could lose the error
of a failed write. Its indexes, and all files of inactive segments, can be closed at any time, and are opened again on
use. Those opened first are closed first, which is cheaper than tracking their use, and all of them are closed if the
process runs out of files. So an idle log has one open file, as in Kafka, which maps its indexes into memory.
"""

from __future__ import annotations

import threading
from itertools import islice
from typing import Protocol
from weakref import WeakKeyDictionary

from refbroker.runtime.file_limit import file_limit

MOST = 1000
"""The maximum number of open spare files."""

# The fraction of the process's limit of open files that spare files may use.
_SHARE = 4


class Holder(Protocol):
    """The owner of an open file."""

    def close_file(self) -> None:
        """Close the file as soon as it is not in use; any thread."""


class SpareFiles:
    """The files of one disk that can be closed at any time. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A dropped holder removes its entry.
        self._holders: WeakKeyDictionary[Holder, None] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, holder: Holder) -> None:
        """Record that a holder has opened such a file, which may close another one."""
        with self._lock:
            self._holders.pop(holder, None)
            self._holders[holder] = None
            excess = len(self._holders) - max(min(MOST, file_limit() // _SHARE), 1)
            first = self._take(max(excess, 0))
        # Outside of the lock: closing a file may wait for one whose user waits for this lock.
        for one in first:
            one.close_file()

    def release(self) -> bool:
        """Close all of them, and return whether there was one."""
        with self._lock:
            found = self._take(len(self._holders))
        for one in found:
            one.close_file()
        return bool(found)

    def _take(self, count: int) -> list[Holder]:
        taken = list(islice(self._holders, count))
        for one in taken:
            del self._holders[one]
        return taken
