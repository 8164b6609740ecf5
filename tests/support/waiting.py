"""Waiting for what others bring about: threads, brokers, clusters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

SECONDS = 20.0
_BETWEEN = 0.01
_TURN = 0.001


def wait_until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Return as soon as a condition holds; fail when it does not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about within {seconds:g} s"
        time.sleep(_BETWEEN)


async def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """The same for coroutines, which leave the loop to others meanwhile."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about within {seconds:g} s"
        await asyncio.sleep(_TURN)
