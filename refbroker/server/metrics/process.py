"""The operating system's figures for the process and for a directory's disk; figures it does not have are omitted."""

from __future__ import annotations

import os
from pathlib import Path

from refbroker.metrics import table
from refbroker.metrics.samples import Samples
from refbroker.runtime.file_limit import open_files

STATUS = Path("/proc/self/stat")
_SYSTEM = Path("/proc/stat")
# Positions in /proc/self/stat, after the name of the program in parentheses (see proc(5)).
_START_TICKS = 19
_RESIDENT_PAGES = 21


def collect(samples: Samples) -> None:
    """Add the metrics of the process."""
    times = os.times()
    samples.add(table.CPU, times.user + times.system)
    try:
        status = STATUS.read_text().rpartition(")")[2].split()
        booted = next(int(line.split()[1]) for line in _SYSTEM.read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration):
        # The system is not Linux.
        return
    samples.add(table.MEMORY, int(status[_RESIDENT_PAGES]) * os.sysconf("SC_PAGE_SIZE"))
    samples.add(table.OPEN_FILES, open_files())
    samples.add(table.STARTED, booted + int(status[_START_TICKS]) / os.sysconf("SC_CLK_TCK"))


def usable_bytes(directory: Path) -> int | None:
    """Return the free space of a directory's disk in bytes, None when it cannot be read."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
