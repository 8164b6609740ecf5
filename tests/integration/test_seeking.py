"""Seeks of a consumer whose fetches are under way: what was asked for the position before is never returned."""

from __future__ import annotations

import random

import pytest

from kclient.consumer import Consumer
from kclient.types import TopicPartition
from tests.support import clock
from tests.support.patience import ANSWER
from tests.support.seeding import Seeder

pytestmark = pytest.mark.kafka

RECORDS = 600


@pytest.fixture
def consumer(bootstrap_servers: str, seed: Seeder, topic: str) -> Consumer:
    """A consumer that needs many fetches for the records of its partition, each of which is its own offset."""
    seed.create(topic)
    for start in range(0, RECORDS, 3):
        seed.append(topic, [b"%d" % number for number in range(start, start + 3)])
    return Consumer(bootstrap_servers=bootstrap_servers, max_partition_fetch_bytes=300)


def test_records_after_a_seek_begin_at_its_offset(consumer: Consumer, topic: str, rng: random.Random) -> None:
    tp = TopicPartition(topic, 0)
    with consumer:
        consumer.assign([tp])
        for _ in range(40):
            offset = rng.randrange(RECORDS)
            consumer.seek(tp, offset)
            clock.sleep(rng.uniform(0.0, 0.005))
            if rng.random() < 0.3:
                # Nothing was returned of this place, so it must not count for the next one.
                continue
            found: list[int] = []
            deadline = clock.monotonic() + ANSWER
            while not found:
                assert clock.monotonic() < deadline, f"no record came from {tp} at offset {offset}"
                found = [record.offset for record in consumer.poll(0.01, max_records=rng.randrange(1, 20))]
            assert found == list(range(offset, offset + len(found)))
            assert consumer.position(tp) == found[-1] + 1
