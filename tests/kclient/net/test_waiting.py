"""How threads and tasks wait for the network thread, on asyncio and trio."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future

import anyio
import pytest

from kclient import AsyncProducer
from kclient.errors import KafkaTimeoutError, UnknownServerError
from kclient.net.waiting import LoopBridge, LoopSignal, ThreadSignal, WaiterSet, await_future, wait_future
from tests.support.patience import ANSWER


def later(function: object) -> threading.Thread:
    thread = threading.Thread(target=function)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_a_thread_signal_keeps_one_notification() -> None:
    signal = ThreadSignal()
    assert not signal.wait(0)
    signal.notify()
    signal.notify()
    assert signal.wait(None)
    assert not signal.wait(0.001)


def test_a_thread_signal_wakes_the_waiting_thread() -> None:
    signal = ThreadSignal()
    thread = later(signal.notify)
    assert signal.wait(ANSWER)
    thread.join()


def test_an_async_client_outside_of_an_event_loop_says_where_it_belongs() -> None:
    with pytest.raises(RuntimeError, match=r"^no event loop is running; create an async client in a coroutine$"):
        AsyncProducer(bootstrap_servers="localhost:1")


def test_wait_future_returns_the_result_or_raises_the_futures_error() -> None:
    future: Future[int] = Future()
    thread = later(lambda: future.set_result(7))
    assert wait_future(future, ANSWER) == 7
    thread.join()
    failed: Future[int] = Future()
    failed.set_exception(KafkaTimeoutError("the broker's own"))
    with pytest.raises(KafkaTimeoutError, match="own"):
        wait_future(failed, ANSWER)


def test_wait_future_gives_up_by_its_timeout_and_cancels() -> None:
    future: Future[int] = Future()
    with pytest.raises(KafkaTimeoutError, match=r"0\.01 s"):
        wait_future(future, 0.01)
    assert future.cancelled()


def test_a_waiter_set_notifies_every_call_that_waits_and_no_other() -> None:
    waiters = WaiterSet()
    waiters.notify()
    first, second, gone = ThreadSignal(), ThreadSignal(), ThreadSignal()
    for signal in (first, second, gone):
        waiters.add(signal)
    waiters.remove(gone)
    assert len(waiters) == 2
    waiters.notify()
    assert [signal.wait(0) for signal in (first, second, gone)] == [True, True, False]


def test_wait_future_raises_the_cancellation_of_others_as_such() -> None:
    future: Future[int] = Future()
    future.cancel()
    with pytest.raises(CancelledError):
        wait_future(future, ANSWER)


def test_wait_future_waits_on_the_signal_that_it_is_given() -> None:
    future: Future[int] = Future()

    class Simulated(ThreadSignal):
        def wait(self, timeout: float | None) -> bool:
            assert timeout == 3.0
            future.set_result(7)
            return super().wait(0)

    assert wait_future(future, 3.0, Simulated()) == 7


@pytest.mark.anyio
async def test_await_future_returns_the_result_or_raises_the_futures_error() -> None:
    bridge = LoopBridge()
    future: Future[int] = Future()
    thread = later(lambda: future.set_result(7))
    assert await await_future(future, ANSWER, bridge) == 7
    assert await await_future(future, None, bridge) == 7
    thread.join()
    failed: Future[int] = Future()
    thread = later(lambda: failed.set_exception(UnknownServerError()))
    with pytest.raises(UnknownServerError):
        await await_future(failed, None, bridge)
    thread.join()


@pytest.mark.anyio
async def test_what_was_posted_before_a_future_was_done_runs_before_its_result_is_returned() -> None:
    bridge = LoopBridge()
    # A loop that takes its tasks in any order, as trio does, hides it half of the time.
    for _ in range(20):
        seen: list[str] = []
        future: Future[int] = Future()

        def settle(seen: list[str] = seen, future: Future[int] = future) -> None:
            bridge.post(lambda: seen.append("posted"))
            future.set_result(7)

        later(settle).join()
        assert await await_future(future, ANSWER, bridge) == 7
        assert seen == ["posted"]


@pytest.mark.anyio
async def test_await_future_gives_up_by_its_timeout_and_when_cancelled() -> None:
    bridge = LoopBridge()
    future: Future[int] = Future()
    with pytest.raises(KafkaTimeoutError):
        await await_future(future, 0.01, bridge)
    assert future.cancelled()
    other: Future[int] = Future()
    with anyio.move_on_after(0.01) as scope:
        await await_future(other, None, bridge)
    assert scope.cancelled_caught
    assert other.cancelled()


@pytest.mark.anyio
async def test_a_loop_signal_keeps_one_notification_and_wakes_its_task() -> None:
    signal = LoopSignal()
    assert not await signal.wait(0)
    signal.notify()
    signal.notify()
    assert await signal.wait(None)
    assert not await signal.wait(0.001)
    thread = later(signal.notify)
    assert await signal.wait(ANSWER)
    thread.join()
    assert not await signal.wait(0.001)


@pytest.mark.anyio
async def test_a_bridge_runs_what_is_posted_in_order_with_one_wake_up_pending() -> None:
    bridge = LoopBridge()
    wakes = 0
    run_soon = bridge._run_soon

    def counted(function: object) -> object:
        nonlocal wakes
        wakes += 1
        return run_soon(function)

    bridge._run_soon = counted
    seen: list[int] = []
    done = anyio.Event()
    for number in range(100):
        bridge.post(lambda number=number: seen.append(number))  # type: ignore[misc]
    bridge.post(done.set)
    assert wakes == 1
    with anyio.fail_after(ANSWER):
        await done.wait()
    assert seen == list(range(100))
    bridge.post(lambda: None)
    assert wakes == 2
    await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_is_posted_after_the_end_of_the_loop_is_dropped(backend: str) -> None:
    async def make() -> LoopBridge:
        return LoopBridge()

    bridge = anyio.run(make, backend=backend)
    bridge.post(lambda: pytest.fail("the loop is over"))
