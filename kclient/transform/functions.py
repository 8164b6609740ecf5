"""The functions that an application passes to the loop: one for records, and one for records on which that fails.

Both return None, a ProducerRecord, or several. Elsewhere: when they are called (`loop`).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any

from kclient.net.operation import Call, Operation
from kclient.producer import ProducerRecord
from kclient.types import ConsumerRecord

Output = ProducerRecord | Iterable[ProducerRecord] | None
"""The results of a record: none, one, or several, which keep their order; also a generator."""

Function = Callable[[ConsumerRecord], Output]
"""A function of a record. It may be called again for the same record after an aborted transaction."""

OnError = Callable[[ConsumerRecord, Exception], Output]
"""A function of a record and the exception of `Function`; it returns what to send instead, or raises to end the
loop.
"""

AsyncFunction = Callable[[ConsumerRecord], Output | Awaitable[Output] | AsyncIterable[ProducerRecord]]
AsyncOnError = Callable[[ConsumerRecord, Exception], Output | Awaitable[Output] | AsyncIterable[ProducerRecord]]


def results(returned: Any, *, awaits: bool) -> Operation[tuple[ProducerRecord, ...]]:
    """Return all results of a record: if the function fails, nothing is sent.

    Parameters:
        returned: the value that the function returned.
        awaits: whether it may be awaitable, or an asynchronous iterator.

    Raises:
        TypeError: it is something else.
        Exception: the exception of a generator or coroutine.
    """
    if awaits and inspect.isawaitable(returned):
        returned = yield Call(_itself, returned)
    if awaits and isinstance(returned, AsyncIterable):
        returned = yield Call(_collect, returned)
    if returned is None:
        return ()
    if isinstance(returned, ProducerRecord):
        return (returned,)
    if inspect.iscoroutine(returned):
        returned.close()
        raise TypeError("the function is a coroutine function, which AsyncTransform alone awaits")
    if not isinstance(returned, Iterable) or isinstance(returned, str | bytes | bytearray):
        raise TypeError(f"the function returns None, a ProducerRecord or several, not {returned!r}")
    several = tuple(returned)
    for one in several:
        if not isinstance(one, ProducerRecord):
            raise TypeError(f"the function returns ProducerRecords, and there is {one!r} among them")
    return several


def _itself(returned: Awaitable[Any]) -> Awaitable[Any]:
    return returned


async def _collect(several: AsyncIterable[Any]) -> list[Any]:
    return [one async for one in several]
