"""What every suite shares: the broker under test, clients of it, seeds, and how async tests run.

``--broker`` picks the broker for tests/integration: ``refbroker`` (the default, in process), ``sim`` (the same, with
the test's clients, on a simulated machine), ``kafka`` (a real Apache Kafka node, started for the run), ``kafka3`` (a
cluster of three), or the ``host:port`` list of one that runs already. With ``--security=sasl_ssl`` clients connect to
it over TLS and log in.
"""

from __future__ import annotations

import inspect
import os
import random
import re
import reprlib
import signal
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import hypothesis
import pytest

from tests.support.broker_settings import KEEP_OLD_RECORDS
from tests.support.command_line import Cli
from tests.support.fake_gssapi import FakeGssapi
from tests.support.ids import readable_id
from tests.support.kafka.cluster import KafkaCluster, unavailable_reason
from tests.support.names import readable, unique
from tests.support.patience import GUARD

if TYPE_CHECKING:
    from kclient.admin import Admin
    from tests.support.raw_transactions import RawTransactions

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

_SEED = pytest.StashKey[int]()
if "--broker=sim" in sys.argv:
    # The compiled twins own their sockets and read the clock themselves. The twins are chosen when they are imported,
    # which other conftests do before any hook is called.
    os.environ["KCLIENT_PURE"] = "1"
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    # How often a coordinator checks for transactions that have timed out.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # How often the cleaner checks for logs to compact.
    "log.cleaner.backoff.ms": "200",
    # Internal topics have 50 partitions by default, each of which is a log to create, flush and close.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    **KEEP_OLD_RECORDS,
}
"""What brokers under test are started with. With the consumer protocol a member has no say in its heartbeats."""

hypothesis.settings.register_profile("default", deadline=None, max_examples=100)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=100, derandomize=True)
hypothesis.settings.register_profile("long", deadline=None, max_examples=5_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


MISSING = re.compile(r"not (?:on this machine|installed|built)|could not (?:fetch|import)|did not fetch")
"""Reasons to skip a test because a tool is missing, rather than because of the broker or the platform."""


class Broker(Protocol):
    """What a test may use of any broker."""

    @property
    def bootstrap_servers(self) -> str: ...


class ExternalBroker:
    """A broker that was started outside the tests."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kclient")
    group.addoption(
        "--broker",
        default="refbroker",
        metavar="WHICH",
        help="broker under test: refbroker (default), sim (simulated), kafka, kafka3, or HOST:PORT[,HOST:PORT...]",
    )
    group.addoption(
        "--security",
        default="none",
        choices=("none", "sasl_ssl"),
        help="how the clients of the broker under test connect: none (default) or sasl_ssl",
    )
    group.addoption("--soak", action="store_true", help="run the soak tests (minutes at full rate)")
    group.addoption("--nightly", action="store_true", help="run what takes too long for landing as well")


def pytest_configure(config: pytest.Config) -> None:
    # Background processes of a shell ignore Ctrl-C, and so would every process that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given = int(os.environ.get("KCLIENT_TEST_SEED", "0"))
    shared = getattr(config, "workerinput", {}).get("seed")
    config.stash[_SEED] = shared or given or random.SystemRandom().randrange(1, 2**32)
    if config.getoption("--broker") == "sim":
        _simulate(config)
    if is_secured(config):
        from tests.support.security import plugin

        config.pluginmanager.register(plugin, "security")
    # An installed project registers the plugin by its entry point; a plain checkout has none.
    if not config.pluginmanager.has_plugin("refbroker"):
        from refbroker import pytest_plugin

        config.pluginmanager.register(pytest_plugin, "refbroker")


def is_secured(config: pytest.Config) -> bool:
    """Return whether clients of the broker under test log in over TLS."""
    return bool(config.getoption("--security") == "sasl_ssl")


def _simulate(config: pytest.Config) -> None:
    from kclient.records import IMPLEMENTATION
    from tests.support.simulation.plugin import SimulationPlugin

    if IMPLEMENTATION != "pure":
        raise pytest.UsageError("--broker=sim needs the pure twins: set KCLIENT_PURE=1")
    config.pluginmanager.register(SimulationPlugin(config.stash[_SEED]), "simulation")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give all processes of pytest-xdist the seed in the report's header."""
    node.workerinput["seed"] = node.config.stash[_SEED]


def pytest_report_header(config: pytest.Config) -> list[str]:
    from kclient.records import IMPLEMENTATION

    which = config.getoption("--broker")
    return [f"kclient: {IMPLEMENTATION} records, broker {which}, {_seed_line(config)}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the seed at the end too if a test failed, because -q prints no header."""
    if terminalreporter.stats.keys() & {"failed", "error"}:
        terminalreporter.write_line(_seed_line(config))


def _seed_line(config: pytest.Config) -> str:
    return f"seed {config.stash[_SEED]} (KCLIENT_TEST_SEED)"


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    """Run a coroutine test on asyncio, unless it is marked ``anyio``, which runs it on asyncio and trio.

    With ``--broker=sim`` the event loop of the simulation runs it.
    """
    test = getattr(getattr(obj, "hypothesis", None), "inner_test", obj)
    if not name.startswith("test") or not inspect.iscoroutinefunction(test):
        return
    if collector.config.getoption("--broker") == "sim":
        return
    marks = {mark.name for mark in getattr(obj, "pytestmark", ())}
    if "anyio" not in marks and collector.get_closest_marker("anyio") is None:
        pytest.mark.asyncio(obj)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name cases by their values; refuse a value that pytest would number, as in `options3`."""
    if (text := readable_id(val)) is None:
        pytest.fail(
            f"{argname}={reprlib.repr(val)} has no readable id: use pytest.param(..., id=...) or ids=", pytrace=False
        )
    return text


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    which = str(config.getoption("--broker"))
    unsuitable = {
        "kafka3": which != "kafka3" and "needs three brokers: --broker=kafka3",
        "refbroker_only": which not in ("refbroker", "sim") and "uses what only refbroker has",
        "soak": not config.getoption("--soak") and "minutes at full rate: --soak",
        "nightly": not config.getoption("--nightly") and "takes too long for landing: --nightly",
    }
    for item in items:
        # A timeout on the command line is for tests that run longer than all others.
        if item.get_closest_marker("timeout") is None and config.getoption("timeout") is None:
            item.add_marker(pytest.mark.timeout(GUARD))
        for mark, reason in unsuitable.items():
            # A test that starts a cluster of its own does not depend on --broker.
            if reason and item.get_closest_marker(mark) and not (mark == "kafka3" and _starts_own_cluster(item)):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that would be skipped for a missing tool, if KCLIENT_TOOLS_REQUIRED says that all tools are
    installed.
    """
    report = yield
    return _failed_if_skipped(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Apply the same rule to modules that are skipped as a whole."""
    report = yield
    return _failed_if_skipped(report)


def _failed_if_skipped(report: Report) -> Report:
    if report.skipped and "KCLIENT_TOOLS_REQUIRED" in os.environ and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if MISSING.search(reason):
            report.outcome, report.longrepr = "failed", f"nothing may be missing here: {reason}"
    return report


def _starts_own_cluster(item: pytest.Item) -> bool:
    return "kafka3" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def needs_kafka() -> None:
    """Skip the test, with the reason, if Apache Kafka or its tools cannot run."""
    if reason := unavailable_reason():
        pytest.skip(reason)


def _kafka(nodes: int, request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    directory = request.getfixturevalue("tmp_path_factory").mktemp(f"kafka{nodes}")
    options: dict[str, Any] = {"config": SETTINGS}
    if is_secured(request.config):
        from tests.support.security import clients, credentials

        options = credentials.kafka_options(directory)
        options["config"] |= SETTINGS
    with KafkaCluster(nodes, directory=directory, **options) as cluster:
        if is_secured(request.config):
            clients.register(cluster.bootstrap_servers, credentials.client_options())
        yield cluster


@pytest.fixture(scope="session")
def kafka(needs_kafka: None, request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A real Apache Kafka node, started once per run; the test is skipped, with the reason, if it cannot run."""
    yield from _kafka(1, request)


@pytest.fixture(scope="session")
def kafka3(needs_kafka: None, request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A real Apache Kafka of three nodes, started once per run."""
    yield from _kafka(3, request)


def _scope_of_broker(fixture_name: str, config: pytest.Config) -> Any:
    """Return the scope of the broker fixture: a simulated broker belongs to the machine of one test."""
    return "function" if config.getoption("--broker") == "sim" else "session"


@pytest.fixture(scope=_scope_of_broker)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The broker under test, as --broker says; it has ``bootstrap_servers``."""
    which = str(request.config.getoption("--broker"))
    if which in ("kafka", "kafka3"):
        yield request.getfixturevalue(which)
    elif which in ("refbroker", "sim"):
        from refbroker.testing import RefBroker

        with RefBroker(settings=SETTINGS) as running:
            yield running
    else:
        yield ExternalBroker(which)


@pytest.fixture
def bootstrap_servers(broker: Broker) -> str:
    """The bootstrap list of the broker under test."""
    return broker.bootstrap_servers


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[Admin]:
    """An admin client of the broker under test."""
    from kclient.admin import Admin

    with Admin(bootstrap_servers=bootstrap_servers) as client:
        yield client


@pytest.fixture
def cli(bootstrap_servers: str, request: pytest.FixtureRequest) -> Cli:
    """The `kclient` command, for the broker under test."""
    if request.config.getoption("--broker") == "sim":
        from tests.support.simulation.command_line import SimulatedCli

        return SimulatedCli(bootstrap_servers)
    return Cli(bootstrap_servers)


@pytest.fixture
def raw(bootstrap_servers: str) -> Iterator[RawTransactions]:
    """Transactions on the broker under test, made step by step from raw requests."""
    from tests.support.raw_transactions import RawTransactions

    with RawTransactions(bootstrap_servers) as transactions:
        yield transactions


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses; the broker creates the topic at its first metadata request."""
    if request.config.getoption("--broker") == "sim":
        return readable(request.node.name)
    return unique(request.node.name)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """A random generator seeded with the seed in the report's header."""
    return random.Random(f"{request.config.stash[_SEED]}:{request.node.nodeid}")


@pytest.fixture
def fake_gssapi(monkeypatch: pytest.MonkeyPatch) -> FakeGssapi:
    """A stand-in for the package gssapi, which the clients and brokers of this process import."""
    package = FakeGssapi()
    monkeypatch.setitem(sys.modules, "gssapi", package)
    return package
