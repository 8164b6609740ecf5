"""The worker threads of a broker: how many there are, and calls in them that a cancelled task does not leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar, TypeVarTuple, Unpack

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

WORKERS = 40
"""Threads that may work at once. They wait for disks, so their number does not depend on the number of cores."""


def run_loop(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a new event loop that has the broker's worker threads; return its result."""

    async def with_workers() -> Result:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(WORKERS, "refbroker worker"))
        return await main

    return asyncio.run(with_workers())


async def in_thread(function: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    """Call a function in a worker thread and wait for its end, even when the waiting task is cancelled.

    `asyncio.to_thread` alone does not wait after `Task.cancel`: the thread would go on with files that are closed,
    renamed or deleted meanwhile.

    Raises:
        CancelledError: the task was cancelled; the thread has come to its end all the same.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            # Nobody asks any more how it ended.
            running.exception()
        raise
