"""How a producer's calls wait for news, of which the network thread has plenty and most calls want none.

A call that goes through at once, as a send nearly always does, never makes a signal. Leaves out what is
waited for (`core`) and how operations are driven (`kclient.net.operation`).
"""

from __future__ import annotations

from typing import TypeVar

from kclient.net import operation
from kclient.net.operation import Operation
from kclient.net.waiting import LoopBridge, LoopSignal, Notifier, ThreadSignal

T = TypeVar("T")


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

    def __len__(self) -> int:
        return len(self._waiting)

    def announce(self) -> None:
        """There is news."""
        if self._waiting:
            for notifier in tuple(self._waiting):
                notifier.notify()


def run(call: Operation[T], news: News) -> T:
    """Drive a call by blocking the thread; Ctrl-C interrupts it."""
    try:
        next(call)
    except StopIteration as stop:
        result: T = stop.value
        return result
    signal = ThreadSignal()
    news.add(signal)
    try:
        # The first pause is skipped, as there may have been news before the signal was in place.
        return operation.run(call, signal)
    finally:
        news.remove(signal)


async def run_async(call: Operation[T], news: News, bridge: LoopBridge) -> T:
    """Drive a call by awaiting, on asyncio or trio."""
    try:
        next(call)
    except StopIteration as stop:
        result: T = stop.value
        return result
    signal = LoopSignal(bridge)
    news.add(signal)
    try:
        return await operation.run_async(call, bridge, signal)
    finally:
        news.remove(signal)
