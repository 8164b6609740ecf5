"""The broker's clock: the system clock, until a test holds or steps it.

Timestamps, retention, compaction and expiry all use it. Timeouts of the network, such as a Fetch's `max_wait_ms`, use
the event loop instead, so that clients are answered while the clock is held. A step forward wakes the sleepers that
have become due; after a step back the others sleep for as long as they still had to. When the system clock is set,
nobody sleeps shorter or longer, and no session ends: durations are measured by `elapsed_ms`. Belongs to one event loop,
except that any thread may read the time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Collection
from contextvars import ContextVar

WORK: ContextVar[str] = ContextVar("WORK", default="")
"""The name of the work that the current task and its subtasks do; the clock records it for their sleeps."""


def system_clock_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return the time in milliseconds of a clock that nobody sets."""
    return time.monotonic_ns() // 1_000_000


class Clock:
    """A clock that can be held, stepped and resumed.

    Parameters:
        source: returns milliseconds since the epoch; read while the clock runs.
        elapsed: returns milliseconds of a clock that nobody sets; None for that of the system, and for `source` if that
            is not the system's.
    """

    def __init__(self, source: Callable[[], int] = system_clock_ms, elapsed: Callable[[], int] | None = None) -> None:
        self._source = source
        self._elapsed = elapsed or (monotonic_ms if source is system_clock_ms else source)
        self._ahead_ms = self._elapsed_ahead_ms = 0
        self._held_at_ms: int | None = None
        self._elapsed_held_at_ms: int | None = None
        self._numbers = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None], str]] = []
        self._watchers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> int:
        held = self._held_at_ms
        return self._source() + self._ahead_ms if held is None else held

    def elapsed_ms(self) -> int:
        """Return the milliseconds since some moment, for durations; it never goes back."""
        held = self._elapsed_held_at_ms
        return self._elapsed() + self._elapsed_ahead_ms if held is None else held

    @property
    def is_held(self) -> bool:
        """Whether the clock is held."""
        return self._held_at_ms is not None

    def hold(self, at_ms: int | None = None) -> None:
        """Hold the clock, at the current or the given time.

        Parameters:
            at_ms: milliseconds since the epoch.
        """
        now, self._elapsed_held_at_ms = self(), self.elapsed_ms()
        self._held_at_ms = now if at_ms is None else at_ms
        self._moved(self._held_at_ms - now)

    def step(self, ms: int) -> None:
        """Move the clock by some milliseconds, held or running; a negative number moves it back."""
        if self._held_at_ms is None:
            self._ahead_ms += ms
        else:
            self._held_at_ms += ms
        self._moved(ms)

    def run(self) -> None:
        """Resume from the time that the clock shows."""
        if self._held_at_ms is not None:
            self._ahead_ms = self._held_at_ms - self._source()
            self._elapsed_ahead_ms = self.elapsed_ms() - self._elapsed()
            self._held_at_ms = self._elapsed_held_at_ms = None
            self._wake_due()

    async def sleep(self, ms: int) -> None:
        """Wait until this many milliseconds have passed by this clock."""
        await self.wake_after(ms, WORK.get())

    def wake_after(self, ms: int, work: str = "") -> asyncio.Future[None]:
        """Return a future that completes when this many milliseconds have passed by this clock; it may be cancelled.

        Parameters:
            work: the name of the work that waits (`WORK`).
        """
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.elapsed_ms() + ms, next(self._numbers), woken, work))
        self._wake_due()
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)
        return woken

    async def all_asleep(self, works: Collection[str]) -> None:
        """Wait until each of the named works (`WORK`) has a task that sleeps on this clock."""
        while not {work for _, _, woken, work in self._sleepers if not woken.done()}.issuperset(works):
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append(watcher)
            await watcher

    def _moved(self, ms: int) -> None:
        # A sleeper waits for a duration, not for a date: after a step back, what was due in a minute still is.
        if self._elapsed_held_at_ms is None:
            self._elapsed_ahead_ms += max(ms, 0)
        else:
            self._elapsed_held_at_ms += max(ms, 0)
        self._wake_due()

    def _wake_due(self) -> None:
        """Wake the sleepers that are due, and set a timer of the loop for the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self.elapsed_ms()
        while self._sleepers and (self._sleepers[0][0] <= now or self._sleepers[0][2].done()):
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
        if self._sleepers and not self.is_held:
            due_ms, _, sleeper, _ = self._sleepers[0]
            # A timer of the loop may fire slightly early by this clock; it is then set again.
            self._timer = sleeper.get_loop().call_later((due_ms - now) / 1000, self._wake_due)
