"""Waits of application threads and tasks for the network thread.

Blocking callers wait on a `ThreadSignal` or with `wait_future`; async callers, on asyncio or trio,
on a `LoopSignal` or with `await_future`, which the network thread wakes through a `LoopBridge`. A
wait in the main thread is interrupted by Ctrl-C. Elsewhere: what is waited for, and for how long.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import anyio
import anyio.lowlevel

from kclient.errors import KafkaTimeoutError

T = TypeVar("T")


class Notifier(Protocol):
    """Something that any thread may notify."""

    def notify(self) -> None: ...


class Signal(Notifier, Protocol):
    """What a blocking caller waits on: a notification before the wait is not lost, several count as one."""

    def wait(self, timeout: float | None) -> bool:
        """Wait for a notification and consume it; return False if `timeout` seconds passed without one."""


class WaiterSet:
    """The signals of the waiting calls, notified together from any thread; free of cost while no call waits."""

    def __init__(self) -> None:
        # In the order of their calls: the order of a set would differ from run to run.
        self._waiting: dict[Notifier, None] = {}

    def add(self, notifier: Notifier) -> None:
        """Add a signal."""
        self._waiting[notifier] = None

    def remove(self, notifier: Notifier) -> None:
        """Remove a signal."""
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
        # Held while there is no notification. A lock is the cheapest primitive in C that waits with a timeout.
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
            timeout: seconds; None waits indefinitely.

        Returns:
            False if the time passed without one.
        """
        if timeout is None:
            return self._nothing_new.acquire()
        if timeout <= 0:
            return self._nothing_new.acquire(blocking=False)
        return self._nothing_new.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))


class LoopBridge:
    """The bridge from any thread into the event loop (asyncio or trio) in which it was made.

    However many functions are posted, the loop has at most one wake-up of this bridge pending.
    """

    def __init__(self) -> None:
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_pending = False
        self._asyncio: asyncio.AbstractEventLoop | None = None
        # In a trio loop trio has been imported; elsewhere importing it would only cost time.
        trio: Any = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_run():
            self._trio_token = trio.lowlevel.current_trio_token()
            self._run_soon: Callable[..., Any] = self._trio_token.run_sync_soon
            self._loop_is_over: type[Exception] = trio.RunFinishedError
        else:
            try:
                self._asyncio = asyncio.get_running_loop()
            except RuntimeError:
                raise RuntimeError("no event loop is running; create an async client in a coroutine") from None
            self._run_soon = self._asyncio.call_soon_threadsafe
            self._loop_is_over = RuntimeError

    def post(self, function: Callable[[], None]) -> None:
        """Run a function in the loop, soon and in order; it is dropped if the loop has ended, because nobody can
        wait.
        """
        self._posted.append(function)
        if not self._wake_pending:
            self._wake_pending = True
            try:
                self._run_soon(self._run)
            except self._loop_is_over:
                self._posted.clear()

    def run(self, awaitable: Awaitable[T]) -> T:
        """Run a coroutine in the loop, wait for its result in another thread, and return it.

        Raises:
            RuntimeError: the loop has ended.
            Exception: what the coroutine has raised.
        """

        async def wait() -> T:
            return await awaitable

        if self._asyncio is not None:
            return asyncio.run_coroutine_threadsafe(wait(), self._asyncio).result()
        trio: Any = sys.modules["trio"]
        return trio.from_thread.run(wait, trio_token=self._trio_token)  # type: ignore[no-any-return]

    def _run(self) -> None:
        self._wake_pending = False
        while self._posted:
            self._posted.popleft()()

    @property
    def pending(self) -> bool:
        """Whether a posted function has not run yet; in the loop."""
        return bool(self._posted)

    async def wait_until(self, announce: Callable[[Callable[[], None]], None], timeout: float | None) -> bool:
        """Wait in the loop until the function that is passed to `announce` has been called there.

        Returns:
            False if the timeout (seconds; None for no limit) passed first.
        """
        if self._asyncio is None:
            event = anyio.Event()
            announce(event.set)
            with anyio.move_on_after(timeout):
                await event.wait()
            return event.is_set()
        # The same with asyncio's own primitives, which takes a fraction of the time.
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
    """The counterpart of `ThreadSignal` for one task of an event loop.

    Parameters:
        bridge: the bridge into the waiting task's loop; by default one for the running loop.
    """

    def __init__(self, bridge: LoopBridge | None = None) -> None:
        self._bridge = bridge or LoopBridge()
        self._is_notified = False
        self._wake: Callable[[], None] | None = None

    def notify(self) -> None:
        """Wake the waiting task, or the next one that waits. Any thread."""
        if self._is_notified:
            return
        self._is_notified = True
        wake = self._wake
        if wake is not None:
            self._bridge.post(wake)

    async def wait(self, timeout: float | None) -> bool:
        """Wait for a notification and consume it; a checkpoint in any case.

        Parameters:
            timeout: seconds; None waits indefinitely.

        Returns:
            False if the time passed without one.
        """
        if self._is_notified or (timeout is not None and timeout <= 0):
            await anyio.lowlevel.checkpoint()
        else:
            try:
                await self._bridge.wait_until(self._announce, timeout)
            finally:
                self._wake = None
        notified = self._is_notified
        self._is_notified = False
        return notified

    def _announce(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        if self._is_notified:  # a notification arrived in between and found no waiter
            wake()


def wait_future(future: Future[T], timeout: float | None, signal: Signal | None = None) -> T:
    """Wait in a thread for the result of a future.

    Parameters:
        timeout: seconds; None waits indefinitely.
        signal: what to wait on; by default a ThreadSignal.

    Raises:
        KafkaTimeoutError: the time passed; the future is cancelled, but the operation may still take effect.
        Exception: the exception of the future.
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
    return KafkaTimeoutError(f"there was no response within {0 if timeout is None else timeout:g} s")
