"""Several data directories: Apache Kafka and refbroker respond alike, and each continues with the other's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, Consumer, NewTopic, Producer, TopicPartition
from kclient.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kclient.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kclient.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster
from tests.support.reading import read
from tests.support.waiting import wait_until
from tests.support.wire import Wire

RECORDS = 200
BROKER = 4


def settings(root: Path) -> dict[str, str]:
    return {"log.dirs": ",".join(str(path) for path in directories(root))}


def directories(root: Path) -> list[Path]:
    return [root / name for name in ("one", "two")]


@pytest.fixture(scope="module")
def kafka_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka-dirs")


@pytest.fixture(scope="module")
def apache(needs_kafka: None, kafka_root: Path) -> Iterator[KafkaCluster]:
    """Apache Kafka with two data directories."""
    with KafkaCluster(directory=kafka_root, config=settings(kafka_root)) as cluster:
        yield cluster


def move(bootstrap_servers: str, path: Path | str, topic: str, partition: int = 0) -> int:
    wanted = AlterReplicaLogDirsRequest.AlterReplicaLogDir(
        path=str(path),
        topics=[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[partition])],
    )
    with Wire(bootstrap_servers) as wire:
        answer = wire.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), 2)
    code: int = answer.results[0].partitions[0].error_code
    return code


def describe(bootstrap_servers: str, topics: list[Any] | None = None) -> dict[str, Any]:
    with Wire(bootstrap_servers) as wire:
        answer = wire.ask(DescribeLogDirsRequest(topics=topics), 5)
    return {Path(result.log_dir).name: result for result in answer.results}


def place(bootstrap_servers: str, topic: str, partition: int = 0) -> str:
    """The directory of a partition that is not on its way."""

    found: list[tuple[str, bool]] = []

    def stays() -> bool:
        wanted = DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[partition])
        found[:] = [
            (name, one.is_future_key)
            for name, result in describe(bootstrap_servers, [wanted]).items()
            for each in result.topics
            for one in each.partitions
        ]
        return [future for _, future in found] == [False]

    wait_until(stays)
    return found[0][0]


def cordon(bootstrap_servers: str, value: str) -> int:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER,
        resource_name="1",
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name="cordoned.log.dirs", config_operation=0, value=value)
        ],
    )
    with Wire(bootstrap_servers) as wire:
        code: int = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code
    return code


def fill(bootstrap_servers: str, topic: str, first: int) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(first, first + RECORDS):
            producer.send(topic, b"%d" % number, partition=0)


def read_numbers(bootstrap_servers: str, topic: str, count: int) -> list[int]:
    with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [int(record.value or b"") for record in read(consumer, count)]


def create(bootstrap_servers: str, *topics: NewTopic) -> None:
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics(list(topics))


def answers(bootstrap_servers: str, root: Path) -> list[object]:
    """What a broker with two directories says to some requests."""
    one, two = directories(root)
    said: list[object] = []
    create(bootstrap_servers, NewTopic("moving", num_partitions=1), NewTopic("t" * 230, num_partitions=1))
    here = place(bootstrap_servers, "moving")
    there = "two" if here == "one" else "one"
    fill(bootstrap_servers, "moving", 0)
    said.append([move(bootstrap_servers, path, "moving") for path in ("/nowhere", one.name, f"{one}/")])
    said.append([move(bootstrap_servers, one, "unknown"), move(bootstrap_servers, one, "moving", 7)])
    said.append([move(bootstrap_servers, path, "t" * 230) for path in (one, two)])
    said.append(move(bootstrap_servers, root / here, "moving"))
    said.append(move(bootstrap_servers, root / there, "moving"))
    wait_until(lambda: place(bootstrap_servers, "moving") == there)
    said.append(read_numbers(bootstrap_servers, "moving", RECORDS))
    said.append(cordon(bootstrap_servers, "/elsewhere"))
    said.append(cordon(bootstrap_servers, str(root / here)))
    wait_until(lambda: describe(bootstrap_servers)[here].is_cordoned)
    said.append(move(bootstrap_servers, root / here, "moving"))
    create(bootstrap_servers, NewTopic("cordoned", num_partitions=3))
    said.append([place(bootstrap_servers, "cordoned", partition) == there for partition in range(3)])
    said.append(cordon(bootstrap_servers, ""))
    wait_until(lambda: not describe(bootstrap_servers)[here].is_cordoned)
    said.append(move(bootstrap_servers, root / here, "wished"))
    create(bootstrap_servers, NewTopic("wished", num_partitions=1))
    said.append(place(bootstrap_servers, "wished") == here)
    said.append(sorted(describe(bootstrap_servers)))
    said.append([describe(bootstrap_servers, [])[name].topics for name in ("one", "two")])
    return said


def test_both_answer_alike(apache: KafkaCluster, kafka_root: Path, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "one", settings=settings(tmp_path)) as process:
        assert answers(process.bootstrap_servers, tmp_path) == answers(apache.bootstrap_servers, kafka_root)


@pytest.mark.usefixtures("needs_kafka")
def test_each_continues_with_what_the_other_has_moved(tmp_path: Path) -> None:
    with KafkaCluster(directory=tmp_path, config=settings(tmp_path)) as cluster:
        servers = cluster.bootstrap_servers
        create(servers, NewTopic("moving", num_partitions=1))
        fill(servers, "moving", 0)
        first = place(servers, "moving")
        second = "two" if first == "one" else "one"
        assert move(servers, tmp_path / second, "moving") == 0
        wait_until(lambda: place(servers, "moving") == second)
        cluster.stop(1)
        options = {**settings(tmp_path), "node.id": "1"}
        with BrokerProcess(tmp_path / "one", settings=options) as process:
            assert place(process.bootstrap_servers, "moving") == second
            assert read_numbers(process.bootstrap_servers, "moving", RECORDS) == list(range(RECORDS))
            fill(process.bootstrap_servers, "moving", RECORDS)
            assert move(process.bootstrap_servers, tmp_path / first, "moving") == 0
            wait_until(lambda: place(process.bootstrap_servers, "moving") == first)
        # What is there counts as not formatted otherwise.
        cluster.data_directory(1).mkdir()
        cluster.start(1)
        wait_until(lambda: place(servers, "moving") == first)
        assert read_numbers(servers, "moving", 2 * RECORDS) == list(range(2 * RECORDS))
