"""Offsets by time over one directory: refbroker and Apache Kafka find the same, by Kafka's own tool and by a client."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kclient import Admin, Consumer, NewTopic, Producer, TopicPartition
from refbroker.testing import RefBroker
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.tools import JavaTools

WHERE = TopicPartition("orders", 0)
# Records 3 ms apart, and some that are older than those before them.
FIRST_MS = 1_570_793_423_001
TIMES = [FIRST_MS + 3 * number - (200 if number % 50 == 7 else 0) for number in range(2000)]
ASKED = [FIRST_MS - 1, *range(FIRST_MS, TIMES[-1] + 10, 41), 1_570_793_423_501, 1_570_793_423_503, TIMES[-1] + 1]
SETTINGS = {"retention.ms": "-1", "index.interval.bytes": "300", "message.timestamp.type": "CreateTime"}


def found_by_client(servers: str) -> list[tuple[int, int] | None]:
    with closing(Consumer(bootstrap_servers=servers)) as consumer:
        answers = [consumer.offsets_for_times({WHERE: time})[WHERE] for time in ASKED]
    return [None if answer is None else (answer.offset, answer.timestamp) for answer in answers]


def found_by_tool(java: JavaTools) -> list[str]:
    return [java.offsets("orders", time).strip() for time in (1_570_793_423_501, 1_570_793_423_503, -1)]


@pytest.mark.usefixtures("needs_kafka")
def test_both_brokers_find_the_same_records(tmp_path: Path) -> None:
    kafka = KafkaCluster(directory=tmp_path)
    directory = kafka.data_directory()
    directory.parent.mkdir(parents=True)
    address = kafka.address(1)
    java = JavaTools(address)
    with RefBroker(data_dir=directory, port=int(address.rpartition(":")[2])) as broker:
        with closing(Admin(bootstrap_servers=broker.bootstrap_servers)) as admin:
            admin.create_topics([NewTopic("orders", num_partitions=1, configs=SETTINGS)])
        with closing(Producer(bootstrap_servers=address, linger_ms=0, batch_size=400)) as producer:
            for time in TIMES:
                producer.send("orders", b"x" * 40, timestamp=time)
            producer.flush(30)
        assert broker.log("orders").segments.active.time_index.entries > 100
        here = found_by_client(address), found_by_tool(java)
    expected = [next(((n, at) for n, at in enumerate(TIMES) if at >= time), None) for time in ASKED]
    assert here[0] == expected
    try:
        kafka.start(1)
        kafka.wait_until_ready()
        there = found_by_client(address), found_by_tool(java)
    finally:
        kafka.close()
    assert here == there
    assert here[1][0] == f"orders:0:{next(n for n, at in enumerate(TIMES) if at >= 1_570_793_423_501)}"
