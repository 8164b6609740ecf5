"""refbroker in a real ZooKeeper: its nodes, a broker id in use, killed brokers and servers, other addresses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient.admin import Admin, NewTopic
from kclient.producer import Producer
from refbroker.testing import RefBroker
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import free_ports
from tests.support.patience import ANSWER
from tests.support.waiting import wait_until
from tests.support.zookeeper.server import ZooKeeperServer, unavailable_reason

kazoo = pytest.importorskip("kazoo.client", reason="the package kazoo is not installed")

SESSION_MS = 2_000


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    if (reason := unavailable_reason()) is not None:
        pytest.skip(reason)
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="module")
def reader(zookeeper: ZooKeeperServer) -> Iterator[Any]:
    client = kazoo.KazooClient(zookeeper.address)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def folder(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> str:
    return f"clusters/{request.node.name}"


@pytest.fixture
def connect(zookeeper: ZooKeeperServer, folder: str) -> str:
    return f"{zookeeper.address}/{folder}"


@pytest.fixture
def value(reader: Any, folder: str) -> Callable[[str], Any]:
    """Returns the value at a path in the cluster's folder, None without a node."""

    def read(path: str) -> Any:
        try:
            return json.loads(reader.get(f"/{folder}{path}")[0])
        except kazoo.NoNodeError:
            return None

    return read


def broker(connect: str, **options: Any) -> RefBroker:
    return RefBroker(zookeeper_connect=connect, zookeeper_session_timeout_ms=SESSION_MS, **options)


def test_brokers_and_topics_appear_and_disappear(connect: str, value: Callable[[str], Any]) -> None:
    with broker(connect) as kafka:
        host, _, port = kafka.bootstrap_servers.partition(":")
        found = value("/brokers/ids/1")
        assert (found["host"], found["port"]) == (host, int(port))
        assert value("/controller")["brokerid"] == 1
        assert value("/controller_epoch") == 1
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", num_partitions=3, configs={"retention.ms": "60000"})])
            wait_until(lambda: value("/brokers/topics/orders/partitions/2/state"))
            assert value("/brokers/topics/orders") == {"version": 1, "partitions": {"0": [1], "1": [1], "2": [1]}}
            assert value("/config/topics/orders")["config"] == {"retention.ms": "60000"}
            admin.delete_topics(["orders"])
            wait_until(lambda: value("/brokers/topics/orders") is None)
    assert value("/brokers/ids/1") is None
    assert value("/controller") is None


def test_a_broker_id_in_use_is_refused_and_may_return_elsewhere(
    connect: str, value: Callable[[str], Any], tmp_path: Path
) -> None:
    ports = free_ports(2)
    with Producer(bootstrap_servers=[f"127.0.0.1:{port}" for port in ports]) as producer:
        with broker(connect, data_dir=tmp_path / "first", port=ports[0]):
            assert value("/brokers/ids/1")["port"] == ports[0]
            producer.send("orders", b"1").result(ANSWER)
        with broker(connect, data_dir=tmp_path / "first", port=ports[1]):
            assert value("/brokers/ids/1")["port"] == ports[1]
            assert value("/controller_epoch") == 2
            # Clients follow it.
            assert producer.send("orders", b"2").result(ANSWER).offset == 1
            refuse_another(connect, tmp_path)


def refuse_another(connect: str, tmp_path: Path) -> None:
    """Start a broker with the same id, which must fail."""
    settings = {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": str(SESSION_MS)}
    shutil.copytree(tmp_path / "first", tmp_path / "second", ignore=shutil.ignore_patterns(".lock"))
    with pytest.raises(AssertionError, match="id 1 is registered in ZooKeeper at PLAINTEXT://"):
        BrokerProcess(tmp_path / "second", settings=settings).__enter__()


def test_the_folder_of_another_cluster_is_refused(connect: str, tmp_path: Path) -> None:
    with broker(connect):
        settings = {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": str(SESSION_MS)}
        with pytest.raises(AssertionError, match="ZooKeeper has the cluster"):
            BrokerProcess(tmp_path / "second", settings=settings).__enter__()


def test_a_killed_broker_is_gone_after_its_session_and_returns(
    connect: str, value: Callable[[str], Any], tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    settings = {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": str(SESSION_MS)}
    process = BrokerProcess(tmp_path / "data", port=port, settings=settings)
    with process:
        process.stop(kill=True)
        wait_until(lambda: value("/brokers/ids/1") is None)
    with process:
        # At the same address, it waits for the session of the one that was killed.
        process.stop(kill=True)
    with process:
        assert value("/brokers/ids/1")["port"] == port
        assert value("/controller_epoch") == 3


def test_a_server_that_restarts_finds_the_broker_again(
    zookeeper: ZooKeeperServer, connect: str, value: Callable[[str], Any]
) -> None:
    with broker(connect) as kafka, Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        zookeeper.kill()
        admin.create_topics([NewTopic("orders", num_partitions=1)])
        zookeeper.start()
        wait_until(lambda: value("/brokers/topics/orders/partitions/0/state"))
        assert value("/brokers/ids/1") is not None


def test_a_zookeeper_that_does_not_answer_is_named_at_the_start(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = {"zookeeper.connect": f"127.0.0.1:{port}", "zookeeper.connection.timeout.ms": "200"}
    with pytest.raises(AssertionError, match=f"no ZooKeeper answers at zookeeper.connect=127.0.0.1:{port} within 200"):
        BrokerProcess(tmp_path / "data", settings=settings).__enter__()
