"""How the loop runs on both faces: its logic once, as a generator, and two drivers.

The generator yields what a call to consumer, producer or function returned. The blocking driver gives it back as it is,
since the call has waited already; the async one awaits it first. Unlike the operations of `kclient.net`, these are
given interruptions as well (Ctrl-C, a cancelled task), and may end their transaction then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import anyio

T = TypeVar("T")

Steps = Generator[Any, Any, T]
"""The logic of something whose result is T."""


def drive(steps: Steps[T]) -> T:
    """Run the steps in this thread; each has waited by itself."""
    value: Any = None
    failure: BaseException | None = None
    try:
        while True:
            try:
                value, failure = steps.send(value) if failure is None else steps.throw(failure), None
            except StopIteration as stop:
                result: T = stop.value
                return result
            except BaseException as error:
                if inspect.getgeneratorstate(steps) == inspect.GEN_CLOSED:
                    raise
                failure = error  # Ctrl-C came between two steps
    finally:
        # An error that keeps the frame that keeps the error is garbage only the collector finds.
        failure = None


async def drive_async(steps: Steps[T]) -> T:
    """Run the steps in this task, awaiting what has to be; after it was cancelled, until they have ended."""
    value: Any = None
    failure: BaseException | None = None
    interrupted = False
    try:
        while True:
            try:
                step = steps.send(value) if failure is None else steps.throw(failure)
            except StopIteration as stop:
                result: T = stop.value
                return result
            value = failure = None
            try:
                if inspect.isawaitable(step):
                    with anyio.CancelScope(shield=interrupted):
                        value = await step
                else:
                    value = step
            except BaseException as error:  # noqa: BLE001 - the steps decide what to do with it
                failure = error
                interrupted = interrupted or not isinstance(error, Exception)
    finally:
        failure = None


def then(steps: Steps[None], function: Callable[[], Any]) -> Any:
    """Run the steps and then call the function; what it returns."""
    drive(steps)
    return function()


async def then_async(steps: Steps[None], function: Callable[[], Any]) -> None:
    """Run the steps and then call the function, and await what it returns where that can be."""
    await drive_async(steps)
    returned = function()
    if inspect.isawaitable(returned):
        await returned
