"""Calls that may wait: the logic of each is one generator, driven alike for blocking and async callers.

An operation yields what it waits for (a `Pause`, a `Result`, or a `Call` of the application's code) and receives the
outcome; it never blocks and knows no event loop. `run` and `run_async` drive it; a `Waiter` decides how to wait: in the
calling thread (`ThreadWaiter`) or in a task of asyncio or trio (`TaskWaiter`). What a `ThreadWaiter` waits on comes
from the runtime, so that a blocking call in a simulation advances the simulation instead of blocking.

An interruption (Ctrl-C, a cancelled task) is raised inside the operation at the step it waits for. An operation that
has to clean up may wait again before it passes the interruption on.

Elsewhere: the operations themselves, in each client.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeVar

import anyio

from kclient.errors import KafkaError
from kclient.net.runtime import current
from kclient.net.waiting import LoopBridge, LoopSignal, Signal, WaiterSet, await_future, wait_future

K = TypeVar("K")
T = TypeVar("T")


class Pause(NamedTuple):
    """Wait for a notification, at most this many seconds; None waits indefinitely."""

    seconds: float | None


class Result(NamedTuple):
    """Wait for the result of a future, at most until this time (client's clock)."""

    future: Future[Any]
    deadline: float


class Call:
    """Call a function of the application, in the thread or task of the caller; an awaitable result is awaited.

    Parameters:
        function: the function; its result is the outcome.
        arguments: its arguments.
    """

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function = function
        self.arguments = arguments


Step = Pause | Result | Call
Operation = Generator[Step, Any, T]
"""The logic of one call, whose result is T."""


class Waiter(Protocol):
    """The way in which one call waits.

    The methods are coroutines because of `run_async`; those of a waiter for `run` block and never suspend.
    """

    async def wait(self, step: Step) -> Any:
        """Wait as described by the step, and return its outcome."""

    def on_interrupt(self) -> None:
        """Note that the call was interrupted; its remaining waits are shielded."""

    def end(self) -> None:
        """Clean up after the call."""


class ThreadWaiter:
    """A waiter that blocks the calling thread; Ctrl-C interrupts it.

    Parameters:
        signal: what a pause waits on; None creates one on first use.
        waiters: where to register a created signal, so that it is notified.
    """

    def __init__(self, signal: Signal | None = None, *, waiters: WaiterSet | None = None) -> None:
        self._runtime = current()
        self._signal = signal
        self._waiters = waiters
        self._registered: Signal | None = None

    async def wait(self, step: Step) -> Any:
        """See Waiter."""
        if isinstance(step, Pause):
            self._pause(step.seconds)
            return None
        if isinstance(step, Result):
            left = max(0.0, step.deadline - self._runtime.monotonic())
            return wait_future(step.future, left, self._runtime.signal())
        outcome = step.function(*step.arguments)
        if inspect.iscoroutine(outcome):
            outcome.close()
            name = getattr(step.function, "__qualname__", repr(step.function))
            raise TypeError(f"{name} is a coroutine function, which only the async client awaits; make it a plain one")
        return outcome

    def _pause(self, seconds: float | None) -> None:
        if self._signal is None:
            self._signal = self._runtime.signal()
            if self._waiters is not None:
                self._registered = self._signal
                self._waiters.add(self._signal)
                return  # a notification may have come before the signal was registered
        self._signal.wait(seconds)

    def on_interrupt(self) -> None:
        """See Waiter."""

    def end(self) -> None:
        """See Waiter."""
        if self._registered is not None and self._waiters is not None:
            self._waiters.remove(self._registered)
            self._registered = self._signal = None


class TaskWaiter:
    """A waiter that suspends a task of asyncio or trio; after a cancellation it waits shielded.

    Parameters:
        bridge: the bridge into the task's loop.
        signal, waiters: see ThreadWaiter.
    """

    def __init__(
        self, bridge: LoopBridge, signal: LoopSignal | None = None, *, waiters: WaiterSet | None = None
    ) -> None:
        self._bridge = bridge
        self._signal = signal
        self._waiters = waiters
        self._clock = current().monotonic
        self._registered: LoopSignal | None = None
        self._interrupted = False

    async def wait(self, step: Step) -> Any:
        """See Waiter."""
        if self._interrupted:
            with anyio.CancelScope(shield=True):
                return await self._wait(step)
        return await self._wait(step)

    async def _wait(self, step: Step) -> Any:
        if isinstance(step, Pause):
            await self._pause(step.seconds)
            return None
        if isinstance(step, Result):
            return await await_future(step.future, max(0.0, step.deadline - self._clock()), self._bridge)
        outcome = step.function(*step.arguments)
        return await outcome if inspect.isawaitable(outcome) else outcome

    async def _pause(self, seconds: float | None) -> None:
        if self._signal is None:
            self._signal = LoopSignal(self._bridge)
            if self._waiters is not None:
                self._registered = self._signal
                self._waiters.add(self._signal)
                return
        await self._signal.wait(seconds)

    def on_interrupt(self) -> None:
        """See Waiter."""
        self._interrupted = True

    def end(self) -> None:
        """See Waiter."""
        self._interrupted = False
        if self._registered is not None and self._waiters is not None:
            self._waiters.remove(self._registered)
            self._registered = self._signal = None


def run(operation: Operation[T], waiter: Waiter) -> T:
    """Drive an operation to its end in the calling thread, with a waiter that blocks."""
    current().checkpoint()
    driving = run_async(operation, waiter)
    try:
        driving.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        driving.close()
    raise RuntimeError(f"{type(waiter).__name__} suspended a call that has no event loop; use run_async")


async def run_async(operation: Operation[T], waiter: Waiter) -> T:
    """Drive an operation to its end, waiting as the waiter does."""
    outcome: Any = None
    failure: BaseException | None = None
    try:
        while True:
            try:
                step = operation.send(outcome) if failure is None else operation.throw(failure)
                outcome = failure = None
            except StopIteration as stop:
                result: T = stop.value
                return result
            except BaseException as error:
                if inspect.getgeneratorstate(operation) == inspect.GEN_CLOSED:
                    raise
                outcome, failure = None, error  # Ctrl-C came between two steps
                continue
            try:
                outcome = await waiter.wait(step)
            except BaseException as error:  # noqa: BLE001 - the operation decides what to do with it
                failure = error
                if not isinstance(error, Exception):
                    waiter.on_interrupt()
    finally:
        # An error whose frame refers to the error is a reference cycle, which only the collector would free.
        failure = None
        operation.close()
        waiter.end()


def gather(operations: Mapping[K, Operation[T]]) -> Operation[dict[K, T | KafkaError]]:
    """Run several operations at once; the outcome of each is its result, or the KafkaError it raised.

    Every operation makes its first step, such as sending a request, before the first wait.
    """
    begun = {key: (operation, _advance(operation, None)) for key, operation in operations.items()}
    outcomes: dict[K, T | KafkaError] = {}
    for key, (operation, step) in begun.items():
        while not isinstance(step, _Finished):
            try:
                outcome = yield step
            except KafkaError as error:
                outcome = error
            step = _advance(operation, outcome)
        outcomes[key] = step.outcome
    return outcomes


class _Finished(NamedTuple):
    outcome: Any


def _advance(operation: Operation[Any], outcome: Any) -> Step | _Finished:
    try:
        return operation.throw(outcome) if isinstance(outcome, KafkaError) else operation.send(outcome)
    except StopIteration as stop:
        return _Finished(stop.value)
    except KafkaError as error:
        return _Finished(error)
