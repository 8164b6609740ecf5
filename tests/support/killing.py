"""`refbroker run` killed with SIGKILL again and again while a producer sends: acknowledged records must survive."""

from __future__ import annotations

import os
import random
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from kclient import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import free_ports
from tests.support.patience import GUARD, PROCESS

KILLS = int(os.environ.get("KCLIENT_KILLS", "5"))
TIMEOUT = GUARD + 15 * KILLS
PARTITIONS = 3
SETTINGS = {
    "log.flush.interval.messages": "1",
    "log.segment.bytes": "1048576",
    "auto.create.topics.enable": "false",
}

Note = Callable[[int, int, int], None]


class Load:
    """A producer whose records are counted as they are acknowledged.

    Parameters:
        send: sends a record to a partition, and calls `note` with its number, partition and offset once it is stored.
    """

    def __init__(self, send: Callable[[int, bytes, int, Note], None]) -> None:
        self._send = send
        self._acknowledged = 0
        self._changed = threading.Condition()
        self.sent = 0
        self.offsets: dict[int, dict[int, int]] = defaultdict(dict)

    def send(self, value: bytes) -> None:
        number, self.sent = self.sent, self.sent + 1
        self._send(number, b"%08d" % number + value, number % PARTITIONS, self._note)

    def _note(self, number: int, partition: int, offset: int) -> None:
        with self._changed:
            assert number not in self.offsets[partition]
            self.offsets[partition][number] = offset
            self._acknowledged += 1
            self._changed.notify_all()

    def wait_for(self, count: int, serve: Callable[[], object]) -> None:
        """Wait until so many records are acknowledged; `serve` is called repeatedly meanwhile."""
        with self._changed:
            for _ in range(int(PROCESS * 10)):
                if self._acknowledged >= count:
                    return
                self._changed.release()
                try:
                    serve()
                finally:
                    self._changed.acquire()
                self._changed.wait(0.05)
        raise AssertionError(f"{self._acknowledged} of {count} records were acknowledged")


def kill_under_load(
    data: Path, rng: random.Random, kills: int, producer: Callable[[str], tuple[Load, Callable[[], object]]]
) -> int:
    """Kill the broker repeatedly, check its records at the end, and return how many there are.

    Parameters:
        data: the data directory.
        producer: returns, for a broker's address, a load and a function that runs its callbacks.
    """
    (port,) = free_ports(1)
    with BrokerProcess(data, port=port, settings=SETTINGS) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("orders", num_partitions=PARTITIONS)])
        load, serve = producer(servers)
        broker.stop(kill=True)
    for _ in range(kills - 1):
        with BrokerProcess(data, port=port, settings=SETTINGS) as broker:
            ahead = rng.randrange(1, 300)
            for _ in range(ahead):
                load.send(bytes(rng.randrange(5000)))
            load.wait_for(load.sent - rng.randrange(ahead + 1), serve)
            broker.stop(kill=True)
    with BrokerProcess(data, port=port, settings=SETTINGS):
        load.wait_for(load.sent, serve)
        for partition in range(PARTITIONS):
            check_partition(servers, partition, load.offsets[partition])
    return load.sent


def check_partition(servers: str, partition: int, acknowledged: dict[int, int]) -> None:
    """Check that each acknowledged record is there once, at its acknowledged offset, in the order of sending."""
    where = TopicPartition("orders", partition)
    found: dict[int, int] = {}
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        end = consumer.end_offsets([where])[where]
        while consumer.position(where) < end:
            found |= {record.offset: int(record.value[:8]) for record in consumer.poll(timeout=1.0)}
    assert list(found.values()) == sorted(acknowledged)
    assert found == {offset: number for number, offset in acknowledged.items()}


def kclient_load(producer: Producer) -> Load:
    def send(number: int, value: bytes, partition: int, note: Note) -> None:
        future = producer.send("orders", value, partition=partition)
        future.add_done_callback(lambda done: note(number, partition, done.result().offset))

    return Load(send)
