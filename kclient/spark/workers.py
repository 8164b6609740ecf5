"""What Spark's Python workers cost beside the work, and how less of it is paid.

A micro-batch of a few records goes through four or five of them, so what each loses is most of what it takes.

PySpark's daemon calls `gc.collect()` in a worker after each piece of work. With PySpark, pandas and pyarrow imported
that takes some 25 ms of a processor, before the worker can be used again. So once a worker has done a piece for which
modules were imported, what is there then is kept out of later collections (`gc.freeze`). What the user's code makes
afterwards is collected as ever.

A task comes to a worker over TCP in two parts: what to do, and the rows. Java holds the second back until the first is
acknowledged (Nagle's algorithm), and Linux puts that off for 40 ms in the hope of an answer that it could go with. So
a worker acknowledges as soon as it knows what to do, which is when the reader or writer arrives (`Arriving`).
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
"""How many were there when they were last frozen."""

_connections: list[int] | None = None


class Arriving:
    """A reader or writer that acknowledges its arrival in another process."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge()


def is_worker() -> bool:
    """Whether this process was forked by PySpark's daemon."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == _DAEMON


def freeze_modules() -> None:
    """Call it when a piece of work is done. In the daemon's workers it does something, once more after each import."""
    global _modules
    if _modules == len(sys.modules) or not is_worker():
        return
    _modules = len(sys.modules)
    gc.collect()
    gc.freeze()


def acknowledge() -> None:
    """Send what acknowledgement is put off on the connection to Spark, in the daemon's workers and on Linux alone."""
    global _connections
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    if _connections is None:
        # When the first reader or writer arrives, there is no other connection yet.
        _connections = [int(name) for name in os.listdir(_FILES)] if is_worker() else []
    for number in list(_connections):
        if not _acknowledge_on(number):
            _connections.remove(number)


def _acknowledge_on(number: int) -> bool:
    """Acknowledge, and tell whether it could be: a file that is no connection by TCP has nothing to."""
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
