"""The broker's clock: the system's, until a test holds it still or moves it.

Everything the broker decides by time goes by it: timestamps, retention, compaction, expiry. Waits that belong to the
network, such as a Fetch's `max_wait_ms`, go by the event loop, so that a client is answered while the clock stands.
A step forward wakes those whose time has come; after one back they sleep for as long as they still had to. Belongs to
one event loop, except for the time itself, which any thread may read.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Collection
from contextvars import ContextVar

WORK: ContextVar[str] = ContextVar("WORK", default="")
"""What a task and those it begins work for: the name by which the clock tells their sleep."""


def system_clock_ms() -> int:
    """The time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Clock:
    """A clock that can be held, stepped and let run.

    Parameters:
        source: milliseconds since the epoch; what it goes by while it runs.
    """

    def __init__(self, source: Callable[[], int] = system_clock_ms) -> None:
        self._source = source
        self._ahead_ms = 0
        self._held_at_ms: int | None = None
        self._numbers = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None], str]] = []
        self._watchers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> int:
        held = self._held_at_ms
        return self._source() + self._ahead_ms if held is None else held

    @property
    def is_held(self) -> bool:
        """Whether it stands still."""
        return self._held_at_ms is not None

    def hold(self, at_ms: int | None = None) -> None:
        """Stand still, now or at a time.

        Parameters:
            at_ms: milliseconds since the epoch.
        """
        now = self()
        self._held_at_ms = now if at_ms is None else at_ms
        self._moved(self._held_at_ms - now)

    def step(self, ms: int) -> None:
        """Move by so many milliseconds, held or running; negative ones move it back."""
        if self._held_at_ms is None:
            self._ahead_ms += ms
        else:
            self._held_at_ms += ms
        self._moved(ms)

    def run(self) -> None:
        """Go on from the time it shows."""
        if self._held_at_ms is not None:
            self._ahead_ms = self._held_at_ms - self._source()
            self._held_at_ms = None
            self._wake_due()

    async def sleep(self, ms: int) -> None:
        """Wait until so many milliseconds have passed by this clock."""
        await self.wake_after(ms, WORK.get())

    def wake_after(self, ms: int, work: str = "") -> asyncio.Future[None]:
        """A future that is done when so many milliseconds have passed by this clock; it may be cancelled.

        Parameters:
            work: for whose sake (`WORK`).
        """
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self() + ms, next(self._numbers), woken, work))
        self._wake_due()
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)
        return woken

    async def all_asleep(self, works: Collection[str]) -> None:
        """Wait until of each of some works (`WORK`) somebody sleeps, and so waits for this clock and nothing else."""
        while not {work for _, _, woken, work in self._sleepers if not woken.done()}.issuperset(works):
            watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append(watcher)
            await watcher

    def _moved(self, ms: int) -> None:
        if ms < 0:
            # What is to happen in a minute still is: who sleeps waits for time to pass, not for a date.
            self._sleepers = [(due + ms, number, woken, work) for due, number, woken, work in self._sleepers]
        self._wake_due()

    def _wake_due(self) -> None:
        """Wake those whose time has come, and ask the loop to look again when the next one's has."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self()
        while self._sleepers and (self._sleepers[0][0] <= now or self._sleepers[0][2].done()):
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
        if self._sleepers and not self.is_held:
            due_ms, _, sleeper, _ = self._sleepers[0]
            # A timer of the loop may fire a little early by this clock; it is then set once more.
            self._timer = sleeper.get_loop().call_later((due_ms - now) / 1000, self._wake_due)
