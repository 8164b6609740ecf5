"""Compaction here and by Apache Kafka: the same log comes to the same records, and each reads what the other left."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient.records import BatchHeader, read_batches
from refbroker.log import Files, LogConfig, LogManager, PartitionLog
from refbroker.log.checkpoints import CLEANER_OFFSETS, read_offsets
from refbroker.log.compaction.manager import CleanerConfig, LogCleaner
from refbroker.runtime.clock import Clock
from refbroker.settings.definitions import broker_settings
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import run_tool
from tests.support.kafka.tools import JavaTools
from tests.support.patience import CHANGE, PROCESS
from tests.support.stores import LedLogs
from tests.support.waiting import wait_until
from tests.support.workshop import batches, end_transaction, put

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = LogConfig(
    segment_bytes=60_000, index_interval_bytes=500, segment_index_bytes=6000, cleanup_policy=("compact",)
)
HERE, THERE = "compacted-here", "compacted-there"
KEYED = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true",
         "--formatter-property", "null.literal=NULL")  # fmt: skip


def fill(log: PartitionLog, rng: random.Random, count: int) -> None:
    """Batches of every kind, with timestamps of now."""
    now_ms = time.time_ns() // 1_000_000
    sequences: dict[int, int] = {}
    opened: set[int] = set()
    for number in range(count):
        if opened and rng.random() < 0.3:
            producer_id = rng.choice(sorted(opened))
            opened.discard(producer_id)
            end_transaction(log, producer_id, 0, commit=rng.random() < 0.5, timestamp=now_ms)
        producer_id = rng.choice([-1, 1, 2, 11, 12])
        size = rng.randrange(1, 6)
        pairs = [
            (b"key %d" % rng.randrange(60), None if rng.random() < 0.2 else b"%032x" % rng.getrandbits(128))
            for _ in range(size)
        ]
        put(
            log,
            *pairs,
            timestamp=now_ms - 10_000 + number,
            compression=rng.choice(CODECS),
            producer=None if producer_id < 0 else (producer_id, 0, sequences.get(producer_id, 0)),
            transactional=producer_id > 10,
            epoch=number // 300,
            now_ms=now_ms,
        )
        sequences[producer_id] = sequences.get(producer_id, 0) + size
        if producer_id > 10:
            opened.add(producer_id)
    for producer_id in sorted(opened):
        end_transaction(log, producer_id, 0, commit=True, timestamp=now_ms)
    log.roll()
    # Kafka leaves the active segment alone as well.
    put(log, (b"last", b"last"), timestamp=now_ms)


def compact(root: Path) -> None:
    """One round of the cleaner over all logs in a data directory."""

    async def work() -> None:
        files, clock = Files(durable=False), Clock()
        manager = LedLogs.open([root], None, 1, CONFIG, clock=clock, files=files)
        config = CleanerConfig(lambda name: broker_settings()[name].default)
        await LogCleaner(manager, config, clock, files).clean_due()
        manager.close()

    asyncio.run(work())


def log_at(root: Path, topic: str) -> tuple[LogManager, PartitionLog]:
    manager = LedLogs.open([root], None, 1, CONFIG, files=Files(durable=False))
    log = manager.get(topic, 0)
    assert log is not None
    return manager, log


def contents(root: Path, topic: str) -> list[BatchHeader]:
    manager, log = log_at(root, topic)
    found = batches(log)
    manager.abandon()
    return found


def records(headers: list[BatchHeader]) -> list[tuple[Any, ...]]:
    return [
        (r.offset, r.timestamp, r.key, r.value, r.headers)
        for header in headers
        for batch in read_batches(header.raw)
        for r in batch.records()
    ]


def facts(header: BatchHeader) -> tuple[Any, ...]:
    """All that a header says but when its tombstones go, which depends on when it was compacted."""
    return (
        header.base_offset, header.last_offset, header.attributes, header.partition_leader_epoch, header.producer_id,
        header.producer_epoch, header.base_sequence, header.record_count, header.max_timestamp,
    )  # fmt: skip


def put_into_kafka(cluster: KafkaCluster, source: Path, topic: str) -> None:
    """Replace the log of a stopped broker's partition; its topic id stays."""
    target = cluster.data_directory() / f"{topic}-0"
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata" and not path.name.endswith(".deleted"):
            shutil.copy(path, target / path.name)


@pytest.fixture(scope="module")
def cluster(needs_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    config = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}
    with KafkaCluster(1, directory=tmp_path_factory.mktemp("compaction"), config=config) as running:
        yield running


def test_both_keep_the_same_records_and_read_what_the_other_left(
    cluster: KafkaCluster, tmp_path: Path, rng: random.Random
) -> None:
    manager = LedLogs.open([tmp_path / "dirty"], None, 1, CONFIG, files=Files(durable=False))
    log = manager.create(THERE, 0, uuid.uuid4(), CONFIG)
    fill(log, rng, 1500)
    end, segments = log.log_end_offset, len(log.segments)
    manager.close()
    assert segments > 3
    shutil.copytree(tmp_path / "dirty", tmp_path / "clean")
    (tmp_path / "clean" / f"{THERE}-0").rename(tmp_path / "clean" / f"{HERE}-0")
    compact(tmp_path / "clean")
    mine = contents(tmp_path / "clean", HERE)
    dirty = contents(tmp_path / "dirty", THERE)
    assert len(records(mine)) < len(records(dirty)) / 4

    tools = JavaTools(cluster.bootstrap_servers)
    for topic in (HERE, THERE):
        tools.create_topic(topic, 1, **{"cleanup.policy": "compact"})
    cluster.stop(1)
    put_into_kafka(cluster, tmp_path / "clean" / f"{HERE}-0", HERE)
    put_into_kafka(cluster, tmp_path / "dirty" / f"{THERE}-0", THERE)
    cluster.start(1)
    cleaned_up_to = cluster.data_directory() / CLEANER_OFFSETS
    wait_until(lambda: (THERE, 0) in read_offsets(Files(), cleaned_up_to), CHANGE)

    # A Java consumer reads exactly the committed records that remain, whichever broker compacted the log.
    expected = committed(tmp_path / "clean", HERE)
    for topic in (HERE, THERE):
        output = tools.consume(topic, len(expected), *KEYED, "--command-property", "isolation.level=read_committed")
        seen = re.findall(r"^Offset:(\d+)\t(.*)\t(.*)$", output, re.M)
        assert [(int(offset), key, value) for offset, key, value in seen] == expected, topic
        assert tools.offsets(topic, -1).strip().splitlines()[-1] == f"{topic}:0:{end}"

    cluster.stop(1)
    shutil.copytree(cluster.data_directory() / f"{THERE}-0", tmp_path / "theirs" / f"{THERE}-0")
    theirs = contents(tmp_path / "theirs", THERE)
    assert [facts(header) for header in theirs] == [facts(header) for header in mine]
    assert records(theirs) == records(mine)
    same_bytes = [
        (ours, other)
        for ours, other in zip(mine, theirs, strict=True)
        if ours.compression_type == "none" and not ours.has_delete_horizon
    ]
    assert len(same_bytes) > 20
    assert all(bytes(ours.raw) == bytes(other.raw) for ours, other in same_bytes)
    # And the other way round: a pass here over what Kafka has compacted finds nothing to take away.
    compact(tmp_path / "theirs")
    assert records(contents(tmp_path / "theirs", THERE)) == records(mine)


def committed(root: Path, topic: str) -> list[tuple[int, str, str]]:
    """Offset, key and value of what is left of data; compaction leaves nothing of aborted transactions."""
    return [
        (offset, (key or b"").decode(), "NULL" if value is None else value.decode())
        for header in contents(root, topic)
        if not header.is_control
        for offset, _, key, value, _ in records([header])
    ]


@pytest.mark.usefixtures("needs_kafka")
def test_kafkas_tool_reads_every_file_of_a_compacted_log(tmp_path: Path, rng: random.Random) -> None:
    manager = LedLogs.open([tmp_path], None, 1, CONFIG, files=Files(durable=False))
    log = manager.create(HERE, 0, uuid.uuid4(), CONFIG)
    fill(log, rng, 600)
    manager.close()
    compact(tmp_path)
    directory = tmp_path / f"{HERE}-0"
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = [path for path in sorted(directory.iterdir()) if path.suffix in kinds]
    joined = ",".join(str(path) for path in files)
    tool = "org.apache.kafka.tools.DumpLogSegments"
    output = run_tool(tool, "--files", joined, "--deep-iteration", timeout=PROCESS).stdout
    for complaint in (
        "Mismatch",
        "Trailing",
        "corrupt",
        "out of order",
        "Exception",
        "Found timestamp",
        "isvalid: false",
    ):
        assert complaint not in output, output[:5000]
    headers = contents(tmp_path, HERE)
    assert output.count("isvalid: true") == len(headers)
    assert output.count("| offset: ") == sum(header.record_count for header in headers)
    assert output.count("deleteHorizonMs: OptionalLong[") == sum(header.has_delete_horizon for header in headers) > 0
