"""Old segments go while a producer writes and consumers read: nobody fails, and what is left is whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kclient import Consumer, Producer, TopicPartition
from kclient.errors import OffsetOutOfRangeError
from refbroker.testing import RefBroker
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until

SEGMENT_BYTES = 1 << 20
VALUE = b"v" * 1000
RECORDS = 8_000


def broker(**settings: Any) -> RefBroker:
    return RefBroker(log_segment_bytes=SEGMENT_BYTES, log_retention_check_interval_ms=20, **settings)


def log_start(kafka: RefBroker) -> int:
    return kafka.log("orders").log_start_offset


def produce(kafka: RefBroker, count: int, first: int = 0) -> None:
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(first, first + count):
            producer.send("orders", VALUE, key=str(number).encode(), partition=0)


def test_a_fast_consumer_misses_nothing_and_a_slow_one_skips_deleted_records() -> None:
    with broker(log_retention_bytes=2 * SEGMENT_BYTES, log_segment_delete_delay_ms=50) as kafka:
        kafka.create_topic("orders")
        seen: list[int] = []
        options: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, "auto_offset_reset": "earliest"}
        with (
            Consumer(**options) as fast,
            Consumer(**options, prefetch_max_bytes=100_000) as slow,
        ):
            slow.assign([TopicPartition("orders", 0)])
            fast.assign([TopicPartition("orders", 0)])

            def follow() -> None:
                while len(seen) < RECORDS:
                    seen.extend(int(record.key or b"") for record in fast.poll(timeout=1.0))

            follower = threading.Thread(target=follow)
            follower.start()
            for first in range(0, RECORDS, 500):
                produce(kafka, 500, first)
                # So far ahead of retention nobody is who is slower than the producer.
                wait_until(lambda reached=first + 500: len(seen) >= reached)  # type: ignore[misc]
                if first == 0:
                    assert next(iter(slow.poll(timeout=5.0))).offset == 0
            follower.join(ANSWER)
            assert seen == list(range(RECORDS))
            wait_until(lambda: log_start(kafka) > 0)
            wait_until(lambda: kafka.log("orders").size_in_bytes() <= 3 * SEGMENT_BYTES)
            # What the slow one still holds comes first; then it is sent to the new start, and on to the end.
            slow_seen: list[int] = []
            while not slow_seen or slow_seen[-1] < RECORDS - 1:
                slow_seen.extend(record.offset for record in slow.poll(timeout=1.0))
            assert slow_seen == sorted(set(slow_seen))
            assert len(slow_seen) < RECORDS - SEGMENT_BYTES // len(VALUE), "it was not left behind at all"


def test_time_moves_on_and_the_log_is_emptied_under_a_consumer(tmp_path: Path) -> None:
    with broker(data_dir=tmp_path, durable=False, log_retention_hours=1, log_segment_delete_delay_ms=1000) as kafka:
        kafka.create_topic("orders")
        produce(kafka, 3000)
        step(kafka, 3_600_000 - 100_000)
        assert log_start(kafka) == 0
        step(kafka, 200_000)
        wait_until(lambda: log_start(kafka) == 3000)
        folder = tmp_path / "orders-0"
        step(kafka, 2000)
        wait_until(lambda: not list(folder.glob("*.deleted")))
        with Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="none") as consumer:
            place = TopicPartition("orders", 0)
            consumer.assign([place])
            consumer.seek(place, 2999)
            with pytest.raises(OffsetOutOfRangeError):
                poll_until(consumer, lambda: False)
            assert consumer.beginning_offsets([place]) == consumer.end_offsets([place]) == {place: 3000}


def step(kafka: RefBroker, ms: int) -> None:
    """Move the broker's clock, as time would."""
    kafka.call(lambda running: running.parts.clock.step(ms))


def poll_until(consumer: Consumer, done: Callable[[], bool]) -> None:
    for _ in range(20):
        consumer.poll(timeout=1.0)
        if done():
            return
    raise AssertionError("it neither failed nor ended")
