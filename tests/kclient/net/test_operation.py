"""How operations call the application's code: at once by blocking, awaited in a task."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.net.operation import Call, Operation, run, run_async
from kclient.net.waiting import LoopBridge


def calling(function: Any, *arguments: Any) -> Operation[Any]:
    try:
        found = yield Call(function, *arguments)
    except ZeroDivisionError:
        return "failed"
    return found


async def coroutine(value: int) -> int:
    return 10 * value


def test_function_is_called_in_the_thread_of_the_caller() -> None:
    assert run(calling(divmod, 7, 2)) == (3, 1)
    assert run(calling(divmod, 7, 0)) == "failed"


def test_coroutine_function_is_an_error_without_a_loop() -> None:
    with pytest.raises(TypeError, match="coroutine is a coroutine function, which only the async client awaits"):
        run(calling(coroutine, 3))


def test_interrupt_comes_out_of_the_call_and_closes_the_operation() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    operation = calling(interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(operation)
    assert operation.gi_frame is None  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_task_awaits_a_coroutine_function_and_calls_a_plain_one() -> None:
    bridge = LoopBridge()
    assert await run_async(calling(coroutine, 3), bridge) == 30
    assert await run_async(calling(divmod, 7, 2), bridge) == (3, 1)
    assert await run_async(calling(divmod, 7, 0), bridge) == "failed"
