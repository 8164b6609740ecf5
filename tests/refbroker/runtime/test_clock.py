"""The broker's clock, and the work that is done by it."""

from __future__ import annotations

import asyncio

import pytest

from kclient.errors import KafkaStorageError
from refbroker.runtime.background import Background
from refbroker.runtime.clock import Clock


class Source:
    """The source of a clock's time, which the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1000

    def __call__(self) -> int:
        return self.now_ms


async def settle() -> None:
    """Let woken tasks run."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_it_follows_its_source_until_it_is_held_and_continues_from_where_it_was() -> None:
    source = Source()
    clock = Clock(source)
    assert (clock(), clock.is_held) == (1000, False)
    source.now_ms += 5
    assert clock() == 1005
    clock.hold()
    source.now_ms += 100
    assert (clock(), clock.is_held) == (1005, True)
    clock.step(20)
    assert clock() == 1025
    clock.run()
    source.now_ms += 3
    assert (clock(), clock.is_held) == (1028, False)
    clock.step(1000)
    assert clock() == 2028
    clock.hold(at_ms=7)
    assert clock() == 7


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
async def test_a_sleeper_waits_as_long_as_before_when_the_system_clock_is_set(step_ms: int) -> None:
    source, elapsed = Source(), Source()
    clock = Clock(source, elapsed)
    sleeping = clock.wake_after(500)
    source.now_ms += step_ms
    elapsed.now_ms += 499
    clock.step(0)
    assert (sleeping.done(), clock(), clock.elapsed_ms()) == (False, 1000 + step_ms, 1499)
    source.now_ms += 1
    elapsed.now_ms += 1
    clock.step(0)
    assert (sleeping.done(), clock(), clock.elapsed_ms()) == (True, 1001 + step_ms, 1500)


def test_durations_follow_steps_forward_and_never_go_back() -> None:
    elapsed = Source()
    clock = Clock(elapsed=elapsed)
    clock.step(20)
    clock.step(-10)
    assert clock.elapsed_ms() == 1020
    clock.hold(0)
    elapsed.now_ms += 100
    clock.step(5)
    assert clock.elapsed_ms() == 1025
    clock.run()
    elapsed.now_ms += 3
    assert clock.elapsed_ms() == 1028


async def test_sleepers_wake_in_order_when_it_is_stepped() -> None:
    clock = Clock()
    clock.hold(0)
    woken: list[int] = []

    async def sleep(ms: int) -> None:
        await clock.sleep(ms)
        woken.append(ms)

    tasks = [asyncio.create_task(sleep(ms)) for ms in (300, 100, 200)]
    await settle()
    clock.step(99)
    await settle()
    assert woken == []
    clock.step(101)
    await settle()
    assert woken == [100, 200]
    clock.step(-1000)
    clock.step(1100)
    await asyncio.gather(*tasks)
    assert woken == [100, 200, 300]


async def test_sleepers_wake_by_themselves_while_it_runs() -> None:
    clock = Clock()
    await asyncio.wait_for(clock.sleep(1), 10)
    clock.hold()
    sleeper = asyncio.create_task(clock.sleep(2))
    await settle()
    assert not sleeper.done()
    clock.run()
    await asyncio.wait_for(sleeper, 10)


async def test_a_sleeper_that_is_cancelled_is_forgotten() -> None:
    clock = Clock()
    clock.hold(0)
    sleeper = asyncio.create_task(clock.sleep(10))
    await settle()
    sleeper.cancel()
    await settle()
    clock.step(10)
    await clock.sleep(0)


async def test_work_is_repeated_at_its_interval_and_outlives_its_failures(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    clock.hold(0)
    background = Background(clock)
    rounds: list[int] = []
    errors_left: list[Exception] = [ValueError("nobody foresaw it"), KafkaStorageError("the disk is gone")]

    async def work() -> None:
        rounds.append(clock())
        if errors_left:
            raise errors_left.pop()

    background.every("the work", lambda: 50, work)
    background.start()
    await settle()
    for _ in range(4):
        clock.step(50)
        await settle()
    assert rounds == [50, 100, 150, 200]
    assert [record.getMessage() for record in caplog.records] == [
        "the work: KAFKA_STORAGE_ERROR (56, retriable): the disk is gone",
        "the work went wrong",
    ]
    await background.stop()
    clock.step(1000)
    await settle()
    assert len(rounds) == 4


async def test_who_sleeps_when_the_clock_is_set_back_sleeps_no_longer_for_it() -> None:
    clock = Clock()
    clock.hold(1_000_000)
    sleeper = asyncio.create_task(clock.sleep(100))
    await settle()
    clock.step(60)
    clock.hold(at_ms=5)
    clock.step(39)
    await settle()
    assert not sleeper.done()
    clock.step(1)
    await asyncio.wait_for(sleeper, 10)


async def test_work_has_settled_when_every_due_round_is_over_or_waits_for_the_clock() -> None:
    clock = Clock()
    clock.hold(0)
    background = Background(clock)
    done: list[str] = []
    may_end = asyncio.Event()

    async def slow() -> None:
        await may_end.wait()
        done.append("slow")

    async def waits_within() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(clock.sleep(1000))
        done.append("waits within")

    background.every("quick", lambda: 50, lambda: done.append("quick"))
    background.every("slow", lambda: 100, slow)
    background.every("waits within", lambda: 100, waits_within)
    background.start()
    await background.settled()
    clock.step(50)
    await background.settled()
    assert done == ["quick"]
    clock.step(500)
    settled = asyncio.create_task(background.settled())
    await settle()
    assert not settled.done()
    may_end.set()
    await asyncio.wait_for(settled, 10)
    assert done == ["quick", "quick", "slow"]
    clock.step(1000)
    await background.settled()
    assert sorted(done) == ["quick", "quick", "quick", "slow", "slow", "waits within"]
    await background.stop()
