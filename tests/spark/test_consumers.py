"""Consumers that are kept: who gets which, and when one is closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kclient.spark.consumers import IDLE_SECONDS, MOST_IDLE, ConsumerCache
from kclient.spark.options import ReadOptions
from kclient.types import TopicPartition
from tests.spark.conftest import Clock

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeConsumer:
    """Records what it receives."""

    def __init__(self, options: ReadOptions) -> None:
        self.client = options.client
        self.partitions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.closed = False

    def assignment(self) -> set[TopicPartition]:
        return set(self.partitions)

    def position(self, partition: TopicPartition, timeout: float) -> int:
        assert timeout == 0
        return self.partitions[partition]

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused |= set(partitions)

    def close(self, timeout: float) -> None:
        assert not self.closed
        self.closed = True


@pytest.fixture
def cache(clock: Clock) -> Iterator[ConsumerCache]:
    cache = ConsumerCache(make=FakeConsumer, clock=clock)  # type: ignore[arg-type]
    yield cache
    cache.close()


def options(**client: str) -> ReadOptions:
    return ReadOptions(client={"bootstrap.servers": "x:1", **client}, subscribe=("t",))


def leave_at(cache: ConsumerCache, *places: dict[TopicPartition, int]) -> list[Any]:
    """Consumers that were left at these places, in this order."""
    with ExitStack() as stack:
        consumers: list[Any] = [stack.enter_context(cache.borrow(options())) for _ in places]
        for consumer, place in zip(consumers, places, strict=True):
            consumer.partitions = place
    return consumers


def test_a_consumer_is_lent_again_with_the_same_options(cache: ConsumerCache) -> None:
    with cache.borrow(options()) as first:
        pass
    with cache.borrow(options()) as second, cache.borrow(options()) as third:
        assert second is first
        assert third is not first
    with cache.borrow(options(**{"isolation.level": "read_committed"})) as other:
        assert other not in (first, third)


def test_one_that_stands_where_the_task_begins_is_preferred(cache: ConsumerCache) -> None:
    # Given back in the reverse order.
    there, same, other, bare = leave_at(cache, {A: 5}, {A: 7}, {B: 5}, {})
    for start, expected in ((5, there), (7, same)):
        with cache.borrow(options(), A, start) as consumer:
            assert consumer is expected
    with cache.borrow(options(), B, 1) as consumer:
        assert consumer is other
    assert bare.closed is False


def test_an_idle_one_is_paused(cache: ConsumerCache) -> None:
    (consumer,) = leave_at(cache, {A: 5})
    assert consumer.paused == {A}


def test_a_consumer_whose_borrower_failed_is_closed(cache: ConsumerCache) -> None:
    with pytest.raises(ValueError, match="broken"), cache.borrow(options()) as consumer:
        raise ValueError("broken")
    assert consumer.closed  # type: ignore[attr-defined]
    with cache.borrow(options()) as other:
        assert other is not consumer


def test_a_consumer_whose_borrower_stops_early_is_kept(cache: ConsumerCache) -> None:
    def rows() -> Iterator[Any]:
        with cache.borrow(options()) as consumer:
            yield consumer
            yield consumer

    reading = rows()
    consumer = next(reading)
    reading.close()  # type: ignore[attr-defined]
    with cache.borrow(options()) as same:
        assert same is consumer


def test_one_that_is_idle_for_long_is_closed_when_another_comes_back(cache: ConsumerCache, clock: Clock) -> None:
    old, young = leave_at(cache, {A: 1}, {B: 1})
    clock.now += IDLE_SECONDS - 1
    with cache.borrow(options(), B, 1):
        pass
    assert not old.closed
    clock.now += 2
    with cache.borrow(options(), B, 1):
        pass
    assert (old.closed, young.closed) == (True, False)


def test_no_more_than_so_many_are_idle(cache: ConsumerCache) -> None:
    consumers = leave_at(cache, *({A: number} for number in range(MOST_IDLE + 3)))
    # The last to be taken is the first to come back.
    assert [consumer.closed for consumer in consumers] == [False] * MOST_IDLE + [True] * 3


def test_closing_closes_the_idle_ones(cache: ConsumerCache) -> None:
    consumers = leave_at(cache, {A: 1}, {B: 1})
    cache.close()
    assert all(consumer.closed for consumer in consumers)
