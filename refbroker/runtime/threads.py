"""Running what blocks in a worker thread, so that whoever is cancelled meanwhile does not leave the thread behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, TypeVarTuple, Unpack

import anyio.to_thread

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


async def in_thread(function: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    """Call a function in a worker thread and wait for its end, even when the waiting task is cancelled.

    `anyio.to_thread.run_sync` alone waits only under cancellation by anyio's own scopes; after `Task.cancel` it would
    let the thread go on with files that are closed, renamed or deleted meanwhile.

    Raises:
        CancelledError: the task was cancelled; the thread has come to its end all the same.
    """
    running = asyncio.ensure_future(anyio.to_thread.run_sync(function, *arguments))
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
