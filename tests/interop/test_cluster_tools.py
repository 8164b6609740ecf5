"""Kafka's own tools for replicas, features and the quorum beside `kclient`, on the same cluster of three nodes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, NewTopic, TopicPartition
from kclient.admin import ConfigResource
from tests.support.command_line import Cli
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import run_tool
from tests.support.kafka.tools import TOOLS, JavaTools
from tests.support.names import unique
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.not_secured("compares output of plaintext tools")]


@pytest.fixture
def servers(kafka3: KafkaCluster) -> str:
    return kafka3.bootstrap_servers


@pytest.fixture
def tools(servers: str) -> JavaTools:
    return JavaTools(servers)


@pytest.fixture
def kclient(servers: str) -> Cli:
    return Cli(servers)


@pytest.fixture
def topic(servers: str) -> str:
    """A topic of three partitions, all of them on brokers 1 and 2."""
    name = unique("tools")
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, replica_assignment={number: [1, 2] for number in range(3)})])
    return name


def reassign(tools: JavaTools, *arguments: str) -> str:
    return tools.run(f"{TOOLS}.reassign.ReassignPartitionsCommand", *arguments)


def rows(output: bytes) -> list[list[str]]:
    return [line.split("\t") for line in output.decode().splitlines()]


def documents(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_kafkas_tool_executes_a_plan_of_kclient(tools: JavaTools, kclient: Cli, topic: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(kclient("reassignments", "generate", topic, "--brokers", "2,3"))
    executed = reassign(tools, "--execute", "--reassignment-json-file", str(plan), "--throttle", "50000000")
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1,{topic}-2" in executed, executed
    wait_until(lambda: kclient.run("reassignments", "verify", str(plan)).returncode == 0, CHANGE)
    verified = reassign(tools, "--verify", "--reassignment-json-file", str(plan))
    assert verified.count("is completed") == 3, verified
    settings = tools.topic_configs(topic, "--describe")
    assert "throttled" not in settings, "kclient removes the throttles that Kafka's tool has set"


def test_kclient_executes_a_plan_of_kafkas_tool(tools: JavaTools, kclient: Cli, topic: str, tmp_path: Path) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generated = reassign(tools, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,3")
    before, proposed = documents(generated)
    ours = json.loads(kclient("reassignments", "generate", "--topics-file", str(topics), "--brokers", "1,3"))
    assert [set(each) for each in ours["partitions"]] == [set(each) for each in proposed["partitions"]]
    assert {frozenset(each["replicas"]) for each in proposed["partitions"] + ours["partitions"]} == {frozenset({1, 3})}
    plan, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    plan.write_text(json.dumps(proposed))
    done = kclient.run("reassignments", "execute", str(plan), "--rollback", str(undo), "--throttle", "50000000")
    assert done.returncode == 0, done.stderr
    assert json.loads(undo.read_text()) == before
    wait_until(
        lambda: reassign(tools, "--verify", "--reassignment-json-file", str(plan)).count("is completed") == 3, CHANGE
    )
    assert kclient.run("reassignments", "verify", str(plan)).returncode == 0
    assert "throttled" not in tools.topic_configs(topic, "--describe")


def test_both_tools_set_the_same_throttles(
    tools: JavaTools, kclient: Cli, topic: str, servers: str, tmp_path: Path
) -> None:
    other = f"{topic}-other"
    names = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
    lists = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(other, replica_assignment={number: [1, 2] for number in range(3)})])

        def throttles(name: str) -> list[str | None]:
            of_topic = admin.describe_configs(ConfigResource.topic(name))[ConfigResource.topic(name)]
            brokers = [ConfigResource.broker(node) for node in (1, 2, 3)]
            of_brokers = admin.describe_configs(brokers)
            entries = [of_topic.get(each) for each in lists]
            entries += [of_brokers[broker].get(each) for broker in brokers for each in names]
            return [entry.value if entry else None for entry in entries]

        def plan(name: str) -> str:
            entries = [{"topic": name, "partition": number, "replicas": [3, 1 + number % 2]} for number in range(3)]
            file = tmp_path / f"{name}.json"
            file.write_text(json.dumps({"version": 1, "partitions": entries}))
            return str(file)

        reassign(tools, "--execute", "--reassignment-json-file", plan(topic), "--throttle", "1000")
        wait_until(lambda: throttles(topic)[0], CHANGE)
        theirs = throttles(topic)
        assert theirs == ["0:1,0:2,1:1,1:2,2:1,2:2", "0:3,1:3,2:3", *["1000"] * 6]
        reassign(tools, "--cancel", "--reassignment-json-file", plan(topic))
        wait_until(lambda: throttles(topic) == ["", "", *[None] * 6], CHANGE)
        done = kclient.run("reassignments", "execute", plan(other), "--additional", "--throttle", "1000")
        assert done.returncode == 0, done.stderr
        wait_until(lambda: throttles(other) == theirs, CHANGE)
        kclient("reassignments", "cancel", plan(other))
        wait_until(lambda: throttles(other) == ["", "", *[None] * 6], CHANGE)


def test_kafka_leader_election_and_kclient_agree(
    tools: JavaTools, kclient: Cli, topic: str, servers: str, tmp_path: Path
) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        keys = [TopicPartition(topic, number) for number in range(3)]
        admin.alter_partition_reassignments(dict.fromkeys(keys, (2, 1)))
        wait_until(lambda: not admin.list_partition_reassignments(keys), CHANGE)
        file = tmp_path / "partitions.json"
        file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0}]}))
        elected = tools.run(
            f"{TOOLS}.LeaderElectionCommand", "--election-type", "preferred", "--path-to-json-file", str(file)
        )
        assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in elected, elected
        assert rows(kclient("leaders", "elect", "--from-file", str(file))) == [[topic, "0", "not needed"]]
        assert rows(kclient("leaders", "elect", topic)) == [
            [topic, "0", "not needed"],
            [topic, "1", "elected"],
            [topic, "2", "elected"],
        ]
        repeated = tools.run(
            f"{TOOLS}.LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "1"
        )
        assert f"Valid replica already elected for partitions {topic}-1" in repeated, repeated


def test_kafka_log_dirs_and_kclient_show_the_same_replicas(tools: JavaTools, kclient: Cli, topic: str) -> None:
    (document,) = documents(tools.run(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic))
    theirs = sorted(
        [each["partition"], str(broker["broker"]), directory["logDir"], str(each["size"]), str(each["offsetLag"])]
        for broker in document["brokers"]
        for directory in broker["logDirs"]
        for each in directory["partitions"]
    )
    ours = sorted([f"{row[0]}-{row[1]}", *row[2:6]] for row in rows(kclient("log-dirs", "replicas", topic)))
    assert ours == theirs
    assert len(ours) == 6


def test_kafka_features_and_kclient_show_the_same_levels(tools: JavaTools, kclient: Cli) -> None:
    described = tools.run(f"{TOOLS}.FeatureCommand", "describe")
    pattern = r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)"
    theirs = {found[0]: found[1:] for found in re.findall(pattern, described)}
    ours = {row[0]: tuple(row[1:4]) for row in rows(kclient("features", "describe"))}
    assert set(ours) == set(theirs)
    # Kafka's tool shows the levels of this feature by the names of its own releases.
    assert {name: levels for name, levels in ours.items() if name != "metadata.version"} == {
        name: levels for name, levels in theirs.items() if name != "metadata.version"
    }
    level = int(ours["transaction.version"][2])
    for command, wanted in (("upgrade", level + 9), ("downgrade", level - 1)):
        argument = f"transaction.version={wanted}"
        java = tools.run(f"{TOOLS}.FeatureCommand", command, "--feature", argument, "--dry-run")
        done = kclient.run("features", command, argument, "--dry-run")
        assert ("can be" in java) == (done.returncode == 0), (java, done.stderr)


def test_kafka_metadata_quorum_and_kclient_show_the_same_quorum(tools: JavaTools, kclient: Cli) -> None:
    status = tools.run(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
    theirs = dict(re.findall(r"^(\w+): +(.*)$", status, re.MULTILINE))
    ours = dict(rows(kclient("quorum", "status")))
    assert (ours["cluster id"], ours["leader"], ours["leader epoch"]) == (
        theirs["ClusterId"],
        theirs["LeaderId"],
        theirs["LeaderEpoch"],
    )
    assert int(ours["high watermark"]) >= int(theirs["HighWatermark"])
    for replicas, shown_as in (("CurrentVoters", "voters"), ("CurrentObservers", "observers")):
        assert [
            f"{each['id']}{'@' if 'endpoints' in each else ''}{','.join(each.get('endpoints', ()))}"
            for each in json.loads(theirs[replicas])
        ] == ours[shown_as].split()
    table = tools.run(f"{TOOLS}.MetadataQuorumCommand", "describe", "--replication")
    lines = [line.split() for line in table.splitlines() if re.match(r"\d+\s", line)]
    shown = rows(kclient("quorum", "replication"))
    assert [(line[0], line[-1].lower()) for line in lines] == [(row[0], row[-1]) for row in shown]


def test_kafka_topics_and_kclient_show_the_same_partitions(
    kafka3: KafkaCluster, tools: JavaTools, kclient: Cli, topic: str
) -> None:
    def theirs(*options: str) -> set[tuple[str, ...]]:
        pattern = r"Partition: (\d+)\tLeader: (\S+)\s+Replicas: (\S*)\s+Isr: (\S*)\s+Elr: (\S*)\s+LastKnownElr: (\S*)"
        output = tools.topics("--describe", "--topic", topic, *options)
        return {tuple(part.strip() for part in found) for found in re.findall(pattern, output)}

    def ours(*options: str) -> set[tuple[str, ...]]:
        done = kclient.run("topics", "describe", topic, *options)
        assert done.returncode == 0, done.stderr
        return {(*row[1:3], *row[4:8]) for row in rows(done.stdout)}

    assert ours() == theirs()
    assert len(ours()) == 3
    identity = rows(kclient("topics", "describe", topic))[0][-1]
    assert f"TopicId: {identity}" in tools.topics("--describe", "--topic", topic)
    kafka3.stop(2)
    try:
        wait_until(lambda: len(ours("--under-replicated")) == 3, CHANGE)
        for options, java in (
            ("--under-replicated", "--under-replicated-partitions"),
            ("--at-min-isr", "--at-min-isr-partitions"),
            ("--under-min-isr", "--under-min-isr-partitions"),
            ("--unavailable", "--unavailable-partitions"),
        ):
            assert ours(options) == theirs(java), options
    finally:
        kafka3.start(2)


def test_a_broker_that_will_not_return_is_unregistered(kafka3: KafkaCluster, kclient: Cli) -> None:
    def brokers() -> dict[str, str]:
        done = kclient.run("cluster", "brokers", "--fenced")
        return {row[0]: row[4] for row in rows(done.stdout)}

    kafka3.stop(3)
    try:
        wait_until(lambda: brokers() == {"1": "alive", "2": "alive", "3": "fenced"}, CHANGE)
        arguments = "list-endpoints", "--bootstrap-server", kafka3.bootstrap_servers, "--include-fenced-brokers"
        theirs = run_tool(f"{TOOLS}.ClusterTool", *arguments).stdout
        assert re.search(r"^3 .*\bfenced\b", theirs, re.MULTILINE), theirs
        assert kclient.run("cluster", "unregister", "3").stdout == b"3\n"
        wait_until(lambda: set(brokers()) == {"1", "2"}, CHANGE)
        again = kclient.run("cluster", "unregister", "3")
        assert (again.returncode, b"BROKER_ID_NOT_REGISTERED" in again.stderr) == (1, True)
    finally:
        kafka3.start(3)
    wait_until(lambda: brokers() == {"1": "alive", "2": "alive", "3": "alive"}, CHANGE)


def test_a_controller_becomes_a_voter_and_is_removed_again(needs_kafka: None, tmp_path: Path) -> None:
    with (
        KafkaCluster(2, directory=tmp_path, voters_in_log=True) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        kclient, tools = Cli(cluster.bootstrap_servers), JavaTools(cluster.bootstrap_servers)

        def observers() -> list[str]:
            return [row[1] for row in rows(kclient("quorum", "replication")) if (row[0], row[-1]) == ("2", "observer")]

        wait_until(lambda: [each for each in observers() if each], CHANGE)
        # The same node is an observer as a controller, with a directory, and may be one as a broker.
        (directory,) = {each for each in observers() if each}
        address = f"CONTROLLER://{cluster.address(2, 'CONTROLLER')}"
        assert kclient("quorum", "add-voter", "2", directory, "--endpoint", address) == f"2\t{directory}\n".encode()

        def voters() -> set[int]:
            return {voter.replica_id for voter in admin.describe_metadata_quorum().voters}

        wait_until(lambda: voters() == {1, 2}, CHANGE)
        quorum = admin.describe_metadata_quorum()
        assert {str(each) for endpoints in quorum.nodes.values() for each in endpoints} >= {address}
        again = kclient.run("quorum", "add-voter", "2", directory, "--endpoint", address)
        assert (again.returncode, b"DUPLICATE_VOTER" in again.stderr) == (1, True), again.stderr
        status = tools.run(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
        (current,) = re.findall(r"^CurrentVoters: +(.*)$", status, re.MULTILINE)
        assert (2, directory) in {(each["id"], each.get("directoryId")) for each in json.loads(current)}
        assert f"2-{directory}@{address}" in dict(rows(kclient("quorum", "status")))["voters"].split(" ")
        assert kclient("quorum", "remove-voter", "2", directory) == f"2\t{directory}\n".encode()
        wait_until(lambda: voters() == {1}, CHANGE)
        gone = kclient.run("quorum", "remove-voter", "2", directory)
        assert (gone.returncode, b"VOTER_NOT_FOUND" in gone.stderr) == (1, True), gone.stderr


def test_static_voters_cannot_be_changed(kclient: Cli, servers: str) -> None:
    directory = "kKqfBAbTQfKvCVZ6MwW4Fg"
    refused = kclient.run("quorum", "add-voter", "4", directory, "--endpoint", "CONTROLLER://127.0.0.1:1")
    assert refused.returncode == 1
    assert b"UNSUPPORTED_VERSION" in refused.stderr, refused.stderr


def test_a_plan_moves_a_replica_to_another_directory(needs_kafka: None, tmp_path: Path) -> None:
    directories = [str(tmp_path / name) for name in ("one", "two")]
    with (
        KafkaCluster(1, directory=tmp_path, config={"log.dirs": ",".join(directories)}) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        kclient, tools = Cli(cluster.bootstrap_servers), JavaTools(cluster.bootstrap_servers)
        admin.create_topics(NewTopic("moved", 1, 1))
        kclient("produce", "moved", stdin=b"a line of text\n" * 1000)
        (before,) = rows(kclient("log-dirs", "replicas", "moved"))
        (target,) = set(directories) - {before[3]}
        plan = tmp_path / "plan.json"
        entry = {"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": [target]}
        plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        assert kclient.run("reassignments", "verify", str(plan), "--keep-throttles").returncode == 1
        done = kclient.run("reassignments", "execute", str(plan), "--log-dirs-throttle", "100000000")
        assert done.returncode == 0, done.stderr
        restored = json.loads(done.stderr.decode().partition("assignment: ")[2].splitlines()[0])
        assert restored["partitions"][0]["log_dirs"] == [before[3]]
        wait_until(lambda: kclient.run("reassignments", "verify", str(plan)).returncode == 0, CHANGE)
        verified = reassign(tools, "--verify", "--reassignment-json-file", str(plan))
        assert "Reassignment of replica moved-0-1 completed successfully" in verified, verified
        assert rows(kclient("log-dirs", "replicas", "moved"))[0][3:] == [target, *before[4:]]
        broker = admin.describe_configs(ConfigResource.broker(1))[ConfigResource.broker(1)]
        rate = broker.get("replica.alter.log.dirs.io.max.bytes.per.second")
        assert rate is None or rate.is_default
        moved = kclient.run("log-dirs", "move", "moved:0", "--broker", "1", "--to", "/no/such/directory")
        assert (moved.returncode, b"LOG_DIR_NOT_FOUND" in moved.stderr) == (1, True), moved.stderr
