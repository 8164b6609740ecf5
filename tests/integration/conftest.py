"""What tests of consumers share; those of groups run with both group protocols, where the broker speaks them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pytest

from kclient.config import ClientConfig
from kclient.consumer import Consumer
from kclient.errors import UnsupportedVersionError
from kclient.net import runtime
from kclient.net.tls import TlsConnector
from kclient.net.transport import Transport
from tests.integration.consumers import Group
from tests.integration.unruly_network import Connect, Cuts, UnrulyNetwork
from tests.support.raw_transactions import RawTransactions
from tests.support.seeding import Seeder


@lru_cache
def _speaks_consumer_protocol(bootstrap_servers: str) -> bool:
    with Consumer("t", bootstrap_servers=bootstrap_servers, group_id="asks", group_protocol="consumer") as consumer:
        try:
            # What is fatal is so a moment before polling raises it.
            while consumer.health().group_state in ("unsubscribed", "joining", "fatal"):
                consumer.poll(0.05)
        except UnsupportedVersionError:
            return False
    return True


@pytest.fixture(params=["classic", "consumer"])
def group_protocol(request: pytest.FixtureRequest, bootstrap_servers: str) -> str:
    """How the members of the test's group agree."""
    protocol = str(request.param)
    # A broker of a simulation is a refbroker, which speaks it; its address names another broker in the next test.
    simulated = request.config.getoption("--broker") == "sim"
    if protocol == "consumer" and not simulated and not _speaks_consumer_protocol(bootstrap_servers):
        pytest.skip("the broker does not speak the consumer protocol")
    return protocol


@pytest.fixture
def strategy() -> str | None:
    """The assignor of the test's group; by default the client's own."""
    return None


@pytest.fixture
def group(bootstrap_servers: str, topic: str, group_protocol: str, strategy: str | None) -> Iterator[Group]:
    """A group without members yet; those that it has at the end are closed."""
    group = Group(bootstrap_servers, topic, group_protocol, strategy)
    yield group
    group.close()


@pytest.fixture
def seed(bootstrap_servers: str) -> Iterator[Seeder]:
    """What makes topics and appends to them."""
    with Seeder(bootstrap_servers) as seeder:
        yield seeder


@pytest.fixture(params=[2, 1], ids="version {}".format)
def transaction_version(request: pytest.FixtureRequest, raw: RawTransactions) -> Iterator[int]:
    """The version of transactions that the cluster has during the test."""
    with raw.at_transaction_version(request.param) as level:
        yield level


@pytest.fixture
def short(request: pytest.FixtureRequest) -> dict[str, str]:
    """Options of clients whose transactions time out, but not before a busy machine has decided them."""
    own = request.config.getoption("--broker") == "refbroker"
    return {"transaction.timeout.ms": "5000" if own else "15000"}


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> Cuts:
    """Cuts connections of the clients that are made from now on."""
    cuts = Cuts()
    machine = runtime.current()
    make, encrypt = machine.transport, TlsConnector.connect
    networks: dict[Transport, UnrulyNetwork] = {}

    def transport(config: ClientConfig) -> Transport:
        network = make(config)
        networks[network] = UnrulyNetwork(cuts, network)
        return network

    def connect(connector: TlsConnector, host: str, network: Transport) -> Connect:
        return networks[network].over(encrypt(connector, host, network))

    monkeypatch.setattr(machine, "transport", transport)
    monkeypatch.setattr(TlsConnector, "connect", connect)
    return cuts
