"""Replicas of three brokers: they move, with and without the command line, get new leaders, and are counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kclient import Admin, Consumer, NewTopic, Producer, TopicPartition
from kclient.admin import AlterConfig, ConfigResource, ElectionType, PartitionReassignment, TopicPartitionReplica
from kclient.errors import AdminError, BrokerIdNotRegisteredError, EligibleLeadersNotAvailableError
from kclient.types import Node
from tests.support.command_line import Cli
from tests.support.kafka.cluster import KafkaCluster
from tests.support.patience import CHANGE
from tests.support.reading import read
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka3, pytest.mark.slow]

RECORD = b"x" * 100_000
COUNT = 200
THROTTLE = 1_000
"""Bytes per second. After a first request of a megabyte, the copy of the records pauses for longer than a test runs."""


@pytest.fixture
def cluster(broker: KafkaCluster) -> Iterator[KafkaCluster]:
    """The three brokers; those that a test stopped run again afterwards."""
    yield broker
    for node in broker.node_ids:
        broker.start(node)


def create(admin: Admin, topic: str, *replicas: list[int], **settings: str) -> list[TopicPartition]:
    configs = {name.replace("_", "."): value for name, value in settings.items()}
    admin.create_topics([NewTopic(topic, replica_assignment=dict(enumerate(replicas)), configs=configs)])
    return [TopicPartition(topic, number) for number in range(len(replicas))]


def fill(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(COUNT):
            producer.send(topic, RECORD, partition=0)


def replicas(admin: Admin, topic: str) -> list[tuple[int, ...]]:
    return [info.replicas for info in admin.describe_topics([topic])[topic].partitions]


def in_sync(admin: Admin, topic: str) -> set[int]:
    return set(admin.describe_topics([topic])[topic].partitions[0].in_sync_replicas)


def leader(admin: Admin, topic: str) -> int | None:
    return admin.describe_topics([topic])[topic].partitions[0].leader


def brokers(admin: Admin) -> Mapping[int, Node]:
    return admin.describe_cluster(include_fenced_brokers=True).brokers


def shown(cli: Cli, *arguments: str) -> str:
    """The output of `topics describe`; while a broker is down, a warning on standard error is no fault."""
    done = cli.run("topics", "describe", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def throttles(admin: Admin, topic: str) -> set[str]:
    """The names of the throttles that are set on the topic and on the brokers."""
    resources = [ConfigResource.topic(topic), *map(ConfigResource.broker, admin.describe_cluster().brokers)]
    return {
        name
        for entries in admin.describe_configs(resources).values()
        for name, entry in entries.items()
        if "throttled" in name and entry.value and not entry.is_default
    }


def test_partitions_move_with_their_records(admin: Admin, bootstrap_servers: str, topic: str) -> None:
    first, second = create(admin, topic, [1, 2], [2, 3])
    fill(bootstrap_servers, topic)
    assert admin.alter_partition_reassignments({first: [3, 2], second: [1]}) == {first: None, second: None}
    wait_until(lambda: not admin.list_partition_reassignments([first, second]), CHANGE)
    wait_until(lambda: replicas(admin, topic) == [(3, 2), (1,)], CHANGE)
    with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([first])
        assert [record.value for record in read(consumer, COUNT, seconds=CHANGE)] == [RECORD] * COUNT


def test_a_move_in_progress_is_listed_and_can_be_cancelled(admin: Admin, bootstrap_servers: str, topic: str) -> None:
    (key,) = create(admin, topic, [1, 2])
    fill(bootstrap_servers, topic)
    limit = [AlterConfig.set(f"{role}.replication.throttled.rate", THROTTLE) for role in ("leader", "follower")]
    every = [AlterConfig.set(f"{role}.replication.throttled.replicas", "*") for role in ("leader", "follower")]
    every_broker = [ConfigResource.broker(node) for node in admin.describe_cluster().brokers]
    admin.incremental_alter_configs(dict.fromkeys(every_broker, limit) | {ConfigResource.topic(topic): every})
    try:
        admin.alter_partition_reassignments({key: [2, 3]})
        moving = admin.list_partition_reassignments()[key]
        assert moving == PartitionReassignment((2, 3, 1), (3,), (1,))
        assert moving.target_replicas == (2, 3)
        assert admin.alter_partition_reassignments({key: None}) == {key: None}
        assert key not in admin.list_partition_reassignments()
        wait_until(lambda: set(replicas(admin, topic)[0]) == {1, 2}, CHANGE)
    finally:
        undo = [AlterConfig.delete(change.name) for change in limit]
        admin.incremental_alter_configs(dict.fromkeys(every_broker, undo))


def test_the_preferred_leader_is_elected(admin: Admin, topic: str) -> None:
    (key,) = create(admin, topic, [1, 2])
    admin.alter_partition_reassignments({key: [2, 1]})
    wait_until(lambda: replicas(admin, topic) == [(2, 1)], CHANGE)
    assert leader(admin, topic) == 1
    assert admin.elect_leaders(ElectionType.PREFERRED, [key]) == {key: True}
    wait_until(lambda: leader(admin, topic) == 2, CHANGE)
    assert admin.elect_leaders(ElectionType.PREFERRED, [key]) == {key: False}


def test_an_unclean_leader_is_elected_only_on_request(
    cluster: KafkaCluster, admin: Admin, bootstrap_servers: str, topic: str, cli: Cli
) -> None:
    (key,) = create(admin, topic, [1, 2], min_insync_replicas="1", unclean_leader_election_enable="false")
    cluster.stop(2)
    wait_until(lambda: in_sync(admin, topic) == {1}, CHANGE)
    fill(bootstrap_servers, topic)
    cluster.stop(1, kill=True)
    cluster.start(2)
    wait_until(lambda: leader(admin, topic) is None, CHANGE)
    assert f"{topic}\t0\tnone\t" in shown(cli, "--unavailable")
    with pytest.raises(AdminError) as caught:
        admin.elect_leaders(ElectionType.PREFERRED, [key])
    assert "start the broker of the partition's first replica" in str(caught.value.errors[key])
    assert not isinstance(caught.value.errors[key], EligibleLeadersNotAvailableError)
    assert admin.elect_leaders(ElectionType.UNCLEAN, [key]) == {key: True}
    wait_until(lambda: leader(admin, topic) == 2, CHANGE)


def test_a_stopped_broker_is_fenced_and_its_replicas_are_counted(
    cluster: KafkaCluster, admin: Admin, topic: str, cli: Cli
) -> None:
    few = f"{topic}-few"
    create(admin, topic, [1, 2, 3], min_insync_replicas="2")
    create(admin, few, [3, 2], min_insync_replicas="2")
    wait_until(lambda: (in_sync(admin, topic), in_sync(admin, few)) == ({1, 2, 3}, {2, 3}), CHANGE)

    def selected(*filters: str) -> set[str]:
        lines = shown(cli, topic, few, *filters).splitlines()
        return {line.partition("\t")[0] for line in lines}

    assert selected("--under-replicated") == set()
    assert selected("--at-min-isr") == {few}
    cluster.stop(3)
    wait_until(lambda: (in_sync(admin, topic), in_sync(admin, few)) == ({1, 2}, {2}), CHANGE)
    wait_until(lambda: [node for node, each in brokers(admin).items() if each.is_fenced] == [3], CHANGE)
    third = cli.run("cluster", "brokers", "--fenced").stdout.decode().splitlines()[2]
    assert third.split("\t")[3:] == ["rack3", "fenced"]
    wait_until(lambda: selected("--under-min-isr") == {few}, CHANGE)
    assert selected("--under-replicated") == {topic, few}
    assert selected("--at-min-isr") == {topic}
    assert selected("--at-min-isr", "--under-min-isr") == {topic, few}
    (info,) = admin.describe_topics([few])[few].partitions
    assert info.eligible_leader_replicas == (3,), "the ELR has who left with fewer than min.insync.replicas in sync"


def test_a_broker_that_is_not_registered_cannot_be_unregistered(admin: Admin) -> None:
    with pytest.raises(BrokerIdNotRegisteredError):
        admin.unregister_broker(999)


def plan_of(cli: Cli, folder: Path, *arguments: str) -> Path:
    file = folder / "plan.json"
    file.write_bytes(cli("reassignments", "generate", *arguments))
    return file


def test_a_generated_plan_is_executed_verified_and_undone(
    admin: Admin, bootstrap_servers: str, topic: str, cli: Cli, tmp_path: Path
) -> None:
    create(admin, topic, [1, 2], [1, 2], [1, 2])
    fill(bootstrap_servers, topic)
    undo = tmp_path / "undo.json"
    plan = plan_of(cli, tmp_path, topic, "--brokers", "1,2,3")
    targets = [tuple(each["replicas"]) for each in json.loads(plan.read_text())["partitions"]]
    assert sorted(target[0] for target in targets) == [1, 2, 3]
    early = cli.run("reassignments", "verify", str(plan))
    assert (early.returncode, b"moves are not completed" in early.stderr) == (1, True)
    started = cli.run("reassignments", "execute", str(plan), "--rollback", str(undo), "--throttle", "100000000")
    assert started.returncode == 0, started.stderr
    assert started.stdout.decode().splitlines()[0] == f"{topic}\t0\t1,2\t{','.join(map(str, targets[0]))}"
    wait_until(lambda: cli.run("reassignments", "verify", str(plan)).returncode == 0, CHANGE)
    assert replicas(admin, topic) == targets
    assert throttles(admin, topic) == set()
    back = cli.run("reassignments", "execute", str(undo))
    assert b"this plan restores the current assignment: {" in back.stderr
    wait_until(lambda: cli.run("reassignments", "verify", str(undo)).returncode == 0, CHANGE)
    assert replicas(admin, topic) == [(1, 2)] * 3


def test_a_throttled_plan_is_in_progress_until_it_is_cancelled(
    admin: Admin, bootstrap_servers: str, topic: str, cli: Cli, tmp_path: Path
) -> None:
    (key,) = create(admin, topic, [1, 2])
    fill(bootstrap_servers, topic)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "replicas": [2, 3]}]}))
    assert cli.run("reassignments", "execute", str(plan), "--throttle", str(THROTTLE)).returncode == 0
    assert cli("reassignments", "list").decode().splitlines() == [f"{topic}\t0\t2,3,1\t3\t1"]
    verified = cli.run("reassignments", "verify", str(plan))
    assert (verified.returncode, verified.stdout.decode()) == (1, f"{topic}\t0\t\tin progress\t2,3,1\t2,3\n")
    assert throttles(admin, topic) == {
        f"{role}.replication.throttled.{what}" for role in ("leader", "follower") for what in ("rate", "replicas")
    }
    again = cli.run("reassignments", "execute", str(plan))
    assert b"1 reassignments are in progress" in again.stderr
    assert cli.run("reassignments", "execute", str(plan), "--additional", "--throttle", "2000").returncode == 0
    assert cli("reassignments", "cancel", str(plan)) == f"{topic}\t0\t\n".encode()
    assert key not in admin.list_partition_reassignments()
    wait_until(lambda: throttles(admin, topic) == set(), CHANGE)


def test_a_plan_that_does_not_fit_the_cluster_changes_nothing(
    admin: Admin, topic: str, cli: Cli, tmp_path: Path
) -> None:
    create(admin, topic, [1, 2])
    plan = tmp_path / "plan.json"
    for number, targets, option, message in (
        (0, [1, 9], (), "no broker 9 that is alive; there is 1, 2, 3"),
        (7, [1, 2], (), f"the cluster does not have {topic}-7"),
        (0, [1, 2, 3], ("--keep-replication-factor",), f"{topic}-0: INVALID_REPLICATION_FACTOR"),
    ):
        entry = {"topic": topic, "partition": number, "replicas": targets}
        plan.write_text(json.dumps({"partitions": [entry]}))
        done = cli.run("reassignments", "execute", str(plan), *option)
        assert (done.returncode, message in done.stderr.decode()) == (1, True), done.stderr
    assert replicas(admin, topic) == [(1, 2)]


def test_replicas_of_all_brokers_are_described(admin: Admin, bootstrap_servers: str, topic: str) -> None:
    create(admin, topic, [1, 2, 3])
    fill(bootstrap_servers, topic)
    found = admin.describe_log_dirs()
    sizes = {
        broker: each.replica_infos[TopicPartition(topic, 0)].size
        for broker, directories in found.items()
        for each in directories.values()
        if TopicPartition(topic, 0) in each.replica_infos
    }
    assert set(sizes) == {1, 2, 3}
    keys = [TopicPartitionReplica(topic, 0, broker) for broker in sizes]
    wait_until(lambda: {each.current_offset_lag for each in admin.describe_replica_log_dirs(keys).values()} == {0})
