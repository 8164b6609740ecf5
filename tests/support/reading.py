"""Reads records with the consumer under test, or a whole topic with a consumer of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kclient import Consumer, TopicPartition
from kclient.types import ConsumerRecord
from tests.support import clock
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until


def read(
    consumer: Consumer, count: int, *, seconds: float = ANSWER, max_records: int | None = None
) -> list[ConsumerRecord]:
    """Poll until `count` records have arrived, and return them; the position is after the last one.

    Parameters:
        seconds: how long to poll before the test fails.
        max_records: the most records of one poll.
    """
    records: list[ConsumerRecord] = []
    deadline = clock.monotonic() + seconds
    while missing := count - len(records):
        assert clock.monotonic() < deadline, f"{len(records)} of {count} records came within {seconds:g} s"
        records += consumer.poll(0.5, max_records=min(missing, max_records or missing))
    return records


def read_up_to(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> list[ConsumerRecord]:
    """Poll until the position of each partition has reached its end, and return the records in the order of arrival.

    Parameters:
        ends: the offsets to reach; the consumer is assigned these partitions.
    """
    records: list[ConsumerRecord] = []
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        records += consumer.poll(0.1, max_records=10_000)
    return records


def read_all(bootstrap_servers: str, topic: str, **options: Any) -> list[ConsumerRecord]:
    """Return all records that a topic has now, ordered by partition and offset.

    Parameters:
        options: options of the consumer.
    """
    with Consumer(bootstrap_servers=bootstrap_servers, **options) as consumer:
        partitions = _partitions(consumer, topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        records = read_up_to(consumer, consumer.end_offsets(partitions))
    return sorted(records, key=lambda record: (record.partition, record.offset))


def committed(bootstrap_servers: str, topic: str) -> list[bytes]:
    """Return the values of committed records, sorted; no open transaction may hold the reader back."""
    records = committed_records(bootstrap_servers, topic)
    return sorted(record.value for record in records if record.value is not None)


def committed_records(bootstrap_servers: str, topic: str) -> list[ConsumerRecord]:
    """Return the committed records, ordered by partition and offset.

    The coordinator writes markers after it has answered EndTxn. Until all markers are written, the end offset of a
    committed reader is lower, so this waits until both isolation levels have the same end.
    """
    with (
        Consumer(bootstrap_servers=bootstrap_servers, isolation_level="read_committed") as held_up,
        Consumer(bootstrap_servers=bootstrap_servers) as free,
    ):
        partitions = _partitions(free, topic)
        wait_until(lambda: held_up.end_offsets(partitions) == free.end_offsets(partitions), ANSWER)
    return read_all(bootstrap_servers, topic, isolation_level="read_committed")


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
