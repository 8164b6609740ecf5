"""How many files and connections this process may have open.

Each log has one file open for good, and more are open as long as there is room (`log.spare_files`). What a shell gives
a process is often 1024, or 256 on macOS; Java's machine raises that by itself as it starts, and so Kafka never sees it.
"""

from __future__ import annotations

import logging
import os
import resource
import sys

logger = logging.getLogger(__name__)

WANTED = 100_000
"""What Kafka's documentation recommends for a broker."""

RESERVE = 100
"""How many are kept for what is opened for a moment; fewer where only few may be open."""

_SHARE = 8

# Linux has the first, macOS the second.
_OPEN_FILES = ("/proc/self/fd", "/dev/fd")

# As much as every macOS allows, also where the hard limit says that there is none.
_LEAST_MAXIMUM = 10_240


def file_limit() -> int:
    """How many this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def file_reserve() -> int:
    """How many of these are for what is opened for a moment."""
    return min(RESERVE, file_limit() // _SHARE)


def open_files() -> int:
    """How many this process has open; 0 where the system does not say."""
    for path in _OPEN_FILES:
        try:
            # One of them is the directory itself.
            return len(os.listdir(path)) - 1
        except OSError:
            continue
    return 0


def is_nearly_out(descriptor: int) -> bool:
    """Whether a file that has just been opened is one of the last, for systems give out the lowest that is free."""
    return descriptor >= file_limit() - file_reserve() // 2


def raise_file_limit() -> None:
    """Raise the limit as far as this process may, up to `WANTED`; it is never lowered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= WANTED:
        return
    for wanted in (WANTED, _LEAST_MAXIMUM):
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if limit <= soft:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError) as error:
            logger.debug("the limit of open files cannot be %d: %s", limit, error)
        else:
            return
