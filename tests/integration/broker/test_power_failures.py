"""A power failure while a producer sends: acknowledged records are stored once, in order; the producer continues.

KCLIENT_POWER_FAILURES says how many times the power goes.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections import defaultdict
from functools import partial

import pytest

from kclient import Consumer, Producer, TopicPartition
from kclient.producer.future import RecordFuture
from refbroker.testing import RefBroker, SimulatedDisk
from tests.support.patience import CHANGE, GUARD

FAILURES = int(os.environ.get("KCLIENT_POWER_FAILURES", "10"))
PARTITIONS = 3
SETTINGS = {
    "log.flush.interval.messages": "1",
    "log.segment.bytes": "1048576",
    "log.index.interval.bytes": "500",
    "log.segment.delete.delay.ms": "0",
    "auto.create.topics.enable": "false",
}


class Acknowledged:
    """The results of the producer's records: offset by number, for each partition."""

    def __init__(self) -> None:
        self.offsets: dict[int, dict[int, int]] = defaultdict(dict)
        self.count = 0
        self.changed = threading.Condition()

    def on_done(self, number: int, done: RecordFuture) -> None:
        with self.changed:
            if done.exception() is None:
                metadata = done.result()
                self.offsets[metadata.partition][number] = metadata.offset
            self.count += 1
            self.changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.count >= count, CHANGE), f"{self.count} of {count} were answered"


def send_while_the_power_fails(kafka: RefBroker, producer: Producer, rng: random.Random) -> Acknowledged:
    told, sent = Acknowledged(), 0
    for _ in range(FAILURES):
        ahead = rng.randrange(1, 120)
        kind = rng.choice(("kill", "kill", "disk", "clean"))
        for _ in range(ahead):
            number, sent = sent, sent + 1
            value = b"%08d" % number + bytes(rng.randrange(8000))
            future = producer.send("orders", value, partition=number % PARTITIONS)
            future.add_done_callback(partial(told.on_done, number))
        if kind == "disk":
            # In the middle of whatever the broker does, with all its logs.
            kafka.disk.fail(after=rng.randrange(200), error=errno.EIO)
        else:
            told.wait_for(sent - rng.randrange(ahead + 1))
        if kind == "clean":
            kafka.stop()
        kafka.lose_power(rng.randrange(1 << 30))
        kafka.start()
    producer.flush(CHANGE)
    told.wait_for(sent)
    assert sum(map(len, told.offsets.values())) == sent
    return told


@pytest.mark.timeout(GUARD + 3 * FAILURES)
def test_what_was_acknowledged_and_flushed_is_there_once_and_in_order(rng: random.Random) -> None:
    with RefBroker(disk=SimulatedDisk(), settings=SETTINGS) as kafka:
        kafka.create_topic("orders", PARTITIONS)
        with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0, batch_size=20000) as producer:
            told = send_while_the_power_fails(kafka, producer, rng)
        for partition in range(PARTITIONS):
            with Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
                where = TopicPartition("orders", partition)
                consumer.assign([where])
                end = consumer.end_offsets([where])[where]
                found: dict[int, int] = {}
                while consumer.position(where) < end:
                    found |= {record.offset: int(record.value[:8]) for record in consumer.poll(timeout=1.0)}
            assert list(found.values()) == sorted(told.offsets[partition])
            assert found == {offset: number for number, offset in told.offsets[partition].items()}
