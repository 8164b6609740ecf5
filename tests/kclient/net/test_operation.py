"""How operations are driven: steps and their outcomes, interruptions, and what a call waits with."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import anyio
import pytest

from kclient.errors import DisconnectedError, KafkaError, KafkaTimeoutError
from kclient.net.operation import Call, Operation, Pause, Result, TaskWaiter, ThreadWaiter, gather, run, run_async
from kclient.net.runtime import ThreadRuntime, use
from kclient.net.waiting import LoopBridge, Signal, ThreadSignal, WaiterSet


class Simulation(ThreadRuntime):
    """Time that passes where a call waits, and what happens meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float | None] = []
        self.events: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        return self.now

    def signal(self) -> Signal:
        return SimulatedSignal(self)

    def waiter(self, waiters: WaiterSet | None = None) -> ThreadWaiter:
        with use(self):
            return ThreadWaiter(waiters=waiters)


class SimulatedSignal(ThreadSignal):
    """A signal that lets the next event of a simulation happen instead of blocking."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation

    def wait(self, timeout: float | None) -> bool:
        simulation = self._simulation
        simulation.waits.append(timeout)
        if simulation.events:
            simulation.events.pop(0)()
        notified = super().wait(0)
        if not notified:
            simulation.now += timeout or 0.0
        return notified


def calling(function: Any, *arguments: Any) -> Operation[Any]:
    try:
        found = yield Call(function, *arguments)
    except ZeroDivisionError:
        return "failed"
    return found


def result_of(future: Future[Any], deadline: float) -> Operation[Any]:
    return (yield Result(future, deadline))


def pausing(times: int, seconds: float | None = None) -> Operation[int]:
    for _ in range(times):
        yield Pause(seconds)
    return times


async def coroutine(value: int) -> int:
    return 10 * value


def test_function_is_called_in_the_thread_of_the_caller() -> None:
    assert run(calling(divmod, 7, 2), ThreadWaiter()) == (3, 1)
    assert run(calling(divmod, 7, 0), ThreadWaiter()) == "failed"


def test_coroutine_function_is_an_error_without_a_loop() -> None:
    with pytest.raises(TypeError, match="coroutine is a coroutine function, which only the async client awaits"):
        run(calling(coroutine, 3), ThreadWaiter())


def test_interrupt_is_raised_in_the_operation_and_comes_out_of_the_call() -> None:
    noticed: list[type[BaseException]] = []

    def operation() -> Operation[None]:
        try:
            yield Call(interrupt)
        except BaseException as error:
            noticed.append(type(error))
            raise

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(operation(), ThreadWaiter())
    assert noticed == [KeyboardInterrupt]


@pytest.mark.anyio
async def test_cancelled_task_lets_an_operation_wait_again() -> None:
    steps: list[str] = []

    async def put_in_order() -> None:
        await anyio.lowlevel.checkpoint()
        steps.append("in order")

    def operation() -> Operation[None]:
        try:
            yield Call(anyio.sleep_forever)
        finally:
            yield Call(put_in_order)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await run_async(operation(), TaskWaiter(LoopBridge()))
    assert scope.cancelled_caught
    assert steps == ["in order"]


@pytest.mark.anyio
async def test_task_awaits_a_coroutine_function_and_calls_a_plain_one() -> None:
    bridge = LoopBridge()
    assert await run_async(calling(coroutine, 3), TaskWaiter(bridge)) == 30
    assert await run_async(calling(divmod, 7, 2), TaskWaiter(bridge)) == (3, 1)
    assert await run_async(calling(divmod, 7, 0), TaskWaiter(bridge)) == "failed"


def test_signal_is_registered_for_as_long_as_a_call_waits() -> None:
    simulation, waiters = Simulation(), WaiterSet()
    simulation.events.append(lambda: registered.append(len(waiters)))
    registered: list[int] = []
    assert run(pausing(0), simulation.waiter(waiters)) == 0
    # A notification may have come before the signal was registered, so the first pause does not wait.
    assert run(pausing(1), simulation.waiter(waiters)) == 1
    assert simulation.waits == []
    assert run(pausing(2, 5.0), simulation.waiter(waiters)) == 2
    assert simulation.waits == [5.0]
    assert registered == [1]
    assert len(waiters) == 0


def test_simulation_turns_while_a_blocking_call_waits_for_a_result() -> None:
    simulation = Simulation()
    answered: Future[str] = Future()
    simulation.events.append(lambda: answered.set_result("the answer"))
    assert run(result_of(answered, 2.0), simulation.waiter()) == "the answer"
    with pytest.raises(KafkaTimeoutError):
        run(result_of(Future(), 2.0), simulation.waiter())
    assert (simulation.now, simulation.waits) == (2.0, [2.0, 2.0])


def test_blocking_call_refuses_a_waiter_for_tasks() -> None:
    class Suspends(ThreadWaiter):
        async def wait(self, step: Any) -> Any:
            await anyio.lowlevel.checkpoint()

    async def in_a_loop() -> None:
        with pytest.raises(RuntimeError, match="Suspends suspended a call that has no event loop"):
            run(pausing(1), Suspends())

    anyio.run(in_a_loop)


def test_gathered_operations_all_begin_before_the_first_is_waited_for() -> None:
    begun: list[str] = []
    simulation = Simulation()
    futures: dict[str, Future[Any]] = {name: Future() for name in ("slow", "quick", "lost")}

    def ask(name: str) -> Operation[Any]:
        begun.append(name)
        return (yield Result(futures[name], 9.0))

    def settle() -> None:
        assert begun == ["slow", "quick", "lost", "none"]
        futures["quick"].set_result(2)
        futures["lost"].set_exception(DisconnectedError("lost"))
        futures["slow"].set_result(1)

    def none() -> Operation[int]:
        yield from ()
        begun.append("none")
        return 0

    simulation.events.append(settle)
    found: dict[str, int | KafkaError] = run(
        gather({**{name: ask(name) for name in futures}, "none": none()}), simulation.waiter()
    )
    assert (found["slow"], found["quick"], found["none"]) == (1, 2, 0)
    assert isinstance(found["lost"], DisconnectedError)
