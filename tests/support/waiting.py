"""Waits for conditions that threads, brokers and clusters bring about."""

from __future__ import annotations

import asyncio
import inspect
import reprlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from kclient.net.runtime import current
from kclient.net.waiting import wait_future
from tests.support import clock
from tests.support.patience import ANSWER

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.01, 0.1, 1.2
"""Seconds between two checks of a condition: a wait for a session to expire makes tens of requests, not hundreds."""
_TURN = 0.001
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 300
_SHORT.maxlist = _SHORT.maxdict = _SHORT.maxset = _SHORT.maxtuple = 20


def wait_until(condition: Callable[[], object], seconds: float = ANSWER) -> None:
    """Return as soon as a condition holds; fail with the last state when it does not within so many seconds."""
    deadline = clock.monotonic() + seconds
    pause = _FIRST_PAUSE
    while not (last := condition()):
        assert clock.monotonic() < deadline, _state(condition, last, seconds)
        clock.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)


def result_of(future: Future[T], seconds: float = ANSWER) -> T:
    """Return the result of a future that other threads, or the simulation, bring about."""
    return wait_future(future, seconds, current().signal())


async def until(condition: Callable[[], object], seconds: float = ANSWER) -> None:
    """Wait like `wait_until`, in a coroutine, which yields to the loop between checks."""
    deadline = clock.monotonic() + seconds
    while not (last := condition()):
        assert clock.monotonic() < deadline, _state(condition, last, seconds)
        await asyncio.sleep(_TURN)


def _state(condition: Callable[[], object], last: object, seconds: float) -> str:
    """Return the condition's source, what it returned last, and the variables that it reads."""
    lines = [f"the condition did not hold within {seconds:g} s; it returned {_SHORT.repr(last)}"]
    try:
        lines.append(inspect.getsource(condition).strip())
    except (OSError, TypeError):
        lines.append(repr(condition))
    if inspect.isfunction(condition):
        variables = {**inspect.getclosurevars(condition).nonlocals, **(condition.__kwdefaults__ or {})}
        defaults = inspect.signature(condition).parameters.values()
        variables |= {one.name: one.default for one in defaults if one.default is not one.empty}
        lines += [f"  {name} = {_SHORT.repr(value)}" for name, value in variables.items()]
    elif inspect.ismethod(condition):
        lines.append(f"  self = {_SHORT.repr(condition.__self__)}")
    return "\n".join(lines)
