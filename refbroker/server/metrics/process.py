"""What the operating system says of the process and of a directory's disk; what it does not say is left out."""

from __future__ import annotations

import os
from pathlib import Path

from refbroker.metrics import table
from refbroker.metrics.samples import Samples
from refbroker.runtime.file_limit import open_files

STATUS = Path("/proc/self/stat")
_SYSTEM = Path("/proc/stat")
# Where in /proc/self/stat, behind the name of the program in parentheses (see proc(5)).
_START_TICKS = 19
_RESIDENT_PAGES = 21


def collect(samples: Samples) -> None:
    """The process's own numbers."""
    times = os.times()
    samples.add(table.CPU, times.user + times.system)
    try:
        status = STATUS.read_text().rpartition(")")[2].split()
        booted = next(int(line.split()[1]) for line in _SYSTEM.read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration):
        # Not Linux.
        return
    samples.add(table.MEMORY, int(status[_RESIDENT_PAGES]) * os.sysconf("SC_PAGE_SIZE"))
    samples.add(table.OPEN_FILES, open_files())
    samples.add(table.STARTED, booted + int(status[_START_TICKS]) / os.sysconf("SC_CLK_TCK"))


def usable_bytes(directory: Path) -> int | None:
    """The free space of a directory's disk, None when it cannot be asked."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
