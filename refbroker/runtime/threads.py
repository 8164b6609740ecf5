"""The broker's worker threads, and calls in them that finish even if the calling task is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar, TypeVarTuple, Unpack

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

WORKERS = 40
"""The number of worker threads. They wait for disks, so it does not depend on the number of cores."""


def run_loop(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a new event loop with the broker's worker threads; return its result."""

    async def with_workers() -> Result:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(WORKERS, "refbroker worker"))
        return await main

    return asyncio.run(with_workers())


async def in_thread(function: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    """Call a function in a worker thread and wait for it to finish, even when the waiting task is cancelled.

    After `Task.cancel`, `asyncio.to_thread` does not wait: the thread would keep using files that are being closed,
    renamed or deleted.

    Raises:
        CancelledError: the task was cancelled; the function has finished.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            # Nobody awaits the result after a cancellation.
            running.exception()
        raise
