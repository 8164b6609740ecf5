"""Overhead of Spark's Python workers, and how it is reduced.

A micro-batch of a few records passes through four or five workers, so their overhead is most of its time.

PySpark's daemon calls `gc.collect()` in a worker after each piece of work. With PySpark, pandas and pyarrow imported,
that takes some 25 ms of CPU before the worker can be used again. So after the first work that imported modules,
existing objects are excluded from later collections (`gc.freeze`). Later objects of the user's code are collected as
usual.

A task is sent to a worker over TCP in two parts: the function, and the rows. Java delays the second part until the
first is acknowledged (Nagle's algorithm), and Linux delays the acknowledgement by 40 ms. So a worker acknowledges as
soon as it has the function, that is, when the reader or writer is unpickled (`AcknowledgesArrival`).
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import Any

_DAEMON = "pyspark.daemon"
_FILES = "/proc/self/fd"

_modules = 0
"""The number of modules at the last freeze."""

_connections: list[int] | None = None


class AcknowledgesArrival:
    """A base of readers and writers that acknowledges received data when it is unpickled."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge()


def is_worker() -> bool:
    """Return whether this process was forked by PySpark's daemon."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == _DAEMON


def freeze_modules() -> None:
    """Freeze the garbage collector after a piece of work, in workers of the daemon, and again after each import."""
    global _modules
    if _modules == len(sys.modules) or not is_worker():
        return
    _modules = len(sys.modules)
    gc.collect()
    gc.freeze()


def acknowledge() -> None:
    """Send delayed acknowledgements on the connection to Spark, in workers of the daemon and on Linux."""
    global _connections
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    if _connections is None:
        # When the first reader or writer is unpickled, there is no other connection yet.
        _connections = [int(name) for name in os.listdir(_FILES)] if is_worker() else []
    for number in list(_connections):
        if not _acknowledge_on(number):
            _connections.remove(number)


def _acknowledge_on(number: int) -> bool:
    """Acknowledge, and return whether it was possible; a file that is not a TCP connection has nothing to
    acknowledge.
    """
    try:
        connection = socket.socket(fileno=number)
    except OSError:
        return False
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    except OSError:
        return False
    finally:
        connection.detach()
    return True
