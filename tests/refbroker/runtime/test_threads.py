"""Work in threads whose task is cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from refbroker.runtime.threads import in_thread


@pytest.mark.asyncio
async def test_the_result_and_the_error_come_back() -> None:
    assert await in_thread(int, "7") == 7
    with pytest.raises(ValueError, match="invalid literal"):
        await in_thread(int, "x")


@pytest.mark.asyncio
@pytest.mark.parametrize("error", [None, OSError("too late")])
async def test_a_cancelled_task_ends_after_its_thread(error: OSError | None) -> None:
    begun, proceed = asyncio.Event(), threading.Event()
    loop, ended = asyncio.get_running_loop(), []

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        proceed.wait(20)
        ended.append(True)
        if error is not None:
            raise error

    task = asyncio.create_task(in_thread(work))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended
