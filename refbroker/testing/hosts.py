"""The host of a `RefBroker`: a thread of its own, or a simulated machine.

A broker for tests takes `current()` when it is made, which is a `ThreadHost` outside of a `use` block.
"""

from __future__ import annotations

import concurrent.futures
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from refbroker.runtime.clock import system_clock_ms
from refbroker.runtime.threads import run_loop
from refbroker.server.listening import ListenerFactory, SocketListeners

T = TypeVar("T")


class Process(Protocol):
    """An event loop that was started."""

    def wait(self, future: concurrent.futures.Future[T]) -> T:
        """Wait for a future that the loop completes, from outside of it, and return its result."""

    def join(self) -> None:
        """Wait until the loop has ended."""


class Host(Protocol):
    """The machine of a broker for tests."""

    @property
    def listeners(self) -> ListenerFactory:
        """The factory of its brokers' listeners."""

    @property
    def time_ms(self) -> Callable[[], int]:
        """The time of day, in milliseconds since the epoch."""

    def random(self) -> random.Random:
        """Return a source of ids."""

    def start(self, main: Callable[[], Coroutine[Any, Any, None]]) -> Process:
        """Run a coroutine function in an event loop of its own, which ends with it."""


class ThreadHost:
    """This machine: sockets, the system's clock, and a thread for each broker."""

    def __init__(self) -> None:
        self.listeners: ListenerFactory = SocketListeners()
        self.time_ms = system_clock_ms

    def random(self) -> random.Random:
        """See Host."""
        return random.SystemRandom()

    def start(self, main: Callable[[], Coroutine[Any, Any, None]]) -> Process:
        """See Host."""
        thread = _LoopThread(target=lambda: run_loop(main()), name="refbroker", daemon=True)
        thread.start()
        return thread


class _LoopThread(threading.Thread):
    def wait(self, future: concurrent.futures.Future[T]) -> T:
        return future.result()


_host: Host = ThreadHost()


def current() -> Host:
    """Return the host of brokers that are created now."""
    return _host


@contextmanager
def use(host: Host) -> Iterator[None]:
    """Run the brokers that are created within a `with` block on another host."""
    global _host
    before, _host = _host, host
    try:
        yield
    finally:
        _host = before
