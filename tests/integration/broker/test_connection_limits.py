"""Limits of connections: by address, by listener, by rate, and of clients that do not log in."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from kclient import Admin
from kclient.admin import AlterConfig, ConfigResource, QuotaEntity
from kclient.errors import AdminError, InvalidRequestError
from kclient.protocol.frames import decode_response_header, peek_correlation_id
from kclient.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.records.metadata_log import ConfigRecord
from refbroker.metadata.image import BROKER_RESOURCE
from refbroker.metrics.counters import Closed
from refbroker.runtime import addresses
from refbroker.server import pending_connections
from refbroker.server.sasl import SaslListener
from refbroker.testing import RefBroker
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until
from tests.support.wire import Wire

pytestmark = pytest.mark.not_secured("its connections wait, or are closed, before they could log in")


def is_served(wire: Wire) -> bool:
    return bool(wire.ask(ApiVersionsRequest(), 0).api_keys)


def connections(broker: RefBroker) -> int:
    return broker.call(lambda kafka: kafka.server.connection_count)


def opened(broker: RefBroker) -> int:
    return broker.call(lambda kafka: kafka.parts.metrics.connections_opened)


def closed(broker: RefBroker) -> int:
    return broker.call(lambda kafka: kafka.parts.metrics.connections_closed[Closed.REFUSED])


def change(broker: RefBroker, name: str, value: str) -> None:
    record = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=name, value=value)
    broker.call(lambda kafka: kafka.parts.controller.append([record]))


@pytest.mark.parametrize(
    "settings",
    [
        {"max.connections.per.ip": "2"},
        {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "10.0.0.1:7, 127.0.0.1:2"},
    ],
    ids=["address", "override"],
)
def test_one_connection_too_many_of_an_address_is_closed(settings: dict[str, str]) -> None:
    with RefBroker(settings=settings) as broker, ExitStack() as stack:
        one, two, three = (stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(3))
        assert is_served(one)
        assert is_served(two)
        assert three.is_closed()
        two.socket.close()
        wait_until(lambda: connections(broker) == 1, CHANGE)
        assert is_served(stack.enter_context(Wire(broker.bootstrap_servers)))


@pytest.mark.parametrize(
    ("settings", "who"),
    [
        ({"max.connections": "2"}, "the listener PLAINTEXT"),
        ({"listener.name.plaintext.max.connections": "2"}, "the listener PLAINTEXT"),
        ({"max.connections": "2", "listener.name.plaintext.max.connections": "9"}, "the broker"),
    ],
    ids=["broker", "listener", "broker-and-listener"],
)
def test_one_connection_too_many_waits(settings: dict[str, str], who: str, caplog: pytest.LogCaptureFixture) -> None:
    with RefBroker(settings=settings) as broker, ExitStack() as stack:
        one, two, three = (stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(3))
        sent = three.send(ApiVersionsRequest(), 0)
        assert is_served(one)
        assert is_served(two)
        line = f"the connection of {three.name} and later ones wait: {who} has 2 connections already"
        wait_until(lambda: line in caplog.text)
        assert connections(broker) == 2
        two.socket.close()
        assert peek_correlation_id(three.read_frame()) == sent
        assert connections(broker) == 2


def test_a_limit_that_is_raised_admits_what_waits(caplog: pytest.LogCaptureFixture) -> None:
    with RefBroker(max_connections=1) as broker, ExitStack() as stack:
        wires = [stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(4)]
        for wire in wires:
            wire.send(ApiVersionsRequest(), 0)
        wait_until(lambda: "later ones wait" in caplog.text)
        change(broker, "max.connections", "3")
        for wire in wires[:3]:
            assert wire.read_frame()
        assert connections(broker) == 3
        change(broker, "max.connections", "4")
        assert wires[3].read_frame()


def test_a_limit_that_is_lowered_closes_what_was_idle_for_longest() -> None:
    with RefBroker() as broker, ExitStack() as stack:
        wires = [stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(3)]
        for wire in (*wires, wires[0]):
            assert is_served(wire)
        change(broker, "max.connections", "1")
        assert wires[1].is_closed()
        assert wires[2].is_closed()
        assert is_served(wires[0])


BOTH = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}


def test_a_broker_takes_the_place_of_the_client_that_was_idle_for_longest(caplog: pytest.LogCaptureFixture) -> None:
    with RefBroker(settings=BOTH, max_connections=2) as broker, ExitStack() as stack:
        outside, inside = broker.address("OUTSIDE"), broker.address("INSIDE")
        one, two = (stack.enter_context(Wire(outside)) for _ in range(2))
        for wire in (two, one):
            assert is_served(wire)
        three = stack.enter_context(Wire(outside))
        three.send(ApiVersionsRequest(), 0)
        wait_until(lambda: "the listener OUTSIDE has 2 connections already" in caplog.text)
        assert is_served(stack.enter_context(Wire(inside)))
        assert two.is_closed()
        assert is_served(one)
        assert is_served(stack.enter_context(Wire(inside)))
        assert one.is_closed()
        assert connections(broker) == 2


def test_metrics_show_how_long_connections_wait() -> None:
    with RefBroker(settings={**BOTH, "listener.name.outside.max.connection.creation.rate": "1"}) as broker:
        broker.clock.hold()
        with ExitStack() as stack:
            for _ in range(11):
                stack.enter_context(Wire(broker.address("OUTSIDE")))
            wait_until(lambda: waited(broker)["OUTSIDE"] > 0)
            assert waited(broker)["INSIDE"] == 0
            rates = broker.metrics()["kafka_server_socket_server_metrics_connection_accept_rate"]
            assert rates["OUTSIDE"] > rates["INSIDE"] == 0


def waited(broker: RefBroker) -> Any:
    return broker.metrics()["kafka_server_socket_server_metrics_connection_accept_throttle_time"]


def test_a_broker_that_stops_closes_a_connection_that_waits(caplog: pytest.LogCaptureFixture) -> None:
    with RefBroker(max_connections=1) as broker, Wire(broker.bootstrap_servers) as one:
        assert is_served(one)
        with Wire(broker.bootstrap_servers) as two:
            wait_until(lambda: "later ones wait" in caplog.text)
            broker.restart()
            assert two.is_closed()
        with Wire(broker.bootstrap_servers) as later:
            assert is_served(later)


@pytest.mark.parametrize(
    "settings",
    [{"max.connection.creation.rate": "1"}, {"listener.name.outside.max.connection.creation.rate": "1"}],
    ids=["broker", "listener"],
)
def test_connections_that_come_too_fast_wait_for_a_second(settings: dict[str, str]) -> None:
    with RefBroker(settings={**BOTH, **settings}) as broker, ExitStack() as stack:
        broker.clock.hold()
        outside, inside = broker.address("OUTSIDE"), broker.address("INSIDE")
        for _ in range(10):  # those of a window
            assert is_served(stack.enter_context(Wire(outside)))
        late = [stack.enter_context(Wire(outside)) for _ in range(2)]
        for wire in late:
            wire.send(ApiVersionsRequest(), 0)
        # The listener of the brokers does not wait for clients.
        assert is_served(stack.enter_context(Wire(inside)))
        broker.clock.step(0.999)
        assert connections(broker) == 11
        broker.clock.step(0.001)
        assert late[0].read_frame()
        assert connections(broker) == 12
        broker.clock.step(60)
        assert late[1].read_frame()


def test_the_rate_of_connections_changes_while_the_broker_runs() -> None:
    with RefBroker() as broker, ExitStack() as stack:
        with Admin(**broker.client_options) as admin:
            rate = AlterConfig.set("max.connection.creation.rate", 1)
            admin.incremental_alter_configs({ConfigResource.broker(): rate})
        broker.clock.hold()
        wires = [stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(10)]
        for wire in wires:
            wire.send(ApiVersionsRequest(), 0)
        opened = connections(broker)
        assert opened < 10
        change(broker, "max.connection.creation.rate", "1000")
        # What waits already waits as long as it was to.
        assert connections(broker) == opened
        broker.clock.step(1)
        for wire in wires:
            assert wire.read_frame()


def test_the_limit_of_an_address_changes_while_the_broker_runs() -> None:
    with RefBroker() as broker, ExitStack() as stack:
        with Admin(**broker.client_options) as admin:
            limit = AlterConfig.set("max.connections.per.ip", 1)
            admin.incremental_alter_configs({ConfigResource.broker(): limit})
        wait_until(lambda: not connections(broker), CHANGE)
        one, two = (stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(2))
        assert is_served(one)
        assert two.is_closed()


def test_an_address_that_connects_too_fast_is_held_and_then_closed() -> None:
    with RefBroker() as broker, ExitStack() as stack:
        with Admin(**broker.client_options) as admin:
            admin.alter_client_quotas({QuotaEntity(ip=""): {"connection_creation_rate": 1}})
        broker.clock.hold()
        for _ in range(10):  # those of a window
            assert is_served(stack.enter_context(Wire(broker.bootstrap_servers)))
        before = opened(broker)
        late = stack.enter_context(Wire(broker.bootstrap_servers))
        late.send(ApiVersionsRequest(), 0)
        wait_until(lambda: opened(broker) > before, CHANGE)
        # A connection that is held counts for no limit.
        assert connections(broker) == 10
        broker.clock.step(0.999)
        assert not closed(broker)
        broker.clock.step(0.001)
        assert late.is_closed()
        broker.clock.step(60)
        assert is_served(stack.enter_context(Wire(broker.bootstrap_servers)))


def test_the_quota_of_a_host_name_is_that_of_its_address(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "refbroker.server")
    monkeypatch.setattr(addresses, "look_up", {"laptop.test": "127.0.0.1"}.get)
    quota = {"connection_creation_rate": 1.0}
    with RefBroker() as broker, ExitStack() as stack:
        with Admin(**broker.client_options) as admin:
            with pytest.raises(AdminError) as caught:
                admin.alter_client_quotas({QuotaEntity(ip=name): quota for name in ("laptop.test", "none.test")})
            (error,) = caught.value.errors.values()
            assert isinstance(error, InvalidRequestError)
            assert "none.test is not a valid IP or resolvable host" in str(error)
            assert admin.describe_client_quotas() == {QuotaEntity(ip="laptop.test"): quota}
        wait_until(lambda: not connections(broker), CHANGE)
        wait_until(lambda: "the limits of connections of laptop.test are those of 127.0.0.1" in caplog.text)
        broker.clock.hold()
        # The connections of the Admin no longer count.
        broker.clock.step(60)
        for _ in range(10):
            assert is_served(stack.enter_context(Wire(broker.bootstrap_servers)))
        before = opened(broker)
        late = stack.enter_context(Wire(broker.bootstrap_servers))
        wait_until(lambda: opened(broker) > before, CHANGE)
        broker.clock.step(1)
        assert late.is_closed()


@pytest.mark.not_simulated("a lookup that hangs would block the simulation")
def test_a_name_server_that_hangs_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, asked = threading.Event(), threading.Event()

    def hang(host: str) -> str:
        asked.set()
        answer.wait()
        return "127.0.0.1"

    monkeypatch.setattr(addresses, "look_up", hang)
    part = AlterClientQuotasRequest.EntityData(entity_type="ip", entity_name="laptop.test")
    operation = AlterClientQuotasRequest.OpData(key="connection_creation_rate", value=5.0)
    request = AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData(entity=[part], ops=[operation])])
    with RefBroker() as broker, Wire(broker.bootstrap_servers) as one, Wire(broker.bootstrap_servers) as other:
        sent = one.send(request, 1)
        assert asked.wait(CHANGE)
        assert is_served(other)
        answer.set()
        correlation_id, body = decode_response_header(request.api_key, 1, one.read_frame())
        assert correlation_id == sent
        assert AlterClientQuotasResponse.decode(body, 1).entries[0].error_code == 0


def test_of_too_many_clients_that_do_not_log_in_the_oldest_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_connections, "MOST_PENDING", 3)
    with RefBroker(sasl={"alice": "wonder"}) as broker, ExitStack() as stack:
        strangers = [stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(3)]
        for stranger in strangers:
            assert is_served(stranger)
        with Admin(**broker.client_options) as client:
            client.describe_cluster()
            assert strangers[0].is_closed()
            client.list_topics()
        wait_until(lambda: connections(broker) <= 2, CHANGE)


def test_a_connection_that_cannot_be_set_up_counts_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    with RefBroker(max_connections=1, sasl={"alice": "wonder"}) as broker:
        with monkeypatch.context() as patch:
            patch.setattr(SaslListener, "authenticator", fail)
            with Wire(broker.bootstrap_servers) as failed:
                assert failed.is_closed()
        assert "could not be set up" in caplog.text
        with Wire(broker.bootstrap_servers) as later:
            assert is_served(later)
            assert connections(broker) == 1
