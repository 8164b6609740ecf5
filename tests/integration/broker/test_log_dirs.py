"""Data directories of a broker that serves: moves under load, and the disk that it needs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kclient import Consumer, Producer, TopicPartition
from kclient.errors import KafkaStorageError
from kclient.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from refbroker.testing import RefBroker, SimulatedDisk
from tests.support.broker_process import BrokerProcess
from tests.support.patience import ANSWER
from tests.support.reading import read
from tests.support.typed import must
from tests.support.waiting import wait_until
from tests.support.wire import Wire

PARTITIONS = 3
ROUNDS = 6


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in ("one", "two", "three")]


@pytest.fixture
def broker(directories: list[Path]) -> Iterator[RefBroker]:
    with RefBroker(log_dirs=",".join(map(str, directories))) as broker:
        yield broker


def move(broker: RefBroker, topic: str, partition: int, directory: Path) -> None:
    wanted = AlterReplicaLogDirsRequest.AlterReplicaLogDir(
        path=str(directory),
        topics=[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[partition])],
    )
    with Wire(broker.bootstrap_servers) as wire:
        answer = wire.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), 2)
    assert [one.error_code for result in answer.results for one in result.partitions] == [0]


def place(broker: RefBroker, topic: str, partition: int) -> Path:
    def find(running: Any) -> Path:
        path: Path = running.parts.logs.directory_of(topic, partition).path
        return path

    return broker.call(find)


class Load:
    """A producer and a consumer that run until they are asked to stop."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.acknowledged: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.consumed: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._enough = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._produce, self._consume)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _run(self, work: Any) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised in the test's thread
            self._errors.append(error)

    def _produce(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap_servers, linger_ms=0) as producer:
            number = 0
            while not self._enough.is_set():
                futures = []
                for _ in range(200):
                    partition = number % PARTITIONS
                    value = b"%d" % (number // PARTITIONS) + b"." * 500
                    futures.append((partition, producer.send(self._topic, value, partition=partition)))
                    number += 1
                for partition, future in futures:
                    self.acknowledged[partition].append(future.result(ANSWER).offset)

    def _consume(self) -> None:
        with Consumer(bootstrap_servers=self._bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(self._topic, partition) for partition in range(PARTITIONS)])
            while not (self._enough.is_set() and self.complete):
                for record in consumer.poll(timeout=0.2):
                    value = record.value
                    assert value is not None
                    self.consumed[record.partition].append(int(value.split(b".")[0]))

    @property
    def complete(self) -> bool:
        """Whether all that was acknowledged has been consumed."""
        return not self._threads[0].is_alive() and all(
            len(consumed) >= len(acknowledged)
            for consumed, acknowledged in zip(self.consumed, self.acknowledged, strict=True)
        )


def _wait_for(load: Load, records: int) -> None:
    wait_until(lambda: min(map(len, load.acknowledged)) >= records)


def test_nothing_is_lost_when_partitions_move_under_a_producer_and_a_consumer(
    broker: RefBroker, directories: list[Path]
) -> None:
    broker.create_topic("moving", PARTITIONS)
    with Load(broker.bootstrap_servers, "moving") as load:
        for turn in range(ROUNDS):
            _wait_for(load, 100 * (turn + 1))
            for partition in range(PARTITIONS):
                move(broker, "moving", partition, directories[(turn + partition) % len(directories)])
            wait_until(lambda: broker.call(lambda running: len(running.parts.moves)) == 0)
            for partition in range(PARTITIONS):
                assert place(broker, "moving", partition) == directories[(turn + partition) % len(directories)]
    for acknowledged, consumed in zip(load.acknowledged, load.consumed, strict=True):
        assert acknowledged == list(range(len(acknowledged)))
        assert consumed == list(range(len(consumed)))
        assert len(consumed) == len(acknowledged) > 100
    broker.restart()
    logs = broker.call(lambda running: [must(running.parts.logs.get("moving", p)) for p in range(PARTITIONS)])
    sizes = [log.log_end_offset for log in logs]
    assert sizes == [len(acknowledged) for acknowledged in load.acknowledged]


def test_without_its_metadata_disk_the_broker_stops_and_it_returns_after_a_repair(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    paths = [tmp_path / "one", tmp_path / "two"]
    with RefBroker(disk=disk, log_dirs=",".join(map(str, paths))) as broker:
        broker.create_topic("kept", 2)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("kept", b"value", partition=0).result(ANSWER)
        ended = broker.call(lambda running: running.parts.failed)
        disk.fail(path_prefix=paths[0])
        with Wire(broker.bootstrap_servers) as wire, caplog.at_level(logging.CRITICAL):
            with pytest.raises(KafkaStorageError):
                broker.create_topic("lost")
            with suppress(ConnectionResetError):
                assert wire.socket.recv(1) == b""
        assert f"the broker stops because it needs {paths[0]}" in str(ended.result())
        assert f"the broker stops because it needs {paths[0]}" in caplog.text
        disk.heal()
        broker.restart()
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("kept", 0)])
            found = [record.value for record in read(consumer, 1)]
        assert found == [b"value"]


@pytest.mark.not_simulated("runs a process")
def test_a_process_ends_with_an_error_when_its_data_directory_is_deleted(tmp_path: Path) -> None:
    settings = {"log.flush.offset.checkpoint.interval.ms": "50"}
    with BrokerProcess(tmp_path / "data", settings=settings) as process:
        # All at once: who removes file after file meets those that the broker writes meanwhile.
        (tmp_path / "data").rename(tmp_path / "elsewhere")
        assert process.wait() == 1
        assert f"the broker stops because it needs {tmp_path / 'data'}" in process.output_file.read_text()
