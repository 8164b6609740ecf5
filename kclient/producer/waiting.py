"""How the two faces drive a call that may have to wait: by blocking, or by awaiting.

Such a call is a generator (see `core`) that yields a `Pause` when it has to wait for news: room in the
buffer, metadata, a settled batch. Leaves out what is waited for.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from kclient.net.waiting import LoopBridge, LoopSignal, Notifier, ThreadSignal


class Pause(NamedTuple):
    """Wait for news, for so many seconds at most."""

    seconds: float


Steps = Generator[Pause, None, Any]


class News:
    """Wakes every call that waits, from any thread; costs nothing while none does."""

    def __init__(self) -> None:
        self._waiting: set[Notifier] = set()

    def add(self, notifier: Notifier) -> None:
        """Notify it from now on."""
        self._waiting.add(notifier)

    def remove(self, notifier: Notifier) -> None:
        """Do not any more."""
        self._waiting.discard(notifier)

    def announce(self) -> None:
        """There is news."""
        if self._waiting:
            for notifier in tuple(self._waiting):
                notifier.notify()


def run(steps: Steps, news: News) -> Any:
    """Drive a call by blocking the thread; Ctrl-C interrupts it."""
    try:
        next(steps)
    except StopIteration as stop:
        return stop.value
    signal = ThreadSignal()
    news.add(signal)
    try:
        while True:
            # Looked at once more, as there may have been news before the signal was in place.
            pause = steps.send(None)
            signal.wait(pause.seconds)
    except StopIteration as stop:
        return stop.value
    finally:
        news.remove(signal)
        steps.close()


async def run_async(steps: Steps, news: News, bridge: LoopBridge) -> Any:
    """Drive a call by awaiting, on asyncio or trio."""
    try:
        next(steps)
    except StopIteration as stop:
        return stop.value
    signal = LoopSignal(bridge)
    news.add(signal)
    try:
        while True:
            pause = steps.send(None)
            await signal.wait(pause.seconds)
    except StopIteration as stop:
        return stop.value
    finally:
        news.remove(signal)
        steps.close()
