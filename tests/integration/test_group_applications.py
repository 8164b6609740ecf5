"""Applications that fail their group: tasks cancelled wherever they wait, an event loop that is paused."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import CommitFailedError, RebalanceInProgressError
from tests.integration.consumers import EVERY_WAY, Group, fill
from tests.support import clock
from tests.support.patience import ANSWER
from tests.support.seeding import Seeder


class CancelledAt:
    """Awaits a coroutine, and cancels it at its n-th suspension, counted from 0, as a task that is cancelled there.

    Attributes:
        cancelled: whether it got so far.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], suspension: int) -> None:
        self._coroutine = coroutine
        self._suspension = suspension
        self.cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        cancelled = anyio.get_cancelled_exc_class()
        proceed: Callable[[], Any] = partial(self._coroutine.send, None)
        step = proceed
        for suspension in itertools.count():
            try:
                waits_for = step()
            except StopIteration as done:
                return done.value
            except cancelled:
                assert self.cancelled
                return None
            if suspension == self._suspension:
                self.cancelled = True
                step = partial(self._coroutine.throw, cancelled())
            else:
                step = proceed
                yield waits_for
        raise AssertionError("not reached")


@EVERY_WAY
async def test_call_that_is_cancelled_at_any_of_its_suspensions_loses_and_doubles_nothing(
    group: Group, seed: Seeder, topic: str
) -> None:
    seed.create(topic, partitions=2)
    expected = fill(seed, topic, 2, 0, 200)
    values: list[bytes | None] = []
    cancelled: Counter[str] = Counter()
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "max_poll_records": 7, **group.way}

    async def poll(consumer: AsyncConsumer) -> None:
        values.extend(record.value for record in await consumer.poll(0.1))

    async def iterate(consumer: AsyncConsumer) -> None:
        async for record in consumer:
            values.append(record.value)
            if record.offset % 5 == 4:
                break

    async def commit(consumer: AsyncConsumer) -> None:
        with suppress(RebalanceInProgressError, CommitFailedError):
            await consumer.commit()

    async def committed(consumer: AsyncConsumer) -> None:
        await consumer.committed(consumer.assignment())

    async def position(consumer: AsyncConsumer) -> None:
        for tp in consumer.assignment():
            await consumer.position(tp)

    servers = group.bootstrap_servers
    with anyio.fail_after(ANSWER):
        # From its very first call, joining included, and over a rebalance in which another one comes and goes.
        async with AsyncConsumer(topic, bootstrap_servers=servers, group_id=topic, **options) as consumer:
            for suspension in itertools.count():
                if len(values) >= len(expected) // 2:
                    break
                for call in (poll, iterate, commit, committed, position):
                    attempt = CancelledAt(call(consumer), suspension % 4)
                    await attempt
                    cancelled[call.__name__] += attempt.cancelled
            async with AsyncConsumer(topic, bootstrap_servers=servers, group_id=topic, **options) as other:
                for suspension in itertools.count():
                    if (other.assignment() and len(values) > 3 * len(expected) // 4) or len(values) >= len(expected):
                        break
                    for each, call in itertools.product((consumer, other), (poll, commit)):
                        attempt = CancelledAt(call(each), suspension % 4)
                        await attempt
                        cancelled[call.__name__] += attempt.cancelled
            while len(values) < len(expected):
                await poll(consumer)
    assert Counter(values) == Counter(expected)
    assert min(cancelled[name] for name in ("poll", "iterate", "commit", "committed")) > 0, cancelled


@pytest.mark.anyio
@EVERY_WAY
async def test_tasks_that_are_cancelled_at_any_time_lose_and_double_nothing(
    group: Group, seed: Seeder, topic: str, rng: random.Random
) -> None:
    seed.create(topic, partitions=4)
    expected = fill(seed, topic, 4, 0, 300)
    values: list[bytes | None] = []
    cancelled = 0

    async def read(consumer: AsyncConsumer, is_enough: Callable[[], bool]) -> None:
        nonlocal cancelled
        while not is_enough():
            with anyio.move_on_after(rng.choice([0.0, 0.0005, 0.003, 0.05])) as scope:
                if rng.random() < 0.5:
                    values.extend(record.value for record in await consumer.poll(0.05, max_records=2))
                else:
                    async for record in consumer:
                        values.append(record.value)
                        if record.offset % 3 == 0:
                            break
            cancelled += scope.cancelled_caught
        # Who closes within an iteration has not said that the last record is processed, and leaves it to others.
        values.extend(record.value for record in await consumer.poll(0.0))

    options: dict[str, Any] = {"auto_offset_reset": "earliest", **group.way}
    servers = group.bootstrap_servers
    with anyio.fail_after(ANSWER):
        async with AsyncConsumer(topic, bootstrap_servers=servers, group_id=topic, **options) as first:
            await read(first, lambda: len(values) >= 200)
            async with (
                AsyncConsumer(topic, bootstrap_servers=servers, group_id=topic, **options) as second,
                anyio.create_task_group() as tasks,
            ):
                enough: int | None = None

                def is_enough() -> bool:
                    """Whether both have read; until the second one may, there is something left for the first one."""
                    nonlocal enough
                    if enough is None and second.assignment():
                        enough = len(values) + 200
                    if len(values) > len(expected) - 400 and (enough is None or enough > len(expected) - 200):
                        expected.extend(fill(seed, topic, 4, len(expected), 100))
                    return enough is not None and len(values) >= enough

                tasks.start_soon(read, first, is_enough)
                tasks.start_soon(read, second, is_enough)
            await read(first, lambda: len(values) >= len(expected))
    assert Counter(values) == Counter(expected)
    assert cancelled > 5


@pytest.mark.slow
async def test_a_member_with_a_blocked_event_loop_stays_in_the_group(group: Group, seed: Seeder, topic: str) -> None:
    seed.create(topic, partitions=2)
    fill(seed, topic, 2, 0, 20)
    # Of both protocols, as QUICK and the settings of the brokers have it.
    session = 6.0
    options: dict[str, Any] = {"auto_offset_reset": "earliest", **group.way}
    async with AsyncConsumer(topic, bootstrap_servers=group.bootstrap_servers, group_id=topic, **options) as consumer:
        values: list[bytes | None] = []
        while len(values) < 10:
            values += [record.value for record in await consumer.poll(1.0, max_records=5)]
        before = consumer.group_metadata()
        clock.sleep(session + 1.5)
        while len(values) < 40:
            values += [record.value for record in await consumer.poll(1.0)]
        assert consumer.group_metadata() == before
        assert len(set(values)) == 40
