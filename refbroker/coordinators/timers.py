"""Named timers of a coordinator, on the broker's clock.

Most timers are rescheduled long before they expire (a session timeout at each heartbeat). Rescheduling to a later
time therefore only stores the new deadline; the wake-up is rescheduled when the earlier one fires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from refbroker.runtime.clock import Clock


class Timers(Protocol):
    """The timers that a state machine schedules."""

    def schedule(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Run an action after a delay, in milliseconds, and replace the timer that has the same name."""

    def cancel(self, name: str) -> None:
        """Cancel the timer of this name, if it is scheduled."""


@dataclass(slots=True)
class _Timer:
    due_ms: int
    action: Callable[[], None]
    wakes_at_ms: int
    wake: asyncio.Future[None]


class ClockTimers:
    """Timers on a broker's clock.

    Parameters:
        clock: the broker's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[str, _Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def schedule(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Run an action after a delay, in milliseconds, and replace the timer that has the same name."""
        due = self._clock.elapsed_ms() + max(delay_ms, 0)
        timer = self._timers.get(name)
        if timer is not None:
            if timer.wakes_at_ms <= due:
                timer.due_ms, timer.action = due, action
                return
            timer.wake.cancel()
        self._timers[name] = _Timer(due, action, due, self._wake_after(name, max(delay_ms, 0)))

    def cancel(self, name: str) -> None:
        """Cancel the timer of this name, if it is scheduled."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.wake.cancel()

    def cancel_all(self) -> None:
        """Cancel all timers."""
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
        now = self._clock.elapsed_ms()
        if timer.due_ms > max(timer.wakes_at_ms, now):
            timer.wakes_at_ms = timer.due_ms
            timer.wake = self._wake_after(name, timer.due_ms - now)
            return
        del self._timers[name]
        timer.action()
