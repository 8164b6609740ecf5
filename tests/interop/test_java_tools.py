"""Apache Kafka's own command-line tools against the broker under test: each must do its work and say so.

With `--security=sasl_ssl` they log in over TLS. Transactions are in `test_java_transactions`.
"""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.conftest import Target
from tests.interop.members import Java, poll_until
from tests.support.kafka.jars import run_tool
from tests.support.kafka.tools import KEYED_INPUT, KEYED_OUTPUT, TOOLS, JavaTools, keyed_lines
from tests.support.names import unique
from tests.support.waiting import wait_until

FILLED_RECORDS = 500
GROUP_TOOL = f"{TOOLS}.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def described(java: JavaTools) -> str:
    """A topic of three partitions, with a setting of its own, that no test changes."""
    topic = unique("described")
    java.create_topic(topic, partitions=3, **{"retention.ms": "3600000"})
    return topic


@pytest.fixture(scope="module")
def filled(java: JavaTools) -> str:
    """A topic with 500 gzip records in its only partition, that no test changes."""
    topic = unique("filled")
    java.create_topic(topic)
    java.produce(topic, keyed_lines(FILLED_RECORDS), *KEYED_INPUT, "--compression-codec", "gzip")
    return topic


def first_segment(target: Target, topic: str) -> Path:
    """The first segment of a topic's partition 0; skips where the broker's files are not current."""
    if not target.data_directories:
        pytest.skip("the broker's files are not known: KCLIENT_TEST_DATA_DIR")
    return next(log for folder in target.data_directories for log in sorted(folder.glob(f"{topic}-0/*.log")))


# Metadata and topics


def test_api_versions(java: JavaTools) -> None:
    output = java.run(f"{TOOLS}.BrokerApiVersionsCommand")
    for api in ("Produce(0):", "Fetch(1):", "ListOffsets(2):", "Metadata(3):", "ApiVersions(18):"):
        assert api in output
    assert "UNKNOWN(" not in output


def test_cluster_id(java: JavaTools) -> None:
    output = run_tool(
        f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server", java.bootstrap_servers, *java.security
    ).stdout
    assert re.search(r"Cluster ID: \S+", output), output


def test_topic_create_then_list_then_delete(java: JavaTools, topic: str) -> None:
    java.create_topic(topic, partitions=2)
    assert topic in java.topics("--list").splitlines()
    assert "rror" not in java.topics("--delete", "--topic", topic)
    assert topic not in java.topics("--list").splitlines()


def test_topic_create_refuses_one_that_exists(java: JavaTools, described: str) -> None:
    assert "already exists" in java.topics("--create", "--topic", described)


def test_topic_create_refuses_a_bad_name(java: JavaTools) -> None:
    assert re.search("InvalidTopic|is invalid", java.topics("--create", "--topic", "bad name!"))


def test_topic_create_refuses_more_replicas_than_brokers(java: JavaTools, topic: str) -> None:
    output = java.topics("--create", "--topic", topic, "--replication-factor", "99")
    assert re.search("InvalidReplicationFactor|replication factor", output)


def test_topic_describe(java: JavaTools, described: str) -> None:
    output = java.topics("--describe", "--topic", described)
    assert "PartitionCount: 3" in output
    assert re.search("Configs: .*retention.ms=3600000", output)
    assert re.search(r"Partition: 2\s+Leader: [0-9]+\s+Replicas: [0-9,]+\s+Isr: [0-9]", output), output


def test_topic_describe_says_that_one_is_missing(java: JavaTools, topic: str) -> None:
    assert "does not exist" in java.topics("--describe", "--topic", topic)


def test_topic_add_partitions(java: JavaTools, topic: str) -> None:
    java.create_topic(topic, partitions=3)
    assert "rror" not in java.topics("--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in java.topics("--describe", "--topic", topic)


def test_topic_refuses_fewer_partitions(java: JavaTools, described: str) -> None:
    output = java.topics("--alter", "--topic", described, "--partitions", "2")
    assert "currently has 3 partition" in output, output


# Configs


def test_config_alter_describe_and_delete(java: JavaTools, topic: str) -> None:
    java.create_topic(topic)
    altered = java.topic_configs(topic, "--alter", "--add-config", "cleanup.policy=compact,max.message.bytes=2000000")
    assert f"Completed updating config for topic {topic}" in altered
    described = java.topic_configs(topic, "--describe")
    for expected in ("cleanup.policy=compact", "max.message.bytes=2000000", "DYNAMIC_TOPIC_CONFIG"):
        assert expected in described
    assert "Completed" in java.topic_configs(topic, "--alter", "--delete-config", "cleanup.policy")
    assert "cleanup.policy=compact" not in java.topic_configs(topic, "--describe")


def test_config_refuses_a_bad_value(java: JavaTools, described: str) -> None:
    output = java.topic_configs(described, "--alter", "--add-config", "retention.ms=abc")
    assert re.search("InvalidConfiguration|Invalid value|InvalidRequest", output), output


def test_config_describe_broker(java: JavaTools) -> None:
    nodes = re.search(r"id: (\d+)", java.run(f"{TOOLS}.BrokerApiVersionsCommand"))
    assert nodes is not None
    output = java.run(
        "kafka.admin.ConfigCommand", "--entity-type", "brokers", "--entity-name", nodes[1], "--describe", "--all"
    )
    assert re.search("log.retention|num.partitions", output), output
    assert re.search("DEFAULT_CONFIG|STATIC_BROKER", output)


# Produce and consume


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_roundtrip(java: JavaTools, topic: str, codec: str) -> None:
    java.create_topic(topic)
    sent = keyed_lines(FILLED_RECORDS)
    java.produce(topic, sent, *KEYED_INPUT, "--compression-codec", codec)
    received = java.consume(topic, FILLED_RECORDS, *KEYED_OUTPUT)
    assert received.replace(f"Processed a total of {FILLED_RECORDS} messages\n", "") == sent


def test_headers_and_timestamp(java: JavaTools, topic: str) -> None:
    java.create_topic(topic)
    java.produce(
        topic, "h1:a,h2:b\tkey\tval\n",
        "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true",
    )  # fmt: skip
    shown = ("headers", "key", "offset", "partition", "timestamp")
    output = java.consume(
        topic, 1, *(part for name in shown for part in ("--formatter-property", f"print.{name}=true"))
    )
    assert re.search(r"CreateTime:[0-9]{13}\s+Partition:0\s+Offset:0\s+h1:a,h2:b\s+key\s+val", output), output


def test_consume_from_offset(java: JavaTools, filled: str) -> None:
    output = java.consume(filled, 400, offset="100")
    assert "Processed a total of 400 messages" in output
    assert output.splitlines()[0] == "v101"


def test_record_too_large(java: JavaTools, topic: str) -> None:
    java.create_topic(topic)
    output = java.produce(topic, b"x" * 1_500_000, "--sync", "--command-property", "max.request.size=4000000")
    assert re.search("RecordTooLarge|larger than|MESSAGE_TOO_LARGE", output), output[-2000:]


# Offsets


@pytest.mark.parametrize(
    ("time", "offset"),
    [
        pytest.param(-1, str(FILLED_RECORDS), id="latest"),
        pytest.param(-2, "0", id="earliest"),
        pytest.param(-3, "[0-9]+", id="max_timestamp"),
        pytest.param(1000, "0", id="by_timestamp"),
    ],
)
def test_offsets(java: JavaTools, filled: str, time: int, offset: str) -> None:
    output = java.offsets(filled, time)
    assert re.search(rf"^{filled}:0:{offset}$", output, re.MULTILINE), output


def test_delete_records(java: JavaTools, topic: str, tmp_path: Path) -> None:
    java.create_topic(topic)
    java.produce(topic, keyed_lines(FILLED_RECORDS))
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 200}], "version": 1}))
    output = java.run(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert re.search(rf"partition: {topic}-0\s+low_watermark: 200", output), output
    assert f"{topic}:0:200" in java.offsets(topic, -2).splitlines()


# The clients' own system tests


@pytest.mark.not_secured("the tool has no options for security")
def test_client_compatibility(java: JavaTools, target: Target, topic: str) -> None:
    # The tool insists on creating a topic of this name.
    java.topics("--delete", "--topic", "newtopic", "--if-exists")
    expected = {
        "offsets-for-times-supported": True,
        "cluster-id-supported": True,
        "expect-record-too-large-exception": False,
        "num-cluster-nodes": target.bootstrap_servers.count(",") + 1,
        "create-topics-supported": True,
        # An answer that there is no authorizer counts as support.
        "describe-acls-supported": True,
        "describe-configs-supported": True,
        "idempotent-producer-supported": True,
    }
    options = [part for name, value in expected.items() for part in (f"--{name}", str(value))]
    output = java.run(f"{TOOLS}.ClientCompatibilityTest", "--topic", topic, *options)
    assert "SUCCESS" in output, output


def test_producer_perf(java: JavaTools, topic: str) -> None:
    output = java.run(
        f"{TOOLS}.ProducerPerformance", "--topic", topic, "--num-records", "20000", "--record-size", "100",
        "--throughput", "-1", "--command-property", "acks=all", "compression.type=lz4",
    )  # fmt: skip
    assert "20000 records sent" in output, output


def test_end_to_end_latency(java: JavaTools, topic: str) -> None:
    java.create_topic(topic)
    output = java.run(
        f"{TOOLS}.EndToEndLatency", "--topic", topic, "--num-records", "200", "--producer-acks", "1",
        "--record-size", "100",
    )  # fmt: skip
    assert "Avg latency:" in output, output
    assert "Percentiles:" in output
    assert "rror" not in output


def test_verifiable_producer(java: JavaTools, topic: str) -> None:
    output = java.run(f"{TOOLS}.VerifiableProducer", "--topic", topic, "--max-messages", "1000", "--acks", "-1")
    assert '"acked":1000' in output, output[-2000:]


# Groups


@pytest.fixture(scope="module")
def verified(java: JavaTools) -> str:
    """A topic with the verifiable producer's thousand records, that no test changes."""
    topic = unique("verified")
    java.create_topic(topic)
    java.run(f"{TOOLS}.VerifiableProducer", "--topic", topic, "--max-messages", "1000", "--acks", "-1")
    return topic


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="range"),
        pytest.param(("--group-instance-id", "i1"), id="static"),
        pytest.param(
            ("--assignment-strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"), id="cooperative"
        ),
    ],
)
def test_verifiable_consumer(java: JavaTools, verified: str, topic: str, options: tuple[str, ...]) -> None:
    output = java.run(
        f"{TOOLS}.VerifiableConsumer", "--topic", verified, "--group-id", topic, "--max-messages", "1000",
        "--reset-policy", "earliest", "--session-timeout", "10000", *options,
    )  # fmt: skip
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    committed = [event for event in events if event["name"] == "offsets_committed"]
    assert [event["partitions"] for event in events if event["name"] == "partitions_assigned"] == [
        [{"topic": verified, "partition": 0}]
    ]
    assert committed
    assert all(event["success"] for event in committed)
    assert committed[-1]["offsets"] == [{"topic": verified, "partition": 0, "offset": 1000}]
    assert "shutdown_complete" in [event["name"] for event in events]


def test_consumer_perf(java: JavaTools, topic: str) -> None:
    java.run(
        f"{TOOLS}.ProducerPerformance", "--topic", topic, "--num-records", "20000", "--record-size", "100",
        "--throughput", "-1", "--command-property", "acks=all",
    )  # fmt: skip
    output = java.run(f"{TOOLS}.ConsumerPerformance", "--topic", topic, "--num-records", "20000", "--timeout", "20000")
    assert re.search(r", 2[0-9]{4}, ", output), output


def test_consume_topics_by_their_pattern(java: JavaTools, topic: str) -> None:
    for name in ("a", "b"):
        java.create_topic(f"{topic}-{name}")
        java.produce(f"{topic}-{name}", keyed_lines(50))
    output = java.run(
        f"{TOOLS}.consumer.ConsoleConsumer", "--include", f"{re.escape(topic)}-(a|b)", "--from-beginning",
        "--max-messages", "100", "--timeout-ms", "20000",
    )  # fmt: skip
    assert "Processed a total of 100 messages" in output


def test_two_members_rebalance(java: JavaTools, topic: str) -> None:
    java.create_topic(topic, partitions=4)
    members = [Java(java.bootstrap_servers, topic, topic, security=java.security)]
    with ExitStack() as stack:
        stack.callback(members[0].close)
        poll_until(lambda: len(members[0].partitions) == 4)
        members.append(Java(java.bootstrap_servers, topic, topic, security=java.security))
        stack.callback(members[1].close)
        poll_until(lambda: [len(member.partitions) for member in members] == [2, 2])
        described = java.run(GROUP_TOOL, "--describe", "--group", topic, "--members")
        assert len(re.findall(rf"^{topic} .* 2 *$", described, re.MULTILINE)) == 2, described
    assert "partitions_revoked" in members[0].events


def test_group_command_lists_describes_resets_and_deletes(java: JavaTools, filled: str, topic: str) -> None:
    output = java.run(
        f"{TOOLS}.consumer.ConsoleConsumer", "--topic", filled, "--group", topic, "--from-beginning",
        "--max-messages", "300", "--timeout-ms", "20000",
    )  # fmt: skip
    assert "Processed a total of 300 messages" in output

    def command(*arguments: str) -> str:
        return java.run(GROUP_TOOL, *arguments, "--group", topic)

    assert topic in java.run(GROUP_TOOL, "--list").splitlines()
    assert re.search(f"{topic} +Classic +consumer", java.run(f"{TOOLS}.GroupsCommand", "--list"))
    assert re.search(f"{topic} +{filled} +0 +300 +500 +200 ", command("--describe"))
    assert re.search(f"{topic} .*Empty +0", command("--describe", "--state"))
    reset = ("--reset-offsets", "--topic", filled)
    assert re.search(f"{filled} +0 +0", command(*reset, "--to-earliest", "--dry-run"))
    assert re.search(f"{filled} +0 +250", command(*reset, "--shift-by", "-50", "--execute"))
    assert re.search(" 250 +500 +250 ", command("--describe"))
    assert re.search(f"{filled} +0 +Successful", command("--delete-offsets", "--topic", filled))
    assert "was successful" in command("--delete")
    assert re.search("GroupIdNotFound|not exist", command("--delete"))


# Cluster administration


def test_leader_election(java: JavaTools, described: str) -> None:
    tool = f"{TOOLS}.LeaderElectionCommand"
    for kind in ("preferred", "unclean"):
        output = java.run(tool, "--election-type", kind, "--topic", described, "--partition", "0")
        assert f"Valid replica already elected for partitions {described}-0" in output, output
    assert "Unknown" in java.run(tool, "--election-type", "preferred", "--topic", described, "--partition", "9")
    assert "rror" not in java.run(tool, "--election-type", "preferred", "--all-topic-partitions")


def test_reassign_list_and_verify(java: JavaTools, described: str, tmp_path: Path) -> None:
    tool = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    assert "No partition reassignments found" in java.run(tool, "--list")
    (node,) = re.findall(r"Partition: 0\s+Leader: (\d+)", java.topics("--describe", "--topic", described))
    plan = tmp_path / "plan.json"
    moves = [{"topic": described, "partition": number, "replicas": [int(node)]} for number in range(2)]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    output = java.run(tool, "--execute", "--reassignment-json-file", str(plan))
    assert "Successfully started partition reassignments" in output, output
    output = java.run(tool, "--verify", "--reassignment-json-file", str(plan))
    assert f"Reassignment of partition {described}-1 is completed." in output, output


def test_features(java: JavaTools) -> None:
    output = java.run(f"{TOOLS}.FeatureCommand", "describe")
    levels = r"SupportedMinVersion: 3\.3-IV3\s+SupportedMaxVersion: 4\.3-IV0\s+FinalizedVersionLevel: 4\.3-IV0"
    assert re.search(rf"Feature: metadata\.version\s+{levels}", output), output
    refused = java.run(f"{TOOLS}.FeatureCommand", "downgrade", "--feature", "metadata.version=29")
    assert "Refusing to perform the requested downgrade because it might delete metadata information" in refused
    unknown = java.run(f"{TOOLS}.FeatureCommand", "upgrade", "--feature", "no.such.feature=1")
    assert "does not support this feature" in unknown


def test_quorum(java: JavaTools) -> None:
    tool = f"{TOOLS}.MetadataQuorumCommand"
    status = java.run(tool, "describe", "--status")
    assert re.search(r"LeaderEpoch:\s+[1-9]", status), status
    # Controllers write twice a second, which followers have a little later.
    wait_until(lambda: re.search(r"MaxFollowerLag:\s+0\n", java.run(tool, "describe", "--status")))
    replication = java.run(tool, "describe", "--replication")
    assert re.search(r"\bLeader\s*$", replication), replication


def test_log_dirs(java: JavaTools, described: str) -> None:
    output = java.run(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", described)
    assert re.search(rf'"partitions":\[.*"{described}-0".*"version":1', output), output


def test_client_metrics(java: JavaTools, topic: str) -> None:
    tool, name = f"{TOOLS}.ClientMetricsCommand", f"metrics-of-{topic}"
    options = ("--metrics", "org.apache.kafka.producer.", "--interval", "5000", "--match", "client_id=[a-z]+")
    output = java.run(tool, "--alter", "--name", name, *options)
    assert f"Altered client metrics config for {name}" in output, output
    assert name in java.run(tool, "--list").splitlines()
    described = java.run(tool, "--describe", "--name", name)
    for expected in ("metrics=org.apache.kafka.producer.", "interval.ms=5000", "match=client_id=[a-z]+"):
        assert expected in described
    assert "Deleted client metrics config" in java.run(tool, "--delete", "--name", name)
    assert name not in java.run(tool, "--list").splitlines()


def test_group_configs(java: JavaTools, topic: str) -> None:
    tool, group = "kafka.admin.ConfigCommand", ("--entity-type", "groups", "--entity-name", f"group-of-{topic}")
    altered = java.run(tool, *group, "--alter", "--add-config", "share.auto.offset.reset=earliest")
    assert "Completed updating config for group" in altered, altered
    # What was set is not described here: the tool lists the groups first.
    refused = java.run(tool, *group, "--alter", "--add-config", "consumer.session.timeout.ms=1")
    assert "must be greater than or equal to group.consumer.min.session.timeout.ms" in refused, refused
    deleted = java.run(tool, *group, "--alter", "--delete-config", "share.auto.offset.reset")
    assert "Completed updating config for group" in deleted, deleted


def test_broker_logger_levels(java: JavaTools) -> None:
    tool = "kafka.admin.ConfigCommand"
    nodes = re.search(r"id: (\d+)", java.run(f"{TOOLS}.BrokerApiVersionsCommand"))
    assert nodes is not None
    logger = ("--entity-type", "broker-loggers", "--entity-name", nodes[1])
    (level,) = re.findall(r"root=(\w+)", java.run(tool, *logger, "--describe"))
    assert "Completed updating config" in java.run(tool, *logger, "--alter", "--add-config", f"root={level}")
    refused = java.run(tool, *logger, "--alter", "--add-config", "root=LOUD")
    assert "not a supported log level" in refused, refused


# The files


def test_dump_log(target: Target, filled: str) -> None:
    segment = first_segment(target, filled)
    output = run_tool(f"{TOOLS}.DumpLogSegments", "--files", str(segment), "--deep-iteration").stdout
    assert re.search(r"baseOffset: 0 lastOffset: \d+", output), output
    assert re.search("compresscodec: gzip.* isvalid: true", output)
    assert "isvalid: false" not in output


def test_dump_index(target: Target, java: JavaTools, topic: str) -> None:
    # Batches enough for entries, at Kafka's default of one in 4096 bytes.
    java.run(
        f"{TOOLS}.ProducerPerformance", "--topic", topic, "--num-records", "2000", "--record-size", "100",
        "--throughput", "-1", "--command-property", "batch.size=2000",
    )  # fmt: skip
    index = first_segment(target, topic).with_suffix(".index")
    output = run_tool(f"{TOOLS}.DumpLogSegments", "--files", str(index), "--index-sanity-check").stdout
    assert re.search("passed sanity check", output), output
    entries = run_tool(f"{TOOLS}.DumpLogSegments", "--files", str(index)).stdout
    assert re.search(r"offset: \d+ position: \d+", entries), entries
    assert "Mismatches" not in entries
