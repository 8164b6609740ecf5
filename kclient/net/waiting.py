"""How the two faces wait for the network thread, without logic of their own.

Blocking callers wait on a `ThreadSignal` or with `wait_future`; async callers, on asyncio or trio,
on a `LoopSignal` or with `await_future`, which the network thread wakes through a `LoopBridge`. A
wait in the main thread is interrupted by Ctrl-C. Elsewhere: what is waited for, and for how long.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import anyio
import anyio.lowlevel

from kclient.errors import KafkaTimeoutError

T = TypeVar("T")


class Notifier(Protocol):
    """Something that can be told, from any thread, that there is news."""

    def notify(self) -> None: ...


class Signal(Notifier, Protocol):
    """What a blocking caller waits on: a notification before the wait is not lost, several count once."""

    def wait(self, timeout: float | None) -> bool:
        """Wait for a notification and consume it; return False if `timeout` seconds passed without one."""


class WaiterSet:
    """The signals of the calls that wait; notifies all of them, from any thread, and costs nothing while none waits."""

    def __init__(self) -> None:
        # In the order of their calls: a set's would differ from run to run.
        self._waiting: dict[Notifier, None] = {}

    def add(self, notifier: Notifier) -> None:
        """Notify it from now on."""
        self._waiting[notifier] = None

    def remove(self, notifier: Notifier) -> None:
        """Notify it no longer."""
        self._waiting.pop(notifier, None)

    def __len__(self) -> int:
        return len(self._waiting)

    def notify(self) -> None:
        """Wake every call that waits."""
        if self._waiting:
            for notifier in tuple(self._waiting):
                notifier.notify()


class ThreadSignal:
    """A `Signal` for one waiting thread: a binary semaphore."""

    def __init__(self) -> None:
        # Held while there is no news. A lock is the cheapest thing that waits with a timeout in C.
        self._nothing_new = threading.Lock()
        self._nothing_new.acquire()

    def notify(self) -> None:
        """Wake the waiting thread, or the next one that waits. Any thread."""
        if self._nothing_new.locked():
            try:
                self._nothing_new.release()
            except RuntimeError:  # another thread notified in between
                return

    def wait(self, timeout: float | None) -> bool:
        """Wait for a notification and consume it.

        Parameters:
            timeout: seconds; None waits forever.

        Returns:
            False if the time passed without one.
        """
        if timeout is None:
            return self._nothing_new.acquire()
        if timeout <= 0:
            return self._nothing_new.acquire(blocking=False)
        return self._nothing_new.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))


class LoopBridge:
    """The way from any thread into the event loop (asyncio or trio) it was made in.

    However many functions are posted, the loop has at most one wake-up of this bridge pending.
    """

    def __init__(self) -> None:
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_pending = False
        self._asyncio: asyncio.AbstractEventLoop | None = None
        # Inside one of trio's loops trio has been imported; elsewhere importing it would only cost time.
        trio: Any = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_run():
            self._run_soon: Callable[..., Any] = trio.lowlevel.current_trio_token().run_sync_soon
            self._loop_is_over: type[Exception] = trio.RunFinishedError
        else:
            self._asyncio = asyncio.get_running_loop()
            self._run_soon = self._asyncio.call_soon_threadsafe
            self._loop_is_over = RuntimeError

    def post(self, function: Callable[[], None]) -> None:
        """Run a function in the loop, soon and in order; when the loop is over nobody can wait, and it is dropped."""
        self._posted.append(function)
        if not self._wake_pending:
            self._wake_pending = True
            try:
                self._run_soon(self._run)
            except self._loop_is_over:
                self._posted.clear()

    def _run(self) -> None:
        self._wake_pending = False
        while self._posted:
            self._posted.popleft()()

    @property
    def pending(self) -> bool:
        """Whether something that was posted has not run yet; in the loop."""
        return bool(self._posted)

    async def wait_until(self, announce: Callable[[Callable[[], None]], None], timeout: float | None) -> bool:
        """Wait in the loop until the function that `announce` is given was called in the loop.

        Returns:
            False if the timeout (seconds; None is forever) passed first.
        """
        if self._asyncio is None:
            event = anyio.Event()
            announce(event.set)
            with anyio.move_on_after(timeout):
                await event.wait()
            return event.is_set()
        # The same on asyncio's own terms, which takes a fraction of the time.
        future: asyncio.Future[bool] = self._asyncio.create_future()

        def finish(result: bool) -> None:
            if not future.done():
                future.set_result(result)

        announce(lambda: finish(True))
        if timeout is None:
            return await future
        timer = self._asyncio.call_later(timeout, finish, False)
        try:
            return await future
        finally:
            timer.cancel()


class LoopSignal:
    """What `ThreadSignal` is for threads, for one task of an event loop.

    Parameters:
        bridge: into the loop of the task that waits; by default made for the running one.
    """

    def __init__(self, bridge: LoopBridge | None = None) -> None:
        self._bridge = bridge or LoopBridge()
        self._news = False
        self._wake: Callable[[], None] | None = None

    def notify(self) -> None:
        """Wake the waiting task, or the next one that waits. Any thread."""
        if self._news:
            return
        self._news = True
        wake = self._wake
        if wake is not None:
            self._bridge.post(wake)

    async def wait(self, timeout: float | None) -> bool:
        """Wait for a notification and consume it; a checkpoint in any case.

        Parameters:
            timeout: seconds; None waits forever.

        Returns:
            False if the time passed without one.
        """
        if self._news or (timeout is not None and timeout <= 0):
            await anyio.lowlevel.checkpoint()
        else:
            try:
                await self._bridge.wait_until(self._announce, timeout)
            finally:
                self._wake = None
        news = self._news
        self._news = False
        return news

    def _announce(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        if self._news:  # it came in between, and saw nobody to wake
            wake()


def wait_future(future: Future[T], timeout: float | None, signal: Signal | None = None) -> T:
    """Wait in a thread for the result of a future.

    Parameters:
        timeout: seconds; None waits forever.
        signal: what to wait on; by default a ThreadSignal.

    Raises:
        KafkaTimeoutError: the time passed; the future is cancelled, what it stands for may still happen.
        Exception: the future's own.
    """
    try:
        if not future.done():
            waiter = signal or ThreadSignal()
            future.add_done_callback(lambda _: waiter.notify())
            waiter.wait(timeout)
    finally:
        is_late = not future.done() and future.cancel()
    if is_late:
        raise _late(timeout)
    return future.result()


async def await_future(future: Future[T], timeout: float | None, bridge: LoopBridge) -> T:
    """Wait in a task for the result of a future; parameters and errors as for `wait_future`, and a checkpoint.

    What was posted to the bridge before the future was done has run by then.
    """
    if future.done() and not bridge.pending:
        await anyio.lowlevel.checkpoint()
        return future.result()

    def announce(wake: Callable[[], None]) -> None:
        future.add_done_callback(lambda _: bridge.post(wake))

    try:
        await bridge.wait_until(announce, timeout)
    finally:
        is_late = not future.done() and future.cancel()
    if is_late:
        raise _late(timeout)
    return future.result()


def _late(timeout: float | None) -> KafkaTimeoutError:
    return KafkaTimeoutError(f"there was no answer within {0 if timeout is None else timeout:g} s")
