"""One data directory, opened in turn by refbroker and by Apache Kafka: each continues where the other stopped.

Topics, ids, settings, records, producers' sequences, quotas, credentials and access control must be the same for both,
epochs must only grow, and what refbroker cannot act on must come back to Kafka as it was.
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from kclient import Consumer, Producer
from kclient.admin import Admin, AlterConfig, ConfigResource, NewTopic
from kclient.records import batch_headers
from kclient.types import TopicPartition
from refbroker.testing import RefBroker
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import run_tool
from tests.support.kafka.tools import JavaTools
from tests.support.patience import PROCESS

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
PARTITIONS = 2
RECORDS = 50
RETENTION_MS = "1000000000"
FEATURES = {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2}
# A snapshot for every change, a segment for every second, and nothing old is kept.
EAGER = {
    "metadata.log.max.record.bytes.between.snapshots": "1",
    "metadata.log.segment.ms": "1000",
    "metadata.max.retention.bytes": "0",
}


pytestmark = pytest.mark.usefixtures("needs_kafka")


class Swap:
    """A data directory and the broker that uses it.

    Args:
        folder: for the directory, configuration and output.
        voters_in_log: how Kafka formats the directory, if it does.
    """

    def __init__(self, folder: Path, *, voters_in_log: bool = False) -> None:
        self.kafka = KafkaCluster(directory=folder, voters_in_log=voters_in_log)
        self.directory = self.kafka.data_directory()
        self.directory.parent.mkdir(parents=True)
        self.address = self.kafka.address(1)
        self.java = JavaTools(self.address)
        self.ids: dict[str, object] = {}
        self.written = 0
        self.epochs: list[int] = []

    def turn(self, owner: str, producer: Producer) -> None:
        """Have one of the two start, find everything, add to it, and stop."""
        if owner == "kafka":
            self.kafka.start(1)
            self.use(owner, producer)
            self.add_what_only_kafka_has()
            self.kafka.stop(1)
        else:
            port = int(self.address.rpartition(":")[2])
            with RefBroker(data_dir=self.directory, port=port, settings=EAGER) as broker:
                for _ in range(3):
                    # Snapshots are taken each second, and the log behind them is cleaned each minute.
                    broker.clock.step(61)
                self.use(owner, producer)
                broker.clock.step(61)
        self.check_epochs()
        self.check_files()

    def use(self, owner: str, producer: Producer) -> None:
        with Admin(bootstrap_servers=self.address) as admin:
            if not self.ids:
                admin.create_topics([NewTopic("shared", num_partitions=PARTITIONS, replication_factor=1)])
            found = admin.describe_topics(self.ids)
            assert {name: topic.topic_id for name, topic in found.items()} == self.ids
            self.check_records()
            for number in range(RECORDS):
                producer.send("shared", b"%d" % (self.written + number), partition=number % PARTITIONS)
            producer.flush()
            self.written += RECORDS
            self.check_records()
            own = [ConfigResource.topic(topic) for topic in self.ids if topic != "shared"]
            for configs in admin.describe_configs(own).values():
                assert configs["retention.ms"].value == RETENTION_MS
            name = f"of-{owner}-{len(self.epochs)}"
            admin.create_topics([NewTopic(name, 3, 1, configs={"cleanup.policy": "delete"})])
            admin.incremental_alter_configs(
                {ConfigResource.topic(name): [AlterConfig.set("retention.ms", RETENTION_MS)]}
            )
            found = admin.describe_topics(["shared", name, *self.ids])
            self.ids = {topic: description.topic_id for topic, description in found.items()}

    def check_records(self) -> None:
        """Every record is there once, in the order of its partition, and can be read."""
        partitions = [TopicPartition("shared", number) for number in range(PARTITIONS)]
        with Consumer(bootstrap_servers=self.address, auto_offset_reset="earliest") as consumer:
            consumer.assign(partitions)
            read: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
            while sum(map(len, read.values())) < self.written:
                found = consumer.poll(10)
                assert found
                for record in found:
                    read[record.partition].append(int(record.value))
            ends = consumer.end_offsets(partitions)
        assert read == {number: list(range(number, self.written, PARTITIONS)) for number in range(PARTITIONS)}
        assert {one.partition: end for one, end in ends.items()} == {n: len(values) for n, values in read.items()}

    # What refbroker keeps and does not act on

    def add_what_only_kafka_has(self) -> None:
        """A user and an access control entry each time; a quota, features and committed offsets the first time."""
        turn = len(self.epochs)
        self.run(CONFIGS, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]",
                 "--entity-type", "users", "--entity-name", f"user{turn}")  # fmt: skip
        self.run(ACLS, "--add", "--allow-principal", f"User:bob{turn}", "--operation", "Read",
                 "--topic", "secret")  # fmt: skip
        if turn < 2:
            self.run(CONFIGS, "--alter", "--add-config", "producer_byte_rate=104857600", "--entity-type", "users",
                     "--entity-name", "alice", "--entity-type", "clients", "--entity-default")  # fmt: skip
            self.run(GROUPS, "--reset-offsets", "--group", "readers", "--topic", "shared", "--to-offset", "7",
                     "--execute")  # fmt: skip
            levels = [part for name, level in FEATURES.items() for part in ("--feature", f"{name}={level}")]
            self.run("org.apache.kafka.tools.FeatureCommand", "upgrade", *levels)

    def run(self, tool: str, *arguments: str) -> str:
        done = run_tool(tool, "--bootstrap-server", self.address, *arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def check_what_only_kafka_has(self, turns: list[int]) -> None:
        users = self.run(CONFIGS, "--describe", "--entity-type", "users")
        for turn in turns:
            assert (
                f"SCRAM credential configs for user-principal 'user{turn}' are SCRAM-SHA-256=iterations=8192" in users
            )
        quotas = self.run(CONFIGS, "--describe", "--entity-type", "users", "--entity-name", "alice",
                          "--entity-type", "clients", "--entity-default")  # fmt: skip
        assert "producer_byte_rate=1.048576E8" in quotas
        acls = self.run(ACLS, "--list", "--topic", "secret")
        assert sorted(re.findall(r"principal=User:bob(\d+)", acls)) == [str(turn) for turn in turns]
        groups = self.run(GROUPS, "--describe", "--group", "readers", "--offsets")
        assert len(re.findall(rf"readers +shared +\d +7 +{self.written // PARTITIONS} ", groups)) == PARTITIONS, groups
        features = self.run("org.apache.kafka.tools.FeatureCommand", "describe")
        for name, level in FEATURES.items():
            assert re.search(rf"{name}\s.*FinalizedVersionLevel: {level}\s", features), features

    # The files after a turn

    def check_epochs(self) -> None:
        """They grow, in the metadata log and in those of the partitions."""
        state = json.loads((self.directory / "__cluster_metadata-0" / "quorum-state").read_text())
        self.epochs.append(state["leaderEpoch"])
        assert self.epochs == sorted(set(self.epochs))
        assert state["data_version"] == int(self.kafka.voters_in_log)
        for segment in sorted(self.directory.glob("*-*/*.log")):
            epochs = [batch.partition_leader_epoch for batch in batch_headers(segment.read_bytes())]
            assert epochs == sorted(epochs), segment

    def check_files(self) -> None:
        """Of a clean stop: all of them can be read by Kafka's tool."""
        log = self.directory / "__cluster_metadata-0"
        mark = json.loads((self.directory / ".kafka_cleanshutdown").read_text())
        assert mark["brokerEpoch"] > 0
        files = [*log.glob("*.log"), *log.glob("*.checkpoint")]
        names = ",".join(map(str, sorted(files)))
        output = run_tool(DUMP, "--cluster-metadata-decoder", "--files", names, timeout=PROCESS).stdout
        for complaint in ("isvalid: false", "Exception", "Could not", "Mismatch", "Found timestamp", "corrupt"):
            assert complaint not in output, output[:3000]
        assert output.count("Dumping ") == len(files)
        assert output.count("SnapshotFooter") == len(list(log.glob("*.checkpoint")))


@pytest.mark.parametrize(
    ("first", "voters_in_log"),
    [("refbroker", False), ("kafka", False), ("kafka", True)],
    ids=["begun by refbroker", "begun by Kafka", "begun by Kafka with voters in the log"],
)
def test_each_continues_where_the_other_stopped(tmp_path: Path, first: str, voters_in_log: bool) -> None:
    swap = Swap(tmp_path, voters_in_log=voters_in_log)
    with closing(swap.kafka):
        go_through_turns(swap, first)


def go_through_turns(swap: Swap, first: str) -> None:
    second = {"refbroker": "kafka", "kafka": "refbroker"}[first]
    # One idempotent producer goes through all turns: both must know its last sequences.
    with Producer(bootstrap_servers=swap.address, retries=10**6, delivery_timeout_ms=10**6) as producer:
        for owner in (first, second, first, second):
            swap.turn(owner, producer)
    # Nothing of the log before the last snapshots of refbroker is left that Kafka could have taken it from.
    log = swap.directory / "__cluster_metadata-0"
    assert not (log / f"{0:020d}.log").exists()
    swap.kafka.start(1)
    swap.check_records()
    swap.check_what_only_kafka_has([1, 3] if first == "refbroker" else [0, 2])


def test_each_continues_where_the_other_was_killed(tmp_path: Path) -> None:
    swap = Swap(tmp_path)
    port = int(swap.address.rpartition(":")[2])
    with closing(swap.kafka), Producer(bootstrap_servers=swap.address, delivery_timeout_ms=10**6) as producer:
        for _ in range(2):
            with BrokerProcess(swap.directory, port=port) as broker:
                swap.use("refbroker", producer)
                broker.stop(kill=True)
            swap.check_epochs()
            swap.kafka.start(1)
            swap.use("kafka", producer)
            swap.kafka.stop(1, kill=True)
            swap.check_epochs()
