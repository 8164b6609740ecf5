"""Limits of connections: by address, by listener, by rate, and of clients that do not log in."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from kclient import Admin
from kclient.admin import AlterConfig, ConfigResource, QuotaEntity
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from refbroker.server import pending_connections
from refbroker.testing import RefBroker
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until
from tests.support.wire import Wire


def is_served(wire: Wire) -> bool:
    return bool(wire.ask(ApiVersionsRequest(), 0).api_keys)


@pytest.mark.parametrize(
    "settings",
    [
        {"max.connections.per.ip": "2"},
        {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "10.0.0.1:7, 127.0.0.1:2"},
        {"listener.name.plaintext.max.connections": "2"},
    ],
    ids=["address", "override", "listener"],
)
def test_one_connection_too_many_is_closed(settings: dict[str, str]) -> None:
    with RefBroker(settings=settings) as broker, ExitStack() as stack:
        one, two, three = (stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(3))
        assert is_served(one)
        assert is_served(two)
        assert three.is_closed()
        two.socket.close()
        wait_until(lambda: broker.call(lambda kafka: len(kafka.server.connections)) == 1, CHANGE)
        assert is_served(stack.enter_context(Wire(broker.bootstrap_servers)))


def test_the_limit_of_an_address_changes_while_the_broker_runs() -> None:
    with RefBroker() as broker, ExitStack() as stack:
        with Admin(**broker.client_options) as admin:
            change = AlterConfig.set("max.connections.per.ip", 1)
            admin.incremental_alter_configs({ConfigResource.broker(): change})
        wait_until(lambda: not broker.call(lambda kafka: len(kafka.server.connections)), CHANGE)
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
        late = stack.enter_context(Wire(broker.bootstrap_servers))
        late.send(ApiVersionsRequest(), 0)
        wait_until(lambda: broker.call(lambda kafka: len(kafka.server.connections)) == 11, CHANGE)
        broker.clock.step(0.999)
        assert broker.call(lambda kafka: len(kafka.server.connections)) == 11
        broker.clock.step(0.001)
        assert late.is_closed()
        broker.clock.step(60)
        assert is_served(stack.enter_context(Wire(broker.bootstrap_servers)))


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
        wait_until(lambda: broker.call(lambda kafka: len(kafka.server.connections)) <= 2, CHANGE)
