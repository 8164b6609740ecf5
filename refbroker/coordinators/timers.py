"""Timers of a coordinator, by name, on the broker's clock.

Most are set anew long before they end (a session at each heartbeat), so that only the latest deadline is kept, and
the clock is asked to wake at one that has been put off only when the earlier moment has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from refbroker.runtime.clock import Clock


class Timers(Protocol):
    """What a state machine asks for to be told that time has passed."""

    def schedule(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something once so many milliseconds have passed, in the place of what has the same name."""

    def cancel(self, name: str) -> None:
        """Do not do what has this name."""


@dataclass(slots=True)
class _Timer:
    due_ms: int
    action: Callable[[], None]
    wakes_at_ms: int
    wake: asyncio.Future[None]


class ClockTimers:
    """Timers that go by a broker's clock.

    Parameters:
        clock: the broker's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[str, _Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def schedule(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something once so many milliseconds have passed, in the place of what has the same name."""
        due = self._clock() + max(delay_ms, 0)
        timer = self._timers.get(name)
        if timer is not None:
            if timer.wakes_at_ms <= due:
                timer.due_ms, timer.action = due, action
                return
            timer.wake.cancel()
        self._timers[name] = _Timer(due, action, due, self._wake_after(name, max(delay_ms, 0)))

    def cancel(self, name: str) -> None:
        """Do not do what has this name."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.wake.cancel()

    def cancel_all(self) -> None:
        """Do nothing any more."""
        for name in list(self._timers):
            self.cancel(name)

    def _wake_after(self, name: str, ms: int) -> asyncio.Future[None]:
        wake = self._clock.wake_after(ms)
        wake.add_done_callback(lambda woken: None if woken.cancelled() else self._woken(name, woken))
        return wake

    def _woken(self, name: str, wake: asyncio.Future[None]) -> None:
        timer = self._timers.get(name)
        if timer is None or timer.wake is not wake:
            return
        now = self._clock()
        put_off_ms = timer.due_ms - timer.wakes_at_ms
        if put_off_ms > 0 and timer.due_ms > now:
            # A clock that was moved back does not make the rest longer: who waits, waits for time to pass.
            timer.wakes_at_ms = timer.due_ms
            timer.wake = self._wake_after(name, min(put_off_ms, timer.due_ms - now))
            return
        del self._timers[name]
        timer.action()
