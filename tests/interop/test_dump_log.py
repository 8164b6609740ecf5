"""`refbroker dump-log` and Apache Kafka's DumpLogSegments say the same about the same files, line by line.

Files are Apache Kafka's, refbroker's, and ones that are damaged or made here for what neither writes. Where the two
must differ, the difference is named: Kafka's tool ends with an exception at the first damage and omits the
files after it, ours says the same in one line of its own and continues.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kclient.records import BatchBuilder, control_batch
from refbroker.log import PartitionLog
from refbroker.testing import RefBroker
from tests.interop.dumps import assert_same, kafkas, ours, parts
from tests.support.golden_data import golden_rows
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.tools import JavaTools

# Warnings about unclosed resources of other clients are not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

START_MS = 1_700_000_000_000
KINDS = (".log", ".checkpoint", ".index", ".timeindex", ".txnindex", ".snapshot")


@pytest.fixture(autouse=True)
def _terminal(needs_kafka: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # Java writes in the encoding that the environment sets.
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def known(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in KINDS)


def kept_in(folder: Path, topic: str) -> list[Path]:
    return [path for path in known(folder) if path.parent.name.startswith(f"{topic}-")]


# Files of Apache Kafka


@pytest.fixture(scope="module")
def kafka_files(needs_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What a stopped Apache Kafka left, and what there was while it ran: with indexes that are preallocated."""
    folder = tmp_path_factory.mktemp("dump-kafka")
    config = {"metadata.log.max.record.bytes.between.snapshots": "2000", "log.index.size.max.bytes": "100000"}
    with KafkaCluster(1, directory=folder, config=config) as cluster:
        tools = JavaTools(cluster.bootstrap_servers)
        tools.create_topic("orders", 1, **{"segment.bytes": "1048576", "index.interval.bytes": "500"})
        _fill(cluster.bootstrap_servers)
        _settings(tools)
        # A copy of a running broker's files may end within a batch, so nothing is written while it is made.
        running = folder / "running"
        for log in cluster.data_directory().glob("[o]*-*"):
            shutil.copytree(log, running / log.name)
    return cluster.data_directory(), running


def _fill(bootstrap_servers: str) -> None:
    """Records of every codec, with and without key, value and headers; transactions of both ends; a group."""
    from confluent_kafka import Consumer, Producer

    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.num.messages": 50,
            }
        )
        for index in range(900):
            value = None if index % 13 == 0 else f"gr\u00fc\u00dfe {index} ".encode() * (index % 60)
            headers = [("h\u00e9", b"1"), ("empty", None)] if index % 7 == 0 else []
            producer.produce(
                "orders", value, None if index % 11 == 0 else b"key\xff%d" % index, headers=headers,
                timestamp=START_MS + number * 1000 + index,
            )  # fmt: skip
        producer.flush(30)
    writer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "etl"})
    writer.init_transactions(30)
    for commit in (True, False, True, False):
        writer.begin_transaction()
        writer.produce("orders", b"in a transaction", b"k")
        writer.flush(30)
        writer.commit_transaction(30) if commit else writer.abort_transaction(30)
    for protocol in ("classic", "consumer"):
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": protocol, "group.protocol": protocol}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe(["orders"])
        assert consumer.consume(1, 60)
        consumer.commit(asynchronous=False)
        consumer.close()


def _settings(tools: JavaTools) -> None:
    """Kinds of metadata records: settings, quotas (which are doubles), credentials, ACLs, a deleted topic."""
    tools.topic_configs("orders", "--alter", "--add-config", "retention.ms=-1")
    quota = "producer_byte_rate=12345678901,request_percentage=0.00025"
    scram = "SCRAM-SHA-256=[iterations=4096,password=secret]"
    for change, entity in ((quota, ("clients", "--entity-default")), (scram, ("users", "--entity-name", "u"))):
        tools.run("kafka.admin.ConfigCommand", "--alter", "--add-config", change, "--entity-type", *entity)
    tools.create_topic("gone", 3)
    tools.topics("--delete", "--topic", "gone")


def test_every_file_of_a_stopped_kafka(kafka_files: tuple[Path, Path]) -> None:
    stopped, _ = kafka_files
    orders = kept_in(stopped, "orders")
    assert {path.suffix for path in orders} >= {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    assert len([path for path in orders if path.suffix == ".log"]) > 1
    assert_same(orders)
    said = assert_same(orders, "--print-data-log")
    assert any("endTxnMarker: ABORT coordinatorEpoch: 0" in line for line in said)
    assert any("headerKeys: [h\u00e9,empty]" in line for line in said)
    assert_same(orders, "--deep-iteration")
    assert_same(orders, "--print-data-log", "--skip-record-metadata")
    assert_same(orders, "--verify-index-only", "--max-message-size", "2000000")


def test_the_logs_kafka_keeps_its_state_in(kafka_files: tuple[Path, Path]) -> None:
    stopped, _ = kafka_files
    metadata = [*kept_in(stopped, "__cluster_metadata"), stopped / "bootstrap.checkpoint"]
    assert len([path for path in metadata if path.suffix == ".checkpoint"]) > 1
    said = assert_same(metadata, "--cluster-metadata-decoder")
    for kind in ("CLIENT_QUOTA_RECORD", "USER_SCRAM_CREDENTIAL_RECORD", "REMOVE_TOPIC_RECORD", "PARTITION_RECORD"):
        assert any(kind in line for line in said), kind
    for value in ("1.2345678901E10", "2.5E-4"):
        assert any(f'"value":{value}' in line for line in said)
    offsets = [path for path in kept_in(stopped, "__consumer_offsets") if path.suffix == ".log"]
    said = assert_same(offsets, "--offsets-decoder")
    assert any('"subscription":{"topics":["orders"]' in line for line in said)
    assert any("payload: <DELETE>" in line for line in said)
    transactions = [path for path in kept_in(stopped, "__transaction_state") if path.suffix == ".log"]
    said = assert_same(transactions, "--transaction-log-decoder", "--skip-record-metadata")
    assert any('"transactionalId":"etl"' in line for line in said)


def test_the_records_of_kafkas_own_topics_are_decoded_without_being_asked(kafka_files: tuple[Path, Path]) -> None:
    stopped, _ = kafka_files
    for topic, decoder in (
        ("__cluster_metadata", "cluster-metadata"),
        ("__consumer_offsets", "offsets"),
        ("__transaction_state", "transaction-log"),
        ("orders", "print-data-log"),
    ):
        files = [path for path in kept_in(stopped, topic) if path.suffix in (".log", ".checkpoint")]
        option = f"--{decoder}-decoder" if topic != "orders" else "--print-data-log"
        assert ours(files, "--records") == ours(files, option)


def test_the_files_of_a_running_kafka(kafka_files: tuple[Path, Path]) -> None:
    _, running = kafka_files
    files = known(running)
    assert any(path.suffix == ".index" and path.stat().st_size > 50_000 for path in files)
    assert_same(files)


def test_the_checks_of_a_start(kafka_files: tuple[Path, Path]) -> None:
    stopped, running = kafka_files
    indexes = [path for path in kept_in(stopped, "orders") if path.suffix in (".index", ".timeindex")]
    assert_same(indexes, "--index-sanity-check")
    # The zeros of a preallocated time index are less than its first timestamp: Kafka's check takes that for damage.
    active = max(path for path in running.rglob("*.timeindex"))
    [*_, exception] = [line for line in kafkas([active], "--index-sanity-check") if "CorruptIndexException" in line]
    said, status = ours([active], "--index-sanity-check")
    assert said[1].partition(f"{active}: ")[2] == exception.partition("CorruptIndexException: ")[2]
    assert status == 1


@pytest.mark.parametrize("size", [0, 1000, 300_000])
def test_a_part_of_a_segment(kafka_files: tuple[Path, Path], size: int) -> None:
    stopped, _ = kafka_files
    first = kept_in(stopped, "orders")[0].parent / f"{0:020d}.log"
    assert_same([first], "--max-bytes", str(size))


# Files of refbroker


def append(log: PartitionLog, batch: bytes, _: object) -> None:
    log.append(batch, leader_epoch=0, now_ms=START_MS)


def test_every_file_of_refbroker(tmp_path: Path) -> None:
    with RefBroker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("orders", segment_bytes=1_048_576, index_interval_bytes=500)
        log = broker.log("orders")
        for number in range(200):
            builder = BatchBuilder(("none", "gzip", "snappy", "lz4", "zstd")[number % 5])
            for index in range(30):
                builder.append(START_MS + number * 100 + index, b"k%d" % index, os.urandom(400), [("h", b"1")])
            batch = bytes(builder.build(producer_id=7, producer_epoch=0, base_sequence=number * 30))
            broker.call(partial(append, log, batch))
        broker.create_topic("other", 2, cleanup_policy="compact")
        broker.restart()
    data = tmp_path / "data"
    orders = kept_in(data, "orders")
    assert {path.suffix for path in orders} >= {".log", ".index", ".timeindex", ".snapshot"}
    assert len([path for path in orders if path.suffix == ".log"]) > 2
    assert_same(orders)
    assert_same(orders, "--deep-iteration")
    assert_same(orders, "--index-sanity-check", "--max-bytes", "100000")
    said = assert_same(
        [*kept_in(data, "__cluster_metadata"), *data.glob("bootstrap.checkpoint")], "--cluster-metadata-decoder"
    )
    assert any("LeaderChange: " in line for line in said)


# Files made here


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def batch(base: int, count: int = 3, **options: Any) -> bytes:
    builder = BatchBuilder()
    for index in range(count):
        builder.append(START_MS + base + index, b"k", b"v%d" % index)
    return bytes(builder.build(base_offset=base, **options))


def test_batches_of_every_format_and_codec(tmp_path: Path) -> None:
    files = []
    for number, line in enumerate(golden_rows("record_batches")):
        folder = tmp_path / f"{number}-0"
        folder.mkdir()
        files.append(write(folder, f"{0:020d}.log", bytes.fromhex(line["hex"])))
    said, _ = ours(files, "--print-data-log")
    theirs = kafkas(files, "--print-data-log")
    # Of messages inside a compressed one in formats 0 and 1, Kafka's tool also shows the checksums of their own;
    # and half of a surrogate pair in what is no UTF-8 is one bad character to Java and three to Python.
    less = re.compile(r"(?<=\d) isValid: (?:true|false) crc: \d+|(?<=\ufffd)\ufffd+")
    assert parts([less.sub("", line) for line in said]) == parts([less.sub("", line) for line in theirs])


def test_gaps_and_delete_horizons_of_a_compacted_log(tmp_path: Path) -> None:
    horizon = bytearray(batch(10))
    struct.pack_into(">h", horizon, 21, 0x40)
    log = write(tmp_path, f"{5:020d}.log", batch(5) + bytes(horizon) + batch(20, 1))
    said = assert_same([log], "--deep-iteration", status=1)
    assert "  7 is followed by 10" in said
    assert any(f"deleteHorizonMs: OptionalLong[{START_MS + 10}]" in line for line in said)
    assert any("isvalid: false" in line for line in said)


def test_control_records_nobody_knows_yet(tmp_path: Path) -> None:
    builder = BatchBuilder()
    builder.append(START_MS, struct.pack(">hh", 0, 99), b"what")
    marker = control_batch(0, producer_id=1, producer_epoch=0, coordinator_epoch=7, timestamp=START_MS, base_offset=1)
    log = write(tmp_path, f"{0:020d}.log", bytes(builder.build(is_control=True)) + marker)
    said = assert_same([log], "--print-data-log")
    assert any(line.endswith(" controlType: UNKNOWN(99)") for line in said)
    assert any(line.endswith(" endTxnMarker: ABORT coordinatorEpoch: 7") for line in said)


OFFSET_KEY = struct.pack(">hh", 1, 1) + b"g" + struct.pack(">h", 1) + b"t" + struct.pack(">i", 0)


@pytest.mark.parametrize("decoder", ["cluster-metadata", "offsets", "transaction-log"])
def test_records_that_cannot_be_decoded(tmp_path: Path, decoder: str) -> None:
    builder = BatchBuilder()
    for key, value in (
        (struct.pack(">h", 99) + b"newer", b"\1\1\0"),
        (OFFSET_KEY, b"\1\xff\1\0"),
        (OFFSET_KEY, None),
        (OFFSET_KEY[:4], b"\0\0"),
        (b"", b""),
        (OFFSET_KEY, struct.pack(">hq", 77, 0)),
    ):
        builder.append(START_MS, key, value)
    log = write(tmp_path, f"{0:020d}.log", bytes(builder.build()))
    said, status = ours([log], f"--{decoder}-decoder")
    theirs = kafkas([log], f"--{decoder}-decoder")
    # Where and what is the same; why is said in words of one's own.
    reason = re.compile(r"(?<=, skipping\.) .*")
    assert [reason.sub("", line) for line in said] == [reason.sub("", line) for line in theirs]
    assert status == 0


@pytest.mark.parametrize("torn", [1, 16, 17, 18, 60, 61, 80])
def test_a_torn_tail(tmp_path: Path, torn: int) -> None:
    log = write(tmp_path, f"{0:020d}.log", batch(0) + batch(3)[:torn])
    said = assert_same([log], status=1)
    assert f"Found {torn} invalid bytes at the end of {log.name}" in said


def test_indexes_that_point_elsewhere(tmp_path: Path) -> None:
    first, second = batch(0), batch(3)
    write(tmp_path, f"{0:020d}.log", first + second)
    at = len(first)
    index = write(tmp_path, f"{0:020d}.index", struct.pack(">iiiiii", 2, 0, 4, at, 5, 0))
    said = assert_same([index], status=1)
    assert said[-2:] == ["  Index offset: 5, log offset: 2", "  Index offset: 4, log offset: 5"]
    entries = ((START_MS + 2, 2), (START_MS + 9, 5), (START_MS + 5, 5), (START_MS + 9, 4), (START_MS + 9, 90))
    times = write(tmp_path, f"{0:020d}.timeindex", b"".join(struct.pack(">qi", *entry) for entry in entries))
    said = assert_same([times], status=1)
    assert f"  Index timestamp: {START_MS + 9}, log timestamp: {START_MS + 5}" in said
    assert f"  Index timestamp: {START_MS + 5}, Previously indexed timestamp: {START_MS + 9}" in said
    assert "Indexed offset: 4, found log offset: 5" in said
    assert "Indexed offset: 90, found log offset: -1" in said
    assert_same([index, times], "--verify-index-only", status=1)


def test_an_empty_index_and_an_aborted_transaction(tmp_path: Path) -> None:
    write(tmp_path, f"{0:020d}.log", batch(0))
    index = write(tmp_path, f"{0:020d}.index", b"")
    aborted = write(tmp_path, f"{0:020d}.txnindex", struct.pack(">hqqqq", 0, 7, 0, 2, 3) * 2)
    said = assert_same([index, aborted])
    assert f"{index} is empty." in said
    assert "version: 0 producerId: 7 firstOffset: 0 lastOffset: 2 lastStableOffset: 3" in said


DAMAGE = {
    "zeros behind the last batch": ("log", batch(0) + bytes(100)),
    "an index that ends within an entry": ("index", struct.pack(">ii", 2, 0) + b"\0"),
    "an index that ends before it begins": ("index", struct.pack(">iiii", 2, 0, -5, 0)),
    "a time index that goes back": ("timeindex", struct.pack(">qiqi", START_MS, 1, 5, 2)),
    "a time index that ends within an entry": ("timeindex", struct.pack(">qi", START_MS, 1) + b"\0"),
    # Kafka's tool takes the first byte of the version for the whole.
    "a transaction index of another version": ("txnindex", struct.pack(">hqqqq", 0x0100, 7, 0, 2, 3)),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_kafkas_tool_fails_where_ours_complains(tmp_path: Path, what: str) -> None:
    write(tmp_path, f"{0:020d}.log", batch(0))
    write(tmp_path, f"{0:020d}.index", struct.pack(">ii", 2, 0))
    suffix, data = DAMAGE[what]
    path = write(tmp_path, f"{0:020d}.{suffix}", data)
    options = ("--index-sanity-check",) if suffix in ("index", "timeindex") else ()
    said, status = ours([path], *options)
    assert status == 1
    assert path.read_bytes() == data
    # Kafka's goes last: it cuts an index to whole entries when it closes it.
    theirs = kafkas([path], *options)
    assert any("Exception" in line for line in theirs), theirs
    shown = [line for line in theirs if not line.startswith(("Exception", "\tat", "Caused"))]
    assert said[:-1] == shown
    assert said[-1].startswith(f"refbroker: {path}: ")
    if options:
        message = next(line for line in theirs if "Exception" in line).partition("Exception: ")[2]
        assert said[-1] == f"refbroker: {path}: {message}"


def test_a_corrupt_producer_snapshot(tmp_path: Path) -> None:
    snapshot = write(tmp_path, f"{5:020d}.snapshot", struct.pack(">hIi", 1, 12345, 0))
    said, status = ours([snapshot])
    theirs = kafkas([snapshot])
    assert (len(said), said[0], status) == (2, theirs[0], 1)
    assert "CRC is no longer valid" in theirs[1]
    assert "the checksum does not match" in said[1]


def test_files_that_kafkas_tool_does_not_know(tmp_path: Path) -> None:
    log = write(tmp_path, f"{0:020d}.log", batch(0))
    deleted = [write(tmp_path, f"{0:020d}.log{suffix}", batch(0)) for suffix in (".deleted", ".cleaned", ".swap")]
    for path in deleted:
        assert kafkas([path])[1] == f"Ignoring unknown file {path}"
        assert ours([path])[0][1:] == ours([log])[0][1:]
    unknown = write(tmp_path, "what.txt", b"")
    said, status = ours([unknown])
    assert said == kafkas([unknown])
    assert status == 1
