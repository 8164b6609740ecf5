"""Data directories that earlier versions of refbroker wrote, which every later version must open.

`tests/data/dirs/VERSION` holds one: `data`, the files as a clean stop left them, and `content.json`, what clients saw
in them just before. The directory of the version under development is made by

    python -m tests.support.stored_directory

and kept unchanged once that version is released.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import kclient
from kclient import Admin, Consumer, NewTopic, Producer, TopicPartition
from kclient.admin import AlterConfig, ConfigResource
from kclient.errors import KafkaError
from kclient.types import OffsetAndMetadata
from refbroker.testing import RefBroker
from tests.support.reading import read_all
from tests.support.waiting import wait_until

STORED = Path(__file__).parents[1] / "data" / "dirs"
NOW_MS = 1_767_225_600_000
"""The broker's clock is held at this time, so that nothing expires before a test reads it."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


def stopped_broker(data_dir: Path) -> RefBroker:
    """Return a broker that is not started yet, on a data directory and with a clock that is held."""
    kafka = RefBroker(data_dir=data_dir, settings=SETTINGS, durable=False)
    kafka.clock.hold(NOW_MS)
    return kafka


def content(kafka: RefBroker) -> dict[str, Any]:
    """Return what clients see: topics, settings, records, committed offsets, transactions and producers, as JSON."""
    servers = kafka.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        topics = admin.describe_topics(sorted(admin.list_topics()))
        partitions = [TopicPartition(name, each.partition) for name in topics for each in topics[name].partitions]
        configs = admin.describe_configs([*map(ConfigResource.topic, topics), ConfigResource.broker()])
        offsets = admin.list_group_offsets(sorted(admin.list_groups()))
        transactions = admin.describe_transactions(sorted(admin.list_transactions()))
        producers = admin.describe_producers(partitions)
    return {
        "topics": {name: [str(topic.topic_id), len(topic.partitions)] for name, topic in topics.items()},
        "configs": {
            f"{resource.type.name} {resource.name}": {
                entry.name: entry.value for entry in entries.values() if entry.source.name.startswith("DYNAMIC")
            }
            for resource, entries in configs.items()
        },
        "records": {name: _records(servers, name, "read_uncommitted") for name in topics},
        "committed records": {name: _records(servers, name, "read_committed") for name in topics},
        "offsets": {
            group: {str(tp): [each.offset, each.metadata, each.leader_epoch] for tp, each in found.items() if each}
            for group, found in offsets.items()
        },
        "transactions": {
            name: [
                each.state.name, each.producer_id, each.producer_epoch, each.timeout_ms, each.start_timestamp,
                [str(tp) for tp in each.partitions],
            ]
            for name, each in transactions.items()
        },
        "producers": {
            str(tp): sorted(
                [each.producer_id, each.producer_epoch, each.last_sequence, each.transaction_start_offset]
                for each in states
            )
            for tp, states in producers.items()
        },
    }  # fmt: skip


def _records(servers: str, topic: str, isolation_level: str) -> list[list[Any]]:
    return [
        [
            record.partition, record.offset, record.timestamp, record.leader_epoch, _text(record.key),
            _text(record.value), [[name, _text(value)] for name, value in record.headers],
        ]
        for record in read_all(servers, topic, isolation_level=isolation_level)
    ]  # fmt: skip


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def make(folder: Path) -> None:
    """Write a data directory and its content into a folder that does not exist."""
    kafka = stopped_broker(folder / "data")
    with contextlib.ExitStack() as stack:
        stack.callback(kafka.stop)
        kafka.start()
        _create_topics(kafka)
        _fill_codecs(kafka)
        _fill_compacted(kafka)
        _commit_offsets(kafka)
        unfinished = _write_transactions(kafka)
        seen = content(kafka)
    with contextlib.suppress(KafkaError):
        unfinished.close(timeout=0.0)
    (folder / "data" / ".lock").unlink(missing_ok=True)
    (folder / "content.json").write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n")


def _create_topics(kafka: RefBroker) -> None:
    settings = {
        "codecs": {"retention.ms": "-1"},
        "states": {"cleanup.policy": "compact", "segment.ms": "1000"},
        "copied": {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "100000"},
    }
    counts = {"codecs": len(CODECS), "states": 1, "copied": 2}
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics(
            NewTopic(name, num_partitions=counts[name], replication_factor=1, configs=configs)
            for name, configs in settings.items()
        )
        admin.incremental_alter_configs({ConfigResource.broker(): [AlterConfig.set("log.retention.ms", "86400000")]})


def _fill_codecs(kafka: RefBroker) -> None:
    """Write one partition per codec, in batches of five records with every kind of key, value and header."""
    for partition, codec in enumerate(CODECS):
        with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type=codec) as producer:
            for number in range(15):
                producer.send(
                    "codecs",
                    None if number == 7 else b"%d " % number * 20,
                    key=None if number % 3 else b"key %d" % number,
                    partition=partition,
                    headers=[("number", b"%d" % number), ("ü", None)][: number % 3],
                    timestamp=NOW_MS - 1000 + number,
                )
                if number % 5 == 4:
                    producer.flush()


def _fill_compacted(kafka: RefBroker) -> None:
    """Write five segments, of which the cleaner keeps the last record of each key."""
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(5):
            for key in (b"a", b"b", b"c"):
                value = None if (key, number) == (b"c", 3) else b"%s%d" % (key, number)
                producer.send("states", value, key=key, timestamp=kafka.clock.now_ms)
            producer.flush()
            kafka.clock.step(2)
    passes = kafka.call(lambda broker: broker.parts.cleaner.stats.passes)
    kafka.clock.step(20)
    wait_until(lambda: kafka.call(lambda broker: broker.parts.cleaner.stats.passes) > passes)
    kafka.clock.hold(NOW_MS)


def _commit_offsets(kafka: RefBroker) -> None:
    """Commit offsets of three groups: one of each protocol, and one without members."""
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    for protocol in ("classic", "consumer"):
        with Consumer("codecs", group_id=f"{protocol} group", group_protocol=protocol, **options) as consumer:
            wait_until(lambda consumer=consumer: consumer.poll(0.1))  # type: ignore[misc]
            consumer.commit({TopicPartition("codecs", 3): OffsetAndMetadata(5, f"by {protocol}", 0)})
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.alter_group_offsets("no members", {TopicPartition("codecs", 0): 7, TopicPartition("states", 0): 1})


def _write_transactions(kafka: RefBroker) -> Producer:
    """Write a committed transaction with an offset, an aborted one, and an open one, whose producer is returned."""
    servers = kafka.bootstrap_servers
    with Producer(bootstrap_servers=servers, transactional_id="finished") as producer:
        producer.init_transactions()
        for outcome in ("committed", "aborted"):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send("copied", outcome.encode(), partition=partition)
            producer.flush()
            if outcome == "committed":
                metadata = kclient.ConsumerGroupMetadata("copies")
                producer.send_offsets_to_transaction({TopicPartition("codecs", 1): 9}, metadata)
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    unfinished: Producer = Producer(bootstrap_servers=servers, transactional_id="open", transaction_timeout_ms=900_000)
    unfinished.init_transactions()
    unfinished.begin_transaction()
    unfinished.send("copied", b"open", partition=1)
    unfinished.flush()
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("copied", b"after the open one", partition=1)
    return unfinished


if __name__ == "__main__":
    target = STORED / kclient.__version__
    shutil.rmtree(target, ignore_errors=True)
    make(target)
    sys.stdout.write(f"{target}: {sum(path.stat().st_size for path in target.rglob('*') if path.is_file())} bytes\n")
