"""What a consumer of its own finds in a topic of the broker under test."""

from __future__ import annotations

from typing import Any

from kclient import Consumer, TopicPartition
from kclient.types import ConsumerRecord
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until


def read_all(bootstrap_servers: str, topic: str, **options: Any) -> list[ConsumerRecord]:
    """All that is there when it is called, ordered by partition and offset.

    Parameters:
        options: of the consumer.
    """
    with Consumer(bootstrap_servers=bootstrap_servers, **options) as consumer:
        partitions = _partitions(consumer, topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        records: list[ConsumerRecord] = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            records += consumer.poll(0.1, max_records=10_000)
    return sorted(records, key=lambda record: (record.partition, record.offset))


def committed(bootstrap_servers: str, topic: str) -> list[bytes]:
    """The values that a reader of committed records finds, sorted; no transaction may stay open that holds it up."""
    records = committed_records(bootstrap_servers, topic)
    return sorted(record.value for record in records if record.value is not None)


def committed_records(bootstrap_servers: str, topic: str) -> list[ConsumerRecord]:
    """The records themselves, ordered by partition and offset.

    Markers are written after the end of a transaction was answered: until all of them are there, such a reader is told
    that the topic ends before them.
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
