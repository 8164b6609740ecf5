"""Interceptors of consumers: what they are shown of records and commits, and that their failures change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kclient.consumer import AsyncConsumer, Consumer, Records
from kclient.types import OffsetAndMetadata, TopicPartition
from tests.support.patience import ANSWER
from tests.support.reading import read
from tests.support.seeding import Seeder

COUNT = 20


class Audit:
    """Notes offsets."""

    def __init__(self) -> None:
        self.consumed: list[int] = []
        self.committed: list[int] = []

    def on_consume(self, records: Records) -> None:
        self.consumed += [record.offset for record in records]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed += [offset.offset for offset in offsets.values()]


class Broken:
    """Fails, one way and the other."""

    def on_consume(self, records: Records) -> None:
        raise RuntimeError("not my day")

    async def on_commit(self, offsets: Any) -> None:
        raise AssertionError("nothing awaits this")


def options(bootstrap_servers: str, topic: str, *interceptors: Any) -> Any:
    return {
        "bootstrap_servers": bootstrap_servers,
        "group_id": f"group-{topic}",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "interceptors": interceptors,
    }


def fill(seed: Seeder, topic: str) -> TopicPartition:
    seed.create(topic, partitions=1)
    seed.append(topic, [b"%d" % number for number in range(COUNT)])
    return TopicPartition(topic, 0)


def test_polled_records_and_commits_are_shown_once(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    tp, audit = fill(seed, topic), Audit()
    with Consumer(topic, **options(bootstrap_servers, topic, audit)) as consumer:
        found = [record.offset for record in read(consumer, COUNT)]
        assert audit.consumed == found == list(range(COUNT))
        consumer.commit({tp: 5})
        assert audit.committed == [5]
        consumer.commit_async({tp: 7}, lambda offsets, error: audit.committed.append(-7))
        consumer.commit({})
        consumer.commit_async({tp: 9})
    assert audit.committed == [5, 7, -7, 9], "the interceptor comes before the callback, and close waits for both"


def test_automatic_commits_are_shown(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    fill(seed, topic)
    audit = Audit()
    automatic = {**options(bootstrap_servers, topic, audit), "enable_auto_commit": True}
    with Consumer(topic, **automatic) as consumer:
        read(consumer, COUNT)
    assert audit.committed[-1:] == [COUNT]


def test_a_loop_shows_each_record_as_it_is_handed_out(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    fill(seed, topic)
    audit = Audit()
    with Consumer(topic, **options(bootstrap_servers, topic, audit)) as consumer:
        for record in consumer:
            assert audit.consumed == list(range(record.offset + 1))
            if record.offset == COUNT - 1:
                break
    assert audit.consumed == list(range(COUNT))


def test_an_interceptor_that_fails_is_logged_and_nothing_else_changes(
    bootstrap_servers: str, seed: Seeder, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    tp, audit = fill(seed, topic), Audit()
    with Consumer(topic, **options(bootstrap_servers, topic, Broken(), audit)) as consumer:
        assert [record.offset for record in read(consumer, COUNT)] == list(range(COUNT))
        consumer.commit()
        assert consumer.committed([tp])[tp] == OffsetAndMetadata(COUNT, leader_epoch=0)
    assert (audit.consumed, audit.committed) == (list(range(COUNT)), [COUNT])
    assert "Broken.on_consume" in caplog.text
    assert "returned a coroutine, which nothing awaits; it did not run" in caplog.text


async def test_an_async_consumer_shows_them_in_its_event_loop(bootstrap_servers: str, seed: Seeder, topic: str) -> None:
    tp, audit = fill(seed, topic), Audit()
    async with AsyncConsumer(topic, **options(bootstrap_servers, topic, audit)) as consumer:
        async for record in consumer:
            if record.offset == COUNT - 1:
                break
        await consumer.commit({tp: 5}, timeout=ANSWER)
    assert (audit.consumed, audit.committed) == (list(range(COUNT)), [5])
