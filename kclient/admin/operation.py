"""How an admin call runs: its logic once, as a generator, and two drivers that wait for it.

An operation yields what it waits for (a future of the engine, or a pause before a retry) and is given
the outcome; it never blocks and knows no event loop. `run` waits in the calling thread, `run_async` in
asyncio or trio. Leaves out what the operations do: that stands with each area.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

import anyio

from kclient.errors import KafkaError, KafkaTimeoutError
from kclient.net.waiting import LoopBridge, await_future, wait_future

T = TypeVar("T")


class Pause(NamedTuple):
    """Wait for so many seconds."""

    seconds: float


Operation = Generator[Future[Any] | Pause, Any, T]
"""The logic of one admin call, whose result is T."""


class Deadline:
    """Until when a call may take; `name` is the call as its user knows it.

    Parameters:
        timeout: seconds from now.
        last_error: tells what went wrong with connections lately, for the error when time is up.
    """

    def __init__(self, name: str, timeout: float, last_error: Callable[[], KafkaError | None]) -> None:
        self.name = name
        self.timeout = timeout
        self._last_error = last_error
        self._at = time.monotonic() + timeout

    def remaining(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self._at - time.monotonic())

    @property
    def passed(self) -> bool:
        return self.remaining() == 0.0

    def error(self, last: KafkaError | None = None) -> KafkaTimeoutError:
        """What to raise when it has passed; `last` is what went wrong before."""
        last = last or self._last_error()
        why = f"; the last error was: {last}" if last else ""
        return KafkaTimeoutError(f"{self.name} did not finish within {self.timeout:g} s{why}")


def run(operation: Operation[T], deadline: Deadline) -> T:
    """Drive an operation from a blocking face; Ctrl-C interrupts it."""
    outcome: Any = None
    failure: BaseException | None = None
    try:
        while True:
            step = operation.send(outcome) if failure is None else operation.throw(failure)
            outcome = failure = None
            if isinstance(step, Pause):
                time.sleep(min(step.seconds, deadline.remaining()))
                continue
            try:
                outcome = wait_future(step, deadline.remaining())
            except KafkaTimeoutError as error:
                failure = deadline.error() if deadline.passed else error
            except Exception as error:  # noqa: BLE001 - the operation decides what to do with it
                failure = error
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        operation.close()


async def run_async(operation: Operation[T], deadline: Deadline, bridge: LoopBridge) -> T:
    """Drive an operation from an async face, on asyncio or trio."""
    outcome: Any = None
    failure: BaseException | None = None
    try:
        while True:
            step = operation.send(outcome) if failure is None else operation.throw(failure)
            outcome = failure = None
            if isinstance(step, Pause):
                await anyio.sleep(min(step.seconds, deadline.remaining()))
                continue
            try:
                outcome = await await_future(step, deadline.remaining(), bridge)
            except KafkaTimeoutError as error:
                failure = deadline.error() if deadline.passed else error
            except Exception as error:  # noqa: BLE001 - the operation decides what to do with it
                failure = error
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        operation.close()
