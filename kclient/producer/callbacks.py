"""The threads of delivery callbacks, and failures that nobody has seen.

A blocking producer has one thread for callbacks, started on first use; an async one runs them in its event loop.
Callbacks of one partition run in the order of its batches. An exception of a callback is logged, and the next one still
runs.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kclient.errors import DeliveryError
from kclient.net.runtime import Worker
from kclient.net.waiting import LoopBridge
from kclient.producer.future import RecordFuture, outcome_of
from kclient.producer.interceptors import Acknowledgement, failed_metadata
from kclient.producer.result import BatchResult, Callback

_log = logging.getLogger(__name__)

Job = tuple[RecordFuture | None, Callable[[Any], None]]


class Dispatcher(Protocol):
    """Runs callbacks outside of the network thread."""

    @property
    def busy(self) -> bool:
        """Whether callbacks may still be waiting to run."""

    @property
    def bridge(self) -> LoopBridge | None:
        """The bridge into the event loop of an async producer."""

    def dispatch(self, jobs: list[Job]) -> None: ...

    def barrier(self, function: Callable[[], None]) -> None:
        """Run a function after all callbacks so far."""

    def close(self, timeout: float) -> None:
        """Run the remaining callbacks, for at most this many seconds."""


class WorkerDispatcher:
    """Runs callbacks in a thread of their own.

    Parameters:
        worker: the thread.
    """

    def __init__(self, worker: Worker) -> None:
        self.bridge = None
        self._worker = worker

    @property
    def busy(self) -> bool:
        """Whether callbacks may still be waiting to run; False within a callback."""
        return self._worker.is_started and not self._worker.is_current

    def barrier(self, function: Callable[[], None]) -> None:
        """Run a function after all callbacks so far."""
        self._worker.submit(function)

    def dispatch(self, jobs: list[Job]) -> None:
        """Run these callbacks after the previous ones."""
        self._worker.submit(partial(_run_all, jobs))

    def close(self, timeout: float) -> None:
        """Run the remaining callbacks; a callback may close its own producer."""
        self._worker.close(timeout)


class LoopDispatcher:
    """Runs callbacks in the event loop of the producer."""

    def __init__(self, bridge: LoopBridge) -> None:
        self.bridge = bridge
        self.busy = False

    def barrier(self, function: Callable[[], None]) -> None:
        """Run a function after all callbacks so far."""
        self.bridge.post(function)

    def dispatch(self, jobs: list[Job]) -> None:
        """Run these callbacks soon."""
        self.busy = True
        self.bridge.post(lambda: _run_all(jobs))

    def close(self, timeout: float) -> None:
        """Do nothing: the loop runs what was posted."""


def _run_all(jobs: list[Job]) -> None:
    for future, callback in jobs:
        try:
            callback(future)
        except Exception:  # noqa: BLE001 - user code; the other callbacks have to run
            _log.exception("a delivery callback failed")


def deliver(result: BatchResult) -> None:
    """Call every `on_delivery` of a batch with a result."""
    pairs = iter(result.deliveries)
    for future, on_delivery in zip(pairs, pairs, strict=True):
        metadata, error = outcome_of(future)
        if metadata is None and isinstance(on_delivery, Acknowledgement):
            metadata = failed_metadata(future.topic, future.partition)
        try:
            returned = on_delivery(metadata, error)
            if inspect.iscoroutine(returned):  # `send` does not recognize every coroutine function
                returned.close()
                _log.error("on_delivery %r returned a coroutine, which nothing awaits; it did not run", on_delivery)
        except Exception:  # noqa: BLE001 - user code; the other callbacks have to run
            _log.exception("a delivery callback failed")


class Failures:
    """Failed batches whose results nobody has seen, until an error reports them."""

    KEPT_RESULTS = 1000
    KEPT_ERRORS = 10

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: deque[BatchResult] = deque()
        self._count = 0
        self._errors: list[BaseException] = []

    def add(self, result: BatchResult) -> None:
        """Add a batch that failed, at least partly."""
        with self._lock:
            self._results.append(result)
            if len(self._results) > self.KEPT_RESULTS:
                self._fold(self._results.popleft())

    def take(self) -> DeliveryError | None:
        """Return the error for failures that nobody has seen, and drop them."""
        with self._lock:
            while self._results:
                self._fold(self._results.popleft())
            count, errors = self._count, self._errors
            self._count, self._errors = 0, []
        return DeliveryError(count, errors) if count else None

    def _fold(self, result: BatchResult) -> None:
        unseen = result.unseen_failures()
        self._count += len(unseen)
        for error in unseen:
            if len(self._errors) >= self.KEPT_ERRORS:
                return
            if error not in self._errors:
                self._errors.append(error)


class Deliveries:
    """The outlet of all batches of a producer (see `result.Outlet`).

    Parameters:
        dispatcher: runs callbacks.
        check_usable: raises if the network thread is gone.
        on_settled: receives each batch with a result (network thread).
    """

    def __init__(
        self, dispatcher: Dispatcher, check_usable: Callable[[], None], on_settled: Callable[[], None]
    ) -> None:
        self.lock = threading.Lock()
        self.failures = Failures()
        self.dispatcher = dispatcher
        self._check_usable = check_usable
        self._on_settled = on_settled

    def settled(self, result: BatchResult, callbacks: list[tuple[RecordFuture, Callback]]) -> None:
        """Handle a batch that was delivered, failed or replaced (network thread)."""
        if result.error is not None or result.errors:
            self.failures.add(result)
        if callbacks:
            self.dispatcher.dispatch([*callbacks])
        if result.deliveries:
            self.dispatcher.dispatch([(None, lambda _: deliver(result))])
        self._on_settled()

    def call_back(self, future: RecordFuture, callback: Callback) -> None:
        """Run a callback that was added after its batch had a result (any thread)."""
        self.dispatcher.dispatch([(future, callback)])

    def check_usable(self) -> None:
        """Raise if batches will no longer get a result."""
        self._check_usable()
