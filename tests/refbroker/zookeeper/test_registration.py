"""What the registry writes, on nodes in memory."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from kclient.errors import DuplicateBrokerRegistrationError, InconsistentClusterIdError, NotControllerError
from refbroker.metadata.image import PartitionState, TopicState
from refbroker.settings.listeners import Listener, SecurityProtocol
from refbroker.zookeeper import nodes, registration
from refbroker.zookeeper.registration import Registration
from refbroker.zookeeper.tree import Change
from tests.support.zookeeper.tree import MemoryTree, ZooKeeper

CLUSTER = "q0SxAwAKQ1uBJo2Nm7Cx7g"
NOW_MS = 1_700_000_000_000


def broker(port: int = 9092) -> bytes:
    return nodes.broker_value([(Listener("PLAINTEXT", "kafka1", port), SecurityProtocol.PLAINTEXT)], None, NOW_MS)


def topic(name: str = "orders", partitions: int = 2, leader: int = 1) -> TopicState:
    def state(number: int) -> PartitionState:
        return PartitionState(number, [1], [1], leader, 3, 4, [UUID(int=9)], [], [])

    return TopicState(name, UUID(int=5), {number: state(number) for number in range(partitions)})


def joined(zookeeper: ZooKeeper, *, node_id: int = 1, port: int = 9092) -> tuple[MemoryTree, Registration]:
    tree = zookeeper.session()
    made = Registration(tree, node_id, CLUSTER)
    made.join(broker(port), NOW_MS)
    return tree, made


def value(zookeeper: ZooKeeper, path: str) -> object:
    return json.loads(zookeeper.nodes[path].value)


@pytest.fixture
def zookeeper() -> ZooKeeper:
    return ZooKeeper()


def test_a_broker_shows_itself_and_that_it_is_the_controller(zookeeper: ZooKeeper) -> None:
    tree, made = joined(zookeeper)
    assert value(zookeeper, "/brokers/ids/1") == {
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": ["PLAINTEXT://kafka1:9092"],
        "jmx_port": -1,
        "host": "kafka1",
        "timestamp": str(NOW_MS),
        "port": 9092,
        "version": 4,
    }
    assert value(zookeeper, "/controller") == {"version": 1, "brokerid": 1, "timestamp": str(NOW_MS)}
    assert value(zookeeper, "/cluster/id") == {"version": "1", "id": CLUSTER}
    assert zookeeper.nodes["/controller_epoch"].value == b"1"
    assert made.controller_epoch == 1
    ephemeral = {path for path, node in zookeeper.nodes.items() if node.owner == tree.session_id}
    assert ephemeral == {"/brokers/ids/1", "/controller"}


def test_the_host_is_that_of_a_listener_without_security() -> None:
    tls = Listener("TLS", "kafka1", 9093)
    found = json.loads(nodes.broker_value([(tls, SecurityProtocol.SSL)], "b", NOW_MS))
    assert (found["host"], found["port"], found["rack"]) == (None, -1, "b")
    assert found["endpoints"] == ["TLS://kafka1:9093"]
    assert found["listener_security_protocol_map"] == {"TLS": "SSL"}


def test_topics_have_their_replicas_leaders_and_settings(zookeeper: ZooKeeper) -> None:
    _, made = joined(zookeeper)
    made.write("orders", nodes.topic_values(topic(), {"retention.ms": "1000"}, 1))
    assert value(zookeeper, "/brokers/topics/orders") == {"version": 1, "partitions": {"0": [1], "1": [1]}}
    assert value(zookeeper, "/brokers/topics/orders/partitions/1/state") == {
        "controller_epoch": 1,
        "leader": 1,
        "version": 1,
        "leader_epoch": 3,
        "isr": [1],
    }
    assert value(zookeeper, "/config/topics/orders") == {"version": 1, "config": {"retention.ms": "1000"}}
    made.write("orders", {})
    assert not [path for path in zookeeper.nodes if "orders" in path]


def test_topics_whose_names_begin_alike_are_distinct(zookeeper: ZooKeeper) -> None:
    _, made = joined(zookeeper)
    for name in ("orders", "orders-old"):
        made.write(name, nodes.topic_values(topic(name), {}, 1))
    made.write("orders", {})
    assert made.topics() == {"orders-old"}


def test_what_another_controller_decided_is_not_written_again(zookeeper: ZooKeeper) -> None:
    tree, made = joined(zookeeper)
    made.write("orders", nodes.topic_values(topic(partitions=1), {}, 1))
    tree.close()
    _, made = joined(zookeeper)
    assert made.controller_epoch == 2
    made.write("orders", nodes.topic_values(topic(partitions=2, leader=1), {}, 2))
    states = [zookeeper.nodes[nodes.state_path("orders", number)].value for number in (0, 1)]
    assert [json.loads(state)["controller_epoch"] for state in states] == [1, 2]


def test_a_large_topic_is_written_in_several_steps(zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "OPERATIONS_AT_ONCE", 3)
    _, made = joined(zookeeper)
    made.write("orders", nodes.topic_values(topic(partitions=20), {}, 1))
    assert len([path for path in zookeeper.nodes if path.endswith("/state")]) == 20
    made.write("orders", {})
    assert made.topics() == set()


def test_a_controller_that_was_replaced_can_write_nothing(zookeeper: ZooKeeper) -> None:
    tree, made = joined(zookeeper)
    tree.apply([Change("/controller_epoch", b"7")])
    with pytest.raises(NotControllerError, match="another controller has changed /controller_epoch"):
        made.write("orders", nodes.topic_values(topic(), {}, 1))
    assert "/brokers/topics/orders" not in zookeeper.nodes


def test_a_broker_id_in_use_is_an_error(zookeeper: ZooKeeper) -> None:
    joined(zookeeper)
    with pytest.raises(DuplicateBrokerRegistrationError, match="id 1 is registered in ZooKeeper at PLAINTEXT://kafka1"):
        joined(zookeeper, port=9093)


def test_the_same_broker_may_register_later_from_another_address(zookeeper: ZooKeeper) -> None:
    tree, _ = joined(zookeeper)
    tree.close()
    joined(zookeeper, port=9093)
    assert nodes.endpoints_in(zookeeper.nodes["/brokers/ids/1"].value) == ["PLAINTEXT://kafka1:9093"]


def test_a_killed_broker_waits_until_its_session_is_over(zookeeper: ZooKeeper) -> None:
    killed, _ = joined(zookeeper)
    tree = zookeeper.session()
    tree.waits_for = killed.session_id
    Registration(tree, 1, CLUSTER).join(broker(), NOW_MS)
    assert zookeeper.nodes["/brokers/ids/1"].owner == zookeeper.nodes["/controller"].owner == tree.session_id


def test_a_session_that_continues_keeps_its_nodes(zookeeper: ZooKeeper) -> None:
    tree, made = joined(zookeeper)
    made.join(broker(9093), NOW_MS)
    assert zookeeper.nodes["/controller"].owner == tree.session_id
    assert nodes.endpoints_in(zookeeper.nodes["/brokers/ids/1"].value) == ["PLAINTEXT://kafka1:9093"]


def test_the_registry_of_another_cluster_or_controller_is_refused(zookeeper: ZooKeeper) -> None:
    joined(zookeeper)
    with pytest.raises(InconsistentClusterIdError, match=f"has the cluster {CLUSTER}"):
        Registration(zookeeper.session(), 2, "another").join(broker(), NOW_MS)
    with pytest.raises(NotControllerError, match="broker 1 is the controller"):
        joined(zookeeper, node_id=2, port=9093)


def test_values_that_nobody_wrote_like_this_count_as_unknown() -> None:
    for damaged in (b"", b"[]", b"{", b'{"id":1,"endpoints":7,"brokerid":"x"}'):
        assert nodes.cluster_in(damaged) is None
        assert nodes.controller_in(damaged) is None
        assert nodes.endpoints_in(damaged) == []
