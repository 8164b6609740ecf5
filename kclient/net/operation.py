"""How a call that may have to wait runs: its logic once, as a generator, and two drivers that do the waiting.

An operation yields what it waits for (a `Pause`, a `Result`, or a `Call` of the application's code) and is
given the outcome; it never blocks and knows no event loop. `run` waits in the calling thread, `run_async` in
asyncio or trio. Leaves out what the operations do: that stands with each client.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from kclient.net.waiting import LoopBridge, LoopSignal, ThreadSignal, await_future, wait_future

T = TypeVar("T")


class Pause(NamedTuple):
    """Wait for news, so many seconds at most; None is for ever."""

    seconds: float | None


class Result(NamedTuple):
    """Wait for the result of a future, until this time (of `time.monotonic`) at most."""

    future: Future[Any]
    deadline: float


class Call:
    """Call a function of the application's, in the thread or task of the caller; a coroutine function is awaited.

    Parameters:
        function: what to call; its result is the outcome.
        arguments: what with.
    """

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function = function
        self.arguments = arguments


Operation = Generator[Pause | Result | Call, Any, T]
"""The logic of one call, whose result is T."""


def run(operation: Operation[T], signal: ThreadSignal | None = None) -> T:
    """Drive an operation by blocking the thread; Ctrl-C interrupts it.

    Parameters:
        signal: what brings news; without one a pause takes its whole time.
    """
    outcome: Any = None
    failure: Exception | None = None
    try:
        while True:
            step = operation.send(outcome) if failure is None else operation.throw(failure)
            outcome = failure = None
            if isinstance(step, Pause):
                signal = signal or ThreadSignal()
                signal.wait(step.seconds)
                continue
            try:
                if isinstance(step, Call):
                    outcome = _call(step)
                else:
                    outcome = wait_future(step.future, max(0.0, step.deadline - time.monotonic()))
            except Exception as error:  # noqa: BLE001 - the operation decides what to do with it
                failure = error
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        # An error that keeps the frame that keeps the error is garbage only the collector finds.
        failure = None
        operation.close()


async def run_async(operation: Operation[T], bridge: LoopBridge, signal: LoopSignal | None = None) -> T:
    """Drive an operation by awaiting, on asyncio or trio; parameters as for `run`, and the way into the loop."""
    outcome: Any = None
    failure: Exception | None = None
    try:
        while True:
            step = operation.send(outcome) if failure is None else operation.throw(failure)
            outcome = failure = None
            if isinstance(step, Pause):
                signal = signal or LoopSignal(bridge)
                await signal.wait(step.seconds)
                continue
            try:
                if isinstance(step, Call):
                    outcome = step.function(*step.arguments)
                    if inspect.isawaitable(outcome):
                        outcome = await outcome
                else:
                    outcome = await await_future(step.future, max(0.0, step.deadline - time.monotonic()), bridge)
            except Exception as error:  # noqa: BLE001 - the operation decides what to do with it
                failure = error
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        failure = None
        operation.close()


def _call(step: Call) -> Any:
    outcome = step.function(*step.arguments)
    if inspect.iscoroutine(outcome):
        outcome.close()
        name = getattr(step.function, "__qualname__", repr(step.function))
        raise TypeError(f"{name} is a coroutine function, which only the async client awaits; make it a plain one")
    return outcome
