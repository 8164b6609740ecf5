"""The async consumer on both loops: what is awaited, cancelled, interrupted and owned."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kclient.consumer import AsyncConsumer
from kclient.errors import ConcurrentUseError, DeserializationError, WakeupError
from kclient.types import OffsetAndMetadata, TopicPartition
from tests.support.patience import ANSWER
from tests.support.seeding import Seeder
from tests.support.typed import must

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def consumer_of(bootstrap_servers: str, *topics: str, **options: Any) -> AsyncConsumer:
    return AsyncConsumer(*topics, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", **options)


async def read(consumer: AsyncConsumer, count: int, **options: Any) -> list[Any]:
    found: list[Any] = []
    with anyio.fail_after(ANSWER):
        while len(found) < count:
            found.extend(await consumer.poll(1.0, **options))
    return found


async def test_iteration_gives_every_record(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    for start in range(0, 500, 50):
        seed.append(topic, numbers(start, start + 50))
    seen = []
    async with consumer_of(bootstrap_servers, topic) as consumer:
        async for record in consumer:
            seen.append(record.value)
            if len(seen) == 500:
                break
        assert await consumer.position((topic, 0)) == 500
    assert seen == numbers(0, 500)


async def test_poll_and_offsets(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    seed.create(topic, 2)
    for partition in range(2):
        seed.append(topic, numbers(0, 50), partition=partition)
    tp = TopicPartition(topic, 0)
    async with consumer_of(bootstrap_servers) as consumer:
        consumer.assign([tp])
        assert [record.value for record in await read(consumer, 50, max_records=20)] == numbers(0, 50)
        assert await consumer.end_offsets([tp]) == {tp: 50}
        assert await consumer.beginning_offsets([tp]) == {tp: 0}
        found = await consumer.offsets_for_times({tp: 1_600_000_000_010})
        assert must(found[tp]).offset == 10
        assert len(await consumer.partitions_for(topic)) == 2
        assert topic in await consumer.list_topics()
        consumer.seek(tp, 45)
        assert await consumer.position(tp) == 45
        assert [record.offset for record in await read(consumer, 5)] == list(range(45, 50))


async def test_cancelled_reader_loses_nothing(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    for start in range(0, 300, 3):
        seed.append(topic, numbers(start, start + 3))
    seen: list[bytes] = []
    async with consumer_of(bootstrap_servers, topic, max_partition_fetch_bytes=300) as consumer:
        with anyio.fail_after(ANSWER):
            while len(seen) < 300:
                with anyio.move_on_after(0.001):
                    async for record in consumer:
                        seen.append(record.value)  # noqa: PERF401 - what came before a cancellation counts
                with anyio.move_on_after(0.001):
                    seen += [record.value for record in await consumer.poll(1.0, max_records=2)]
    assert seen == numbers(0, 300)


async def test_other_tasks_run_while_it_waits(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, numbers(0, 10))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0.001)
            turns += 1

    async with consumer_of(bootstrap_servers, topic) as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        await read(consumer, 10)
        before = turns
        assert len(await consumer.poll(0.1)) == 0
        assert turns > before
        tasks.cancel_scope.cancel()


async def read_into(consumer: AsyncConsumer, values: list[bytes], count: int) -> None:
    """Poll until there are so many values."""
    while len(values) < count:
        values += [record.value for record in await consumer.poll(ANSWER)]


async def test_wakeup_and_second_task(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    raised: list[BaseException] = []

    async def wait_in_poll(consumer: AsyncConsumer) -> None:
        try:
            await consumer.poll(20.0)
        except WakeupError as error:
            raised.append(error)

    async with consumer_of(bootstrap_servers, topic) as consumer:
        with anyio.fail_after(ANSWER):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait_in_poll, consumer)
                await anyio.wait_all_tasks_blocked()
                with pytest.raises(ConcurrentUseError):
                    await consumer.poll(0.0)
                with pytest.raises(ConcurrentUseError):
                    consumer.assign([(topic, 0)])
                consumer.wakeup()
        assert len(raised) == 1


async def test_tasks_share_a_consumer_while_one_of_them_waits_for_records(
    bootstrap_servers: str, seed: Seeder, topic: str
) -> None:
    seed.create(topic)
    seed.append(topic, [b"0", b"1", b"2"])
    tp = TopicPartition(topic, 0)
    values: list[bytes] = []

    async def read_on(consumer: AsyncConsumer) -> None:
        async for record in consumer:
            values.append(record.value)
            if len(values) == 5:
                return

    async with consumer_of(bootstrap_servers, topic, group_id=f"g-{topic}") as consumer:
        with anyio.fail_after(ANSWER):
            await read_into(consumer, values, 3)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_on, consumer)
                await anyio.wait_all_tasks_blocked()
                await consumer.commit({tp: 2})
                assert (await consumer.committed([tp]))[tp] == OffsetAndMetadata(2)
                assert await consumer.position(tp) == 3
                assert await consumer.end_offsets([tp]) == {tp: 3}
                assert await consumer.beginning_offsets([tp]) == {tp: 0}
                assert topic in await consumer.list_topics()
                assert [info.partition for info in await consumer.partitions_for(topic)] == [0]
                consumer.pause(tp)
                assert consumer.paused() == {tp}
                consumer.resume(tp)
                consumer.seek(tp, 1)
        assert values == [b"0", b"1", b"2", b"1", b"2"]


async def test_iteration_survives_an_exception(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    seed.create(topic)
    seed.append(topic, [b"1", b"x", b"3"])
    async with consumer_of(bootstrap_servers, topic, value_deserializer=int) as consumer:
        records = aiter(consumer)
        assert (await anext(records)).value == 1
        with pytest.raises(DeserializationError):
            await anext(records)
        consumer.seek((topic, 0), 2)
        assert (await anext(records)).value == 3
