"""Two ways to leave something over for others: of the disk's bandwidth, and of the interpreter.

`Throttle` bounds what all cleaners together read and write per second
(`log.cleaner.io.max.bytes.per.second`). As in Kafka it has no tokens: it looks at the rate since it last
looked, at most every 300 ms, and says how long to stand still so that the average comes out right.

`GiveWay` is for the interpreter lock. A thread that computes keeps the lock for 5 ms each time, and the
event loop, which answers every request, would wait that long for each of its turns. So who
computes for long in a worker thread passes by here often, and sleeps for a moment after each millisecond.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

CHECK_INTERVAL_MS = 300
_TURN_SECONDS = 0.001
_PAUSE_SECONDS = 0.000_05


class Throttle:
    """How long to wait so that no more than a rate is read and written. One for all cleaners, in any thread.

    Parameters:
        bytes_per_second: the rate; asked each time, for it may be changed.
        clock: milliseconds.
    """

    def __init__(self, bytes_per_second: Callable[[], float], clock: Callable[[], int]) -> None:
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._since_ms = clock()
        self._observed = 0
        self._lock = threading.Lock()

    def observe(self, size: int) -> int:
        """Take note of `size` bytes read or written, and give the milliseconds to wait before going on."""
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


class GiveWay:
    """Lets the event loop run, at most a millisecond after it could have; for one worker thread.

    It is made in the event loop's thread, where calls do nothing: a pause there would keep the loop itself waiting.
    """

    def __init__(self) -> None:
        self._turn_began = time.perf_counter()
        self._loop_thread = threading.get_ident()

    def __call__(self) -> None:
        if time.perf_counter() - self._turn_began > _TURN_SECONDS and threading.get_ident() != self._loop_thread:
            time.sleep(_PAUSE_SECONDS)
            self._turn_began = time.perf_counter()
