"""Values that are available now or later, so that what need not wait creates no future and keeps its order.

An eventual value is the value itself or a future of it; the value is not a future. Errors that a function raises now
are raised, and errors that occur later are the future's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def then(value: T | asyncio.Future[T], follow: Callable[[T], R | asyncio.Future[R]]) -> R | asyncio.Future[R]:
    """Return the result of a function of an eventual value; cancelling the result cancels the value."""
    if isinstance(value, asyncio.Future):
        return asyncio.get_running_loop().create_task(_then(value, follow))
    return follow(value)


async def _then(value: asyncio.Future[T], follow: Callable[[T], R | asyncio.Future[R]]) -> R:
    result = follow(await value)
    return await result if isinstance(result, asyncio.Future) else result


def all_of(values: Sequence[T | asyncio.Future[T]]) -> list[T] | asyncio.Future[list[T]]:
    """Return the list of eventual values, in their order, when all are available."""
    now = [value for value in values if not isinstance(value, asyncio.Future)]
    if len(now) == len(values):
        return now
    return asyncio.get_running_loop().create_task(_all_of(values))


async def _all_of(values: Sequence[T | asyncio.Future[T]]) -> list[T]:
    return [await value if isinstance(value, asyncio.Future) else value for value in values]
