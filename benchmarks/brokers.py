"""The brokers of a benchmark run: start, start-up time, and memory when idle.

Apache Kafka comes from the cluster fixture of the interop tests; refbroker runs as for users, in a separate process.
Both run with their defaults.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from kclient import Admin, NewTopic, Producer, TopicPartition
from kclient.admin import OffsetSpec
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster

IDLE_SECONDS = 3.0


@contextmanager
def apache_kafka(directory: Path) -> Iterator[tuple[str, int]]:
    """Start a single node; yield its bootstrap servers and process id."""
    with KafkaCluster(1, directory=directory) as cluster:
        yield cluster.bootstrap_servers, cluster.pid(1)


@contextmanager
def refbroker(directory: Path) -> Iterator[tuple[str, int]]:
    """Start a refbroker; yield its bootstrap servers and process id.

    Groups do not wait for further members, as in the Kafka of the interop tests.
    """
    with BrokerProcess(directory, settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap_servers, broker.pid


BROKERS = {"Apache Kafka": apache_kafka, "refbroker": refbroker}


def start_and_idle(name: str, directory: Path) -> dict[str, float]:
    """Return the seconds from process start to the first acknowledged record, and the resident MB when idle."""
    started = time.perf_counter()
    with BROKERS[name](directory) as (bootstrap, pid):
        with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
            producer.send("first", b"record").result(timeout=60)
        seconds = time.perf_counter() - started
        time.sleep(IDLE_SECONDS)  # idle memory is what is measured
        return {"start_s": seconds, "idle_mb": psutil.Process(pid).memory_info().rss / 1e6}


def create_topic(bootstrap: str, topic: str, partitions: int, configs: dict[str, str] | None = None) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1, configs=configs or {})])


def count_records(bootstrap: str, topic: str) -> int:
    """Return the number of records of a topic, by its end offsets."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        partitions = admin.describe_topics([topic])[topic].partitions
        ends = {TopicPartition(topic, info.partition): OffsetSpec.LATEST for info in partitions}
        return sum(end.offset for end in admin.list_offsets(ends).values())
