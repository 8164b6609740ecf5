"""The limit of open files and connections of this process.

Each log keeps one file open permanently, and more as long as the limit allows (`log.spare_files`). A shell often sets
1024, macOS 256; the JVM raises the limit when it starts, so Kafka does not need to.
"""

from __future__ import annotations

import logging
import os
import resource
import sys

logger = logging.getLogger(__name__)

WANTED = 100_000
"""Kafka's documentation recommends this limit for a broker."""

RESERVE = 100
"""Descriptors kept free for files that are open only briefly; fewer when the limit is low."""

_SHARE = 8

# Linux has the first, macOS the second.
_OPEN_FILES = ("/proc/self/fd", "/dev/fd")

# macOS allows at least this many, even when it reports an unlimited hard limit.
_LEAST_MAXIMUM = 10_240


def file_limit() -> int:
    """Return how many files this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def file_reserve() -> int:
    """Return how many of these are kept for files that are open only briefly."""
    return min(RESERVE, file_limit() // _SHARE)


def open_files() -> int:
    """Return how many files this process has open; 0 where the system does not report it."""
    for path in _OPEN_FILES:
        try:
            # The listing itself opens one.
            return len(os.listdir(path)) - 1
        except OSError:
            continue
    return 0


def is_nearly_out(descriptor: int) -> bool:
    """Return whether a file that was just opened is among the last possible ones; the system hands out the lowest free
    descriptor.
    """
    return descriptor >= file_limit() - file_reserve() // 2


def raise_file_limit() -> None:
    """Raise the soft limit as far as this process may, up to `WANTED`; never lower it."""
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
