"""Limits for the load of compaction: on the disk, and on the interpreter.

`Throttle` limits what all cleaners together read and write per second (`log.cleaner.io.max.bytes.per.second`). As in
Kafka it has no tokens: it measures the rate since the last check, at most every 300 ms, and returns how long to wait to
reach the average.

`GilYielder` is for the interpreter lock. A computing thread holds it for 5 ms at a time, and the event loop, which
handles every request, would wait that long for each of its turns. So long computations in worker threads call it often,
and sleep briefly after each millisecond.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

CHECK_INTERVAL_MS = 300
_TURN_SECONDS = 0.001
_PAUSE_SECONDS = 0.000_05


class Throttle:
    """Limits the rate of reads and writes; one for all cleaners, in any thread.

    Parameters:
        bytes_per_second: returns the rate, which may change.
        clock: milliseconds.
    """

    def __init__(self, bytes_per_second: Callable[[], float], clock: Callable[[], int]) -> None:
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._since_ms = clock()
        self._observed = 0
        self._lock = threading.Lock()

    def observe(self, size: int) -> int:
        """Record `size` bytes read or written, and return the milliseconds to wait."""
        with self._lock:
            self._observed += size
            now = self._clock()
            elapsed_ms = now - self._since_ms
            if 0 <= elapsed_ms <= CHECK_INTERVAL_MS:
                return 0
            wait_ms = max(round(self._observed * 1000 / self._bytes_per_second()) - max(elapsed_ms, 0), 0)
            self._since_ms = now + wait_ms
            self._observed = 0
            return wait_ms


class GilYielder:
    """Lets the event loop run at least every millisecond; for one worker thread.

    It is created in the event loop's thread, where calls do nothing: a pause there would delay the loop itself.
    """

    def __init__(self) -> None:
        self._turn_began = time.perf_counter()
        self._loop_thread = threading.get_ident()

    def __call__(self) -> None:
        if time.perf_counter() - self._turn_began > _TURN_SECONDS and threading.get_ident() != self._loop_thread:
            time.sleep(_PAUSE_SECONDS)
            self._turn_began = time.perf_counter()
