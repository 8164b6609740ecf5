"""What an application gives the loop: a function of one record, and one that decides about records on which it fails.

Both return nothing, a ProducerRecord, or several. Leaves out when they are called (`loop`).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any

from kclient.net.operation import Call, Operation
from kclient.producer import ProducerRecord
from kclient.types import ConsumerRecord

Output = ProducerRecord | Iterable[ProducerRecord] | None
"""What becomes of a record: nothing, one result, or several, which keep their order; a generator will do."""

Function = Callable[[ConsumerRecord], Output]
"""Takes a record. It may be called again for the same one, when a transaction was aborted."""

OnError = Callable[[ConsumerRecord, Exception], Output]
"""Takes a record and what the function raised; returns what to send in its place, or raises to end the loop."""

AsyncFunction = Callable[[ConsumerRecord], Output | Awaitable[Output] | AsyncIterable[ProducerRecord]]
AsyncOnError = Callable[[ConsumerRecord, Exception], Output | Awaitable[Output] | AsyncIterable[ProducerRecord]]


def results(returned: Any, *, awaits: bool) -> Operation[tuple[ProducerRecord, ...]]:
    """The results of a record, once there are all of them: of a function that fails half-way nothing is sent.

    Parameters:
        returned: by the function.
        awaits: whether it may be awaitable, or an asynchronous iterator.

    Raises:
        TypeError: it is something else.
        Exception: what a generator or coroutine raised.
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
