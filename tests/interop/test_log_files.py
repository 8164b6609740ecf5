"""The files of refbroker's log read by Apache Kafka, and Apache Kafka's opened by refbroker."""

from __future__ import annotations

import random
import shutil
import time
import uuid
from pathlib import Path

import pytest

from kclient.records import BatchBuilder, read_batches
from refbroker.log import LogConfig, PartitionLog
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import run_tool
from tests.support.kafka.tools import JavaTools, keyed_lines
from tests.support.patience import PROCESS
from tests.support.stores import LedLogs

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def fill(log: PartitionLog, rng: random.Random, batches: int) -> int:
    now_ms = time.time_ns() // 1_000_000
    sequence = 0
    for number in range(batches):
        builder = BatchBuilder(CODECS[number % len(CODECS)])
        count = rng.randrange(1, 30)
        for index in range(count):
            builder.append(
                now_ms - 100_000 + number * 10 - index, b"key", rng.randbytes(rng.randrange(300)), [("h", None)]
            )
        batch = bytes(builder.build(producer_id=7, producer_epoch=1, base_sequence=sequence))
        log.append(batch, leader_epoch=number // 50, now_ms=now_ms)
        sequence += count
    return sequence


def dump(files: list[Path]) -> str:
    joined = ",".join(str(path) for path in files)
    tool = "org.apache.kafka.tools.DumpLogSegments"
    return run_tool(tool, "--files", joined, "--deep-iteration", timeout=PROCESS).stdout


@pytest.mark.usefixtures("needs_kafka")
@pytest.mark.parametrize("stop", ["cleanly", "by a crash", "not at all"])
def test_kafka_reads_every_file_without_complaint(tmp_path: Path, rng: random.Random, stop: str) -> None:
    config = LogConfig(segment_bytes=200_000, index_interval_bytes=1000, segment_index_bytes=60_000)
    manager = LedLogs.open([tmp_path], None, 1, config)
    records = fill(manager.create("orders", 0, uuid.uuid4()), rng, 300)
    if stop == "by a crash":
        manager.abandon()
        manager = LedLogs.open([tmp_path], None, 1, config)
    if stop != "not at all":
        manager.close()
    directory = tmp_path / "orders-0"
    files = [
        path for path in sorted(directory.iterdir()) if path.suffix in (".log", ".index", ".timeindex", ".snapshot")
    ]
    assert len(list(directory.glob("*.log"))) > 2
    output = dump(files)
    for complaint in ("Mismatch", "Trailing", "corrupt", "out of order", "Exception", "Found timestamp", "invalid"):
        assert complaint not in output, output[:5000]
    # The tool takes -1 as the offset before the first of any segment.
    assert output.count("is followed by") == output.count("-1 is followed by")
    assert output.count("| offset: ") == records
    assert output.count("isvalid: true") == 300
    if stop == "not at all":
        manager.close()


def test_the_files_of_a_running_kafka_are_opened_and_recovered(kafka: KafkaCluster, tmp_path: Path, topic: str) -> None:
    tools = JavaTools(kafka.bootstrap_servers)
    tools.create_topic(topic)
    tools.produce(
        topic, keyed_lines(500), "--reader-property", "parse.key=true", "--reader-property", "key.separator=:"
    )
    name = f"{topic}-0"
    # A copy of what a running broker has is what a crash would leave: preallocated indexes, no snapshot.
    shutil.copytree(kafka.data_directory(kafka.node_ids[0]) / name, tmp_path / name)
    manager = LedLogs.open([tmp_path], None, 1)
    log = manager.get(topic, 0)
    assert log is not None
    assert log.topic_id.int
    records = [record for batch in read_batches(log.read(0, 1 << 20).records.read()) for record in batch.records()]
    assert [(r.offset, r.key, r.value) for r in records] == [
        (number - 1, b"k%d" % number, b"v%d" % number) for number in range(1, 501)
    ]
    [producer] = log.producers()
    assert (producer.last_sequence, producer.last_offset) == (499, 499)
    found = log.offset_for_timestamp(records[250].timestamp)
    assert found is not None
    assert found.offset == next(r.offset for r in records if r.timestamp >= records[250].timestamp)
    manager.close()
