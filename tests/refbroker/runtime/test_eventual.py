"""Values that are available now or later."""

from __future__ import annotations

import asyncio

import pytest

from kclient.errors import RequestTimedOutError
from refbroker.runtime.eventual import all_of, then


def future() -> asyncio.Future[int]:
    return asyncio.get_running_loop().create_future()


def same(value: int) -> int:
    return value


def test_what_is_available_needs_neither_future_nor_event_loop() -> None:
    assert then(3, lambda value: value + 1) == 4
    assert all_of([1, 2, 3]) == [1, 2, 3]
    assert all_of([]) == []


async def test_a_later_value_is_followed_when_it_comes() -> None:
    first, second = future(), future()

    def add(value: int) -> int | asyncio.Future[int]:
        def to_value(other: int) -> int:
            return value + other

        return then(second, to_value)

    result = then(first, add)
    assert isinstance(result, asyncio.Future)
    first.set_result(1)
    await asyncio.sleep(0)
    assert not result.done()
    second.set_result(2)
    assert await result == 3


async def test_a_list_keeps_its_order_and_waits_for_the_slowest() -> None:
    slow, fast = future(), future()
    result = all_of([0, slow, fast])
    assert isinstance(result, asyncio.Future)
    fast.set_result(2)
    await asyncio.sleep(0)
    assert not result.done()
    slow.set_result(1)
    assert await result == [0, 1, 2]


async def test_an_error_that_occurs_later_is_the_futures() -> None:
    value = future()
    result = then(value, same)
    assert isinstance(result, asyncio.Future)
    value.set_exception(RequestTimedOutError("late"))
    with pytest.raises(RequestTimedOutError):
        await result


async def test_cancelling_the_result_cancels_the_value() -> None:
    value = future()
    result = then(value, same)
    assert isinstance(result, asyncio.Future)
    await asyncio.sleep(0)
    result.cancel()
    await asyncio.wait([result])
    assert value.cancelled()
