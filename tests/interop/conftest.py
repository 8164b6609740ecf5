"""Interop tests talk to others: everything here is marked ``interop``, and skips, saying why, where it cannot run.

`kafka` and `kafka3` (real Apache Kafka), and `needs_kafka` for what starts one by itself, come from tests/conftest.py,
where the integration suite uses them too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import is_secured
from tests.support.broker_process import BrokerProcess
from tests.support.broker_settings import KEEP_OLD_RECORDS
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.tools import JavaTools
from tests.support.security import clients, credentials

HERE = Path(__file__).parent
FEW_PARTITIONS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
"""For a broker whose own topics a test looks at."""


class Target(NamedTuple):
    """A broker under test with its files, as far as they are on this machine."""

    bootstrap_servers: str
    data_directories: list[Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def refbroker_process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """refbroker as a process, one per run."""
    directory = tmp_path_factory.mktemp("refbroker")
    settings = {"auto.create.topics.enable": "true", **KEEP_OLD_RECORDS}
    if is_secured(request.config):
        settings |= credentials.refbroker_settings(directory)
    with BrokerProcess(directory / "data", settings=settings) as process:
        if is_secured(request.config):
            clients.register(process.bootstrap_servers, credentials.client_options(credentials.PLAIN))
        yield process


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """The broker that others' clients and tools are pointed at: refbroker, or what ``--broker`` says.

    With ``--broker HOST:PORT``, KCLIENT_TEST_DATA_DIR may name the folder of its partitions.
    """
    which = str(request.config.getoption("--broker"))
    if which == "refbroker":
        process = request.getfixturevalue("refbroker_process")
        return Target(process.bootstrap_servers, [process.data_directory])
    if which in ("kafka", "kafka3"):
        cluster: KafkaCluster = request.getfixturevalue(which)
        return Target(cluster.bootstrap_servers, [cluster.data_directory(node) for node in cluster.node_ids])
    given = os.environ.get("KCLIENT_TEST_DATA_DIR")
    return Target(which, [Path(given)] if given else [])


@pytest.fixture
def bootstrap_servers(target: Target) -> str:
    """The same broker, for what tests of other suites have as well."""
    return target.bootstrap_servers


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """refbroker as a process of the test's own, which soon ends what takes too long; groups begin at once."""
    settings = {
        **FEW_PARTITIONS,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "group.initial.rebalance.delay.ms": "0",
    }
    with BrokerProcess(tmp_path / "data", settings=settings) as running:
        yield running


@pytest.fixture(scope="session")
def java(
    needs_kafka: None, target: Target, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> JavaTools:
    """Kafka's Java tools, pointed at the broker under test."""
    config = None
    if is_secured(request.config):
        config = credentials.java_properties(tmp_path_factory.mktemp("java"), credentials.PLAIN)
    return JavaTools(target.bootstrap_servers, config)


@pytest.fixture
def confluent() -> Any:
    """confluent-kafka, where it is installed."""
    return pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
