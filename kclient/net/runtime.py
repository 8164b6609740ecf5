"""The runtime of a client: the clocks, randomness, network, threads and blocking waits that it uses.

A client takes `current()` once, when it is made. Outside of a `use` block that is `ThreadRuntime`: the system's clocks,
TCP, and real threads. A simulation provides another one, under which the same clients run in a single thread and on
simulated time. Not implemented: a runtime for event loops; the async clients wait on `LoopSignal` under any runtime.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Protocol

from kclient.config import ClientConfig
from kclient.net.transport import SocketTransport, Transport
from kclient.net.waiting import Signal, ThreadSignal


class Steps(Protocol):
    """The work of a network thread, one turn at a time."""

    def step(self, longest: float = ...) -> float | None:
        """Make one turn; return the seconds until the next one is due, None after the last one."""


class Thread(Protocol):
    """A started network thread."""

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""

    def is_alive(self) -> bool:
        """Return whether the thread has steps left."""

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended, for at most this many seconds."""


class Worker(Protocol):
    """A thread that calls functions one after the other, started for the first one."""

    @property
    def is_started(self) -> bool:
        """Whether a function was submitted so far."""

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""

    def submit(self, function: Callable[[], None]) -> None:
        """Call a function after those submitted before. Any thread."""

    def close(self, timeout: float) -> None:
        """End the thread after the submitted functions; wait for that, unless the caller runs on it."""


class Runtime(Protocol):
    """The machine as a client sees it."""

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes back."""

    def time_ms(self) -> int:
        """Return milliseconds since the epoch."""

    def random(self) -> random.Random:
        """Return a new source of jitter and choices."""

    def transport(self, config: ClientConfig) -> Transport:
        """Return the network of a new client."""

    def signal(self) -> Signal:
        """Return a signal for a blocking caller."""

    def checkpoint(self) -> None:
        """Let other threads run, in a runtime in which they run at checkpoints only."""

    def start(self, steps: Steps, name: str) -> Thread:
        """Start to run the steps of a network thread."""

    def worker(self, name: str) -> Worker:
        """Return a thread for functions of the application, not started yet."""


def system_time_ms() -> int:
    """Return milliseconds since the epoch by the system's clock; a compiled twin that is given this reads it in C."""
    return time.time_ns() // 1_000_000


class ThreadRuntime:
    """The machine itself: system clocks, TCP, and a daemon thread for each client."""

    monotonic = staticmethod(time.monotonic)
    time_ms = staticmethod(system_time_ms)

    def random(self) -> random.Random:
        """See Runtime."""
        return random.Random()

    def transport(self, config: ClientConfig) -> Transport:
        """See Runtime."""
        return SocketTransport(send_buffer=config.send_buffer_bytes, receive_buffer=config.receive_buffer_bytes)

    def signal(self) -> Signal:
        """See Runtime."""
        return ThreadSignal()

    def checkpoint(self) -> None:
        """See Runtime; the interpreter switches between threads by itself."""

    def start(self, steps: Steps, name: str) -> Thread:
        """See Runtime."""
        thread = NetworkThread(steps, name)
        thread.start()
        return thread

    def worker(self, name: str) -> Worker:
        """See Runtime."""
        return ThreadWorker(name)


class NetworkThread(threading.Thread):
    """The thread of one engine; a daemon, so that it never keeps the interpreter from ending."""

    def __init__(self, steps: Steps, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._steps = steps

    @property
    def is_current(self) -> bool:
        """See Thread."""
        return self is threading.current_thread()

    def run(self) -> None:
        """Make steps until the last one."""
        _block_signals()
        step = self._steps.step
        while step() is not None:
            pass


class ThreadWorker:
    """A `Worker` with a daemon thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._functions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def is_started(self) -> bool:
        """See Worker."""
        return self._thread is not None

    @property
    def is_current(self) -> bool:
        """See Worker."""
        return self._thread is threading.current_thread()

    def submit(self, function: Callable[[], None]) -> None:
        """See Worker."""
        self._functions.put(function)
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                    self._thread.start()

    def close(self, timeout: float) -> None:
        """See Worker."""
        thread = self._thread
        if thread is not None:
            self._functions.put(None)
            if thread is not threading.current_thread():
                thread.join(timeout)

    def _run(self) -> None:
        while (function := self._functions.get()) is not None:
            function()


def _block_signals() -> None:
    """Leave signals to the main thread, whose waits they interrupt."""
    if hasattr(signal, "pthread_sigmask"):
        own = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - own)


_runtime: Runtime = ThreadRuntime()


def current() -> Runtime:
    """Return the runtime for clients that are created now, and for calls that wait now."""
    return _runtime


def sleep(seconds: float) -> None:
    """Block the caller for this many seconds."""
    _runtime.signal().wait(seconds)


@contextmanager
def use(runtime: Runtime) -> Iterator[None]:
    """Provide another runtime within a `with` block; for one simulation at a time, in the process's only thread."""
    global _runtime
    before, _runtime = _runtime, runtime
    try:
        yield
    finally:
        _runtime = before
