"""`kclient` for replicas, brokers and features, as far as a cluster of one broker has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kclient import Admin
from kclient._text import id_text
from tests.support.command_line import Cli

pytestmark = pytest.mark.kafka


def rows(output: bytes) -> list[list[str]]:
    return [line.split("\t") for line in output.decode().splitlines()]


@pytest.fixture
def node(admin: Admin) -> str:
    """The id of a broker."""
    return str(next(iter(admin.describe_cluster().brokers)))


def test_topics_are_described_with_replicas_and_id(cli: Cli, admin: Admin, topic: str) -> None:
    cli("topics", "create", topic, "--partitions", "2", "--replication-factor", "1")
    described = admin.describe_topics([topic])[topic]
    leaders = [str(info.leader) for info in described.partitions]
    shown = rows(cli("topics", "describe", topic))
    assert [(row[0], row[1], row[2], row[4], row[5]) for row in shown] == [
        (topic, str(number), leader, leader, leader) for number, leader in enumerate(leaders)
    ]
    assert {row[-1] for row in shown} == {id_text(described.topic_id)}
    assert json.loads(cli("topics", "describe", topic, "--json"))[topic]["topic_id"] == id_text(described.topic_id)
    assert [row for row in rows(cli("topics", "describe")) if row[0] == topic] == shown
    for option in ("--under-replicated", "--under-min-isr", "--unavailable"):
        assert cli("topics", "describe", topic, option) == b""


def test_a_missing_topic_does_not_hide_the_others(cli: Cli, topic: str) -> None:
    cli("topics", "create", topic, "--partitions", "1", "--replication-factor", "1")
    done = cli.run("topics", "describe", topic, "no-such-topic")
    assert (done.returncode, rows(done.stdout)[0][0]) == (1, topic)
    assert done.stderr.startswith(b"kclient: no-such-topic: UNKNOWN_TOPIC_OR_PARTITION")


def test_a_plan_is_generated_executed_and_verified(cli: Cli, node: str, topic: str, tmp_path: Path) -> None:
    cli("topics", "create", topic, "--partitions", "2", "--replication-factor", "1")
    plan, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    plan.write_bytes(cli("reassignments", "generate", topic, "--brokers", node, "--rollback", str(undo)))
    partitions = json.loads(plan.read_bytes())["partitions"]
    assert [(each["partition"], each["replicas"]) for each in partitions] == [(0, [int(node)]), (1, [int(node)])]
    assert all(each["log_dirs"] != ["any"] for each in json.loads(undo.read_bytes())["partitions"])
    started = rows(cli("reassignments", "execute", str(plan), "--rollback", str(undo)))
    assert all(row[:2] == [topic, str(number)] and row[3] == node for number, row in enumerate(started))
    verified = json.loads(cli("reassignments", "verify", str(plan), "--keep-throttles", "--json"))
    assert [each["state"] for each in verified["partitions"]] == ["completed", "completed"]
    assert cli("reassignments", "cancel", str(undo), "--keep-throttles") == b""


def test_a_plan_with_the_directories_of_the_replicas_is_completed(
    cli: Cli, node: str, topic: str, tmp_path: Path
) -> None:
    cli("topics", "create", topic, "--partitions", "1", "--replication-factor", "1")
    undo = tmp_path / "undo.json"
    cli("reassignments", "generate", topic, "--brokers", node, "--rollback", str(undo))
    broker = str(json.loads(undo.read_bytes())["partitions"][0]["replicas"][0])
    cli("reassignments", "execute", str(undo), "--rollback", str(tmp_path / "again.json"))
    moves = rows(cli("reassignments", "verify", str(undo)))
    assert [row[2:4] for row in moves] == [["", "completed"], [broker, "completed"]]
    (replica,) = rows(cli("log-dirs", "replicas", topic))
    assert (replica[:3], replica[3]) == ([topic, "0", broker], moves[1][4])
    assert rows(cli("log-dirs", "move", f"{topic}:0", "--broker", broker, "--to", replica[3])) == [[topic, "0", broker]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--brokers", "999"], "the cluster has no broker 999 that is alive; there is "),
        (["--brokers", "1,x"], "is not a list of broker ids"),
        (["--brokers", "NODE", "--replication-factor", "9"], "needs 9 brokers for its replicas"),
    ],
    ids=["broker", "list", "factor"],
)
def test_a_plan_that_is_not_possible_is_not_generated(
    cli: Cli, node: str, topic: str, arguments: list[str], message: str
) -> None:
    cli("topics", "create", topic, "--partitions", "1", "--replication-factor", "1")
    done = cli.run("reassignments", "generate", topic, *(node if each == "NODE" else each for each in arguments))
    assert done.returncode in (1, 2)
    assert message in done.stderr.decode()
    assert done.stdout == b""


def test_leaders_that_are_right_need_no_election(cli: Cli, topic: str, tmp_path: Path) -> None:
    cli("topics", "create", topic, "--partitions", "2", "--replication-factor", "1")
    assert rows(cli("leaders", "elect", topic)) == [[topic, "0", "not needed"], [topic, "1", "not needed"]]
    file = tmp_path / "partitions.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 1}]}))
    found = json.loads(cli("leaders", "elect", "--from-file", str(file), "--unclean", "--json"))
    assert found == [{"topic": topic, "partition": 1, "elected": False}]
    file.write_text("{}")
    assert cli.run("leaders", "elect", "--from-file", str(file)).returncode == 2
    assert cli.run("leaders", "elect").returncode == 2


def test_directories_have_space(cli: Cli, node: str) -> None:
    for broker, _, state, count, used, usable, total in rows(cli("log-dirs", "describe", "--broker", node)):
        assert (broker, state) == (node, "online")
        assert int(count) >= 0
        assert int(used) >= 0
        assert 0 < int(usable) <= int(total)
    absent = cli.run("log-dirs", "describe", "--broker", "999")
    assert (absent.returncode, b"no broker 999 that is alive" in absent.stderr) == (1, True)


def test_the_cluster_and_its_brokers_are_shown(cli: Cli, admin: Admin, node: str) -> None:
    cluster = admin.describe_cluster()
    assert rows(cli("cluster", "describe")) == [[str(cluster.cluster_id), str(len(cluster.brokers))]]
    shown = rows(cli("cluster", "brokers", "--fenced"))
    assert node in {row[0] for row in shown}
    assert {row[4] for row in shown} == {"alive"}
    assert [each["node_id"] for each in json.loads(cli("cluster", "brokers", "--json"))] == list(cluster.brokers)


def test_the_quorum_and_the_features_are_shown(cli: Cli, admin: Admin) -> None:
    quorum = admin.describe_metadata_quorum()
    assert dict(rows(cli("quorum", "status")))["leader"] == str(quorum.leader_id)
    assert rows(cli("quorum", "replication"))[0][-1] == "leader"
    assert json.loads(cli("quorum", "status", "--json"))["leader_id"] == quorum.leader_id
    features = {row[0]: [int(level) for level in row[1:4]] for row in rows(cli("features", "describe"))}
    assert all(lowest <= highest and level <= highest for lowest, highest, level in features.values())
    _, highest, level = features["metadata.version"]
    same = f"metadata.version={level}"
    assert cli("features", "downgrade", same, "--dry-run") == f"metadata.version\t{level}\n".encode()
    refused = cli.run("features", "upgrade", f"metadata.version={highest + 100}", "--dry-run")
    assert (refused.returncode, b"INVALID_UPDATE_VERSION" in refused.stderr) == (1, True), refused.stderr


def test_resources_with_settings_are_listed(cli: Cli, node: str, topic: str) -> None:
    cli("topics", "create", topic, "--partitions", "1", "--replication-factor", "1")
    assert ["topic", topic] in rows(cli("configs", "list", "--type", "topic"))
    assert ["broker", node] in rows(cli("configs", "list", "--type", "brokers"))
    assert b"there is no 'things'" in cli.run("configs", "list", "--type", "things").stderr


def test_a_timeout_limits_a_call_without_a_broker(cli: Cli) -> None:
    done = cli.run("-b", "localhost:1", "topics", "list", "--timeout", "1")
    assert done.returncode == 1
    assert b"list_topics did not finish within 1 s" in done.stderr
