"""What the clients say and do while no broker is reachable, at start and later, until one is."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from kclient import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Connectivity,
    ConnectivityState,
    Consumer,
    Producer,
    StallReason,
    TopicPartition,
)
from refbroker.testing import RefBroker
from tests.support.patience import ANSWER, CHANGE
from tests.support.waiting import wait_until

pytestmark = pytest.mark.refbroker_only

UNREACHABLE, REACHABLE = ConnectivityState.UNREACHABLE, ConnectivityState.REACHABLE


@pytest.fixture
def broker() -> Iterator[RefBroker]:
    with RefBroker() as running:
        yield running


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{unused.getsockname()[1]}"


def make_producer(**options: Any) -> Producer:
    return Producer(**options)


def make_consumer(**options: Any) -> Consumer:
    return Consumer("orders", **options)


def make_member(**options: Any) -> Consumer:
    return Consumer("orders", group_id="billing", **options)


def make_admin(**options: Any) -> Admin:
    return Admin(**options)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make_producer, id="producer"),
        pytest.param(make_consumer, id="consumer"),
        pytest.param(make_member, id="member"),
        pytest.param(make_admin, id="admin"),
    ],
)
def test_an_idle_client_reports_an_outage_and_of_its_end(
    broker: RefBroker, make: Callable[..., Producer | Consumer | Admin]
) -> None:
    changes: list[Connectivity] = []
    with make(bootstrap_servers=broker.bootstrap_servers, on_connectivity_change=changes.append) as client:
        wait_until(lambda: client.health().connectivity.state is REACHABLE, CHANGE)
        broker.stop()
        wait_until(lambda: [change.state for change in changes] == [UNREACHABLE], CHANGE)
        connectivity = client.health().connectivity
        assert connectivity.state is UNREACHABLE
        assert list(connectivity.errors) == [broker.bootstrap_servers]
        broker.start()
        wait_until(lambda: [change.state for change in changes] == [UNREACHABLE, REACHABLE], CHANGE)
        assert client.health().connectivity.errors == {}


@pytest.mark.anyio
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(AsyncProducer, id="producer"),
        pytest.param(AsyncConsumer, id="consumer"),
        pytest.param(AsyncAdmin, id="admin"),
    ],
)
async def test_an_async_client_reports_it_in_its_event_loop(
    nobody: str, make: Callable[..., AsyncProducer | AsyncConsumer | AsyncAdmin]
) -> None:
    changes: list[Connectivity] = []
    told = anyio.Event()

    def note(change: Connectivity) -> None:
        changes.append(change)
        told.set()

    async with make(bootstrap_servers=nobody, on_connectivity_change=note) as client:
        with anyio.fail_after(CHANGE):
            await told.wait()
        assert [change.state for change in changes] == [UNREACHABLE]
        assert client.health().connectivity.state is UNREACHABLE


def test_a_consumer_whose_broker_died_has_no_lag_to_show(broker: RefBroker) -> None:
    tp = TopicPartition("orders", 0)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", b"1").result(ANSWER)
    with Consumer("orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"1"
        assert len(consumer.poll(0.0)) == 0
        wait_until(lambda: consumer.health().partitions[tp].reason is StallReason.NO_DATA, CHANGE)
        broker.stop()
        wait_until(lambda: consumer.health().connectivity.state is UNREACHABLE, CHANGE)
        health = consumer.health().partitions[tp]
        assert (health.reason, health.lag, health.position) == (StallReason.NO_BROKER, None, 1)
        assert consumer.current_lag(tp) is None


@pytest.mark.parametrize(
    "make", [pytest.param(make_consumer, id="without a group"), pytest.param(make_member, id="in a group")]
)
def test_reading_waits_for_the_first_broker(broker: RefBroker, make: Callable[..., Consumer]) -> None:
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("orders", b"1").result(ANSWER)
    broker.stop()
    with make(bootstrap_servers=servers, auto_offset_reset="earliest", default_api_timeout_ms=100) as consumer:
        for _ in range(5):
            assert len(consumer.poll(0.2)) == 0
        assert consumer.health().connectivity.state is UNREACHABLE
        broker.start()
        assert next(iter(consumer)).value == b"1"
