"""Compaction under a running producer and consumers, and a topic that stays small whatever is written to it."""

from __future__ import annotations

import concurrent.futures
import random
import threading
from typing import Any

import pytest

from kclient import Consumer, Producer, TopicPartition
from refbroker.testing import RefBroker
from tests.support.patience import ANSWER, CHANGE
from tests.support.reading import read_up_to
from tests.support.waiting import wait_until

PLACE = TopicPartition("states", 0)
SEGMENT_RECORDS = 2000
"""So many records of this test fill a segment."""


def broker(**settings: Any) -> RefBroker:
    options = {
        "log_cleanup_policy": "compact",
        "log_cleaner_backoff_ms": 5,
        "log_cleaner_min_cleanable_ratio": 0.01,
        "log_segment_delete_delay_ms": 20,
    }
    return RefBroker(**{**options, **settings})


def read_all(kafka: RefBroker) -> dict[bytes, bytes | None]:
    """The state that a consumer builds which reads the topic from its start."""
    state: dict[bytes, bytes | None] = {}
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([PLACE])
        for record in read_up_to(consumer, consumer.end_offsets([PLACE])):
            assert record.key is not None
            state[record.key] = record.value
    return state


def passes(kafka: RefBroker) -> int:
    return kafka.call(lambda running: running.parts.cleaner.stats.passes)


def test_a_producer_and_consumers_notice_nothing_but_that_older_records_are_gone(rng: random.Random) -> None:
    expected: dict[bytes, bytes] = {}
    seen: list[int] = []
    newest: dict[bytes, int] = {}
    stop = threading.Event()

    def follow(consumer: Consumer, *, start_again: bool) -> None:
        while not stop.is_set() or consumer.position(PLACE) < consumer.end_offsets([PLACE])[PLACE]:
            last = -1
            for record in consumer.poll(timeout=0.2):
                assert record.offset > last
                last = record.offset
                if not start_again:
                    seen.append(record.offset)
                    assert record.key is not None
                    newest[record.key] = record.offset
            if start_again and not stop.is_set() and consumer.position(PLACE) == consumer.end_offsets([PLACE])[PLACE]:
                consumer.seek_to_beginning(PLACE)

    with broker(log_segment_bytes=1 << 20, log_index_interval_bytes=500) as kafka:
        kafka.create_topic("states")
        options: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, "auto_offset_reset": "earliest"}
        with Consumer(**options) as keeps_up, Consumer(**options, max_partition_fetch_bytes=50_000) as starts_again:
            keeps_up.assign([PLACE])
            starts_again.assign([PLACE])
            followers = concurrent.futures.ThreadPoolExecutor(2)
            following = [
                followers.submit(follow, keeps_up, start_again=False),
                followers.submit(follow, starts_again, start_again=True),
            ]
            with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type="lz4", linger_ms=1) as producer:
                number = 0
                while (done := passes(kafka)) < 4:
                    for _ in range(2 * SEGMENT_RECORDS):
                        key, value = b"%d" % rng.randrange(300), b"%d " % number + rng.randbytes(500)
                        producer.send("states", value, key=key, partition=0)
                        expected[key] = value
                        number += 1
                    producer.flush(timeout=ANSWER)
                    # On a busy machine the producer would run away from the cleaner.
                    wait_until(lambda done=done: passes(kafka) > done)  # type: ignore[misc]
            stop.set()
            for follower in following:
                follower.result(timeout=CHANGE)
            followers.shutdown()
        assert seen == sorted(set(seen))
        assert seen[-1] == number - 1
        assert read_all(kafka) == expected
        log = kafka.log("states")
        wait_until(lambda: log.size_in_bytes() < 3 << 20)
        assert set(newest) == set(expected)
        kafka.restart()
        assert read_all(kafka) == expected


def test_tombstones_go_when_the_time_has_come() -> None:
    with broker(log_cleaner_delete_retention_ms=3_600_000) as kafka:
        kafka.create_topic("states")

        def write(key: bytes, value: bytes | None) -> None:
            with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                producer.send("states", value, key=key, partition=0).result(timeout=ANSWER)

        write(b"gone", b"1")
        write(b"gone", None)
        for hours in range(3):
            write(b"stays %d" % hours, b"1")
            before = passes(kafka)
            kafka.call(lambda running: running.parts.partitions.find("states", 0).log.roll())
            kafka.clock.step(1)
            wait_until(lambda before=before: passes(kafka) > before)  # type: ignore[misc]
            assert (b"gone" in read_all(kafka)) is (hours < 2), hours
            kafka.clock.step(3600 * hours)


@pytest.mark.not_simulated("is about volume: a million records take a simulation minutes")
@pytest.mark.slow
def test_a_million_writes_of_one_key_stay_a_small_topic() -> None:
    with broker(log_segment_bytes=4 << 20, log_cleaner_backoff_ms=50) as kafka:
        kafka.create_topic("states")
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(1_000_000):
                producer.send("states", b"value %d" % number, key=b"the only key", partition=0)
        log = kafka.log("states")
        # What is left are the active segment, and the last record of what was cleaned.
        wait_until(lambda: log.size_in_bytes() <= 5 << 20, CHANGE)
        assert len(log.segments) < 20
        kafka.restart()
        assert read_all(kafka) == {b"the only key": b"value 999999"}
        assert kafka.log("states").log_end_offset == 1_000_000
