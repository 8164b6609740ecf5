"""Whether a client reaches any broker: when that changes, what the application sees of it, and what does not count."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kclient.config import ClientConfig, ProducerConfig
from kclient.errors import ConfigError
from kclient.types import Connectivity, ConnectivityState
from tests.kclient.net.scripted import ScriptedChannel, ScriptedEngine

CONNECTING, REACHABLE, UNREACHABLE = ConnectivityState


class WatchedEngine(ScriptedEngine):
    """An engine whose connectivity callbacks run at once and are kept."""

    def __init__(self, servers: str = "boot:9092", **options: Any) -> None:
        self.changes: list[Connectivity] = []
        self.ended: list[ScriptedChannel] = []
        super().__init__(
            ProducerConfig(bootstrap_servers=servers, on_connectivity_change=self.changes.append, **options),
            run_soon=lambda function: function(),
        )

    @property
    def state(self) -> ConnectivityState:
        return self.engine.connectivity().state

    def refuse_new(self, seconds: float = 0.0) -> None:
        """Refuse the connections that are attempted in so many seconds."""
        self.settle()
        until = self.clock.now + seconds
        while True:
            for channel in self.network.channels:
                if not channel.closed and channel not in self.ended:
                    self.ended.append(channel)
                    channel.refuse()
            self.settle()
            if self.clock.now >= until:
                return
            self.advance(0.1)


def lose_all(scripted: WatchedEngine) -> None:
    """Have the connected broker die: its connections end, and new ones are refused."""
    for channel in scripted.network.channels:
        if not channel.closed and channel not in scripted.ended:
            scripted.ended.append(channel)
            channel.hang_up()
    scripted.refuse_new(5.0)


def test_a_new_client_is_connecting() -> None:
    scripted = WatchedEngine()
    scripted.settle()
    assert scripted.engine.connectivity() == Connectivity(CONNECTING, 0.0, {})
    assert scripted.changes == []


def test_the_first_connection_is_no_event() -> None:
    scripted = WatchedEngine()
    scripted.start()
    assert (scripted.state, scripted.changes) == (REACHABLE, [])


def test_a_client_that_finds_no_broker_at_start_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    scripted = WatchedEngine("a:1,b:2", client_id="billing")
    scripted.refuse_new(30.0)
    (change,) = scripted.changes
    assert change.state is UNREACHABLE
    assert set(change.errors) == {"a:1", "b:2"}
    assert "Connection refused" in str(change.errors["a:1"])
    (line,) = [record for record in caplog.records if "no broker is reachable" in record.message]
    assert line.levelno == logging.WARNING
    assert all(part in line.message for part in ("producer 'billing'", "a:1", "b:2", "Connection refused"))
    assert scripted.engine.connectivity().duration == pytest.approx(30.0, abs=1.0)


def test_one_bootstrap_server_that_was_not_tried_yet_may_still_be_reachable() -> None:
    scripted = WatchedEngine("a:1,b:2")
    scripted.settle()
    scripted.channel.refuse()
    scripted.settle()
    assert scripted.state is CONNECTING
    assert len(scripted.engine.connectivity().errors) == 1


def test_a_name_that_does_not_resolve_is_a_broker_that_is_not_reachable() -> None:
    scripted = WatchedEngine()
    scripted.network.names["boot"] = []
    scripted.settle()
    scripted.advance(1.0)
    assert scripted.state is UNREACHABLE
    assert "check the name" in str(scripted.engine.connectivity().errors["boot:9092"])


def test_an_idle_client_notices_that_its_only_broker_died() -> None:
    scripted = WatchedEngine()
    scripted.start()
    lose_all(scripted)
    (change,) = scripted.changes
    assert change.state is UNREACHABLE
    assert set(change.errors) == {"boot:9092", "b0:9092"}


def test_recovery_is_reported_once_and_as_loudly(caplog: pytest.LogCaptureFixture) -> None:
    scripted = WatchedEngine()
    scripted.start()
    lose_all(scripted)
    before = len(scripted.network.channels)
    while len(scripted.network.channels) == before:
        scripted.advance(0.1)
    scripted.connect()
    scripted.advance(5.0)
    assert [change.state for change in scripted.changes] == [UNREACHABLE, REACHABLE]
    assert scripted.engine.metrics.snapshot()["no_broker_reachable"] == 0
    (line,) = [record for record in caplog.records if "reachable again" in record.message]
    assert line.levelno == logging.WARNING
    assert "producer 'kclient'" in line.message


def test_the_metric_shows_an_outage() -> None:
    scripted = WatchedEngine()
    scripted.start()
    assert scripted.engine.metrics.snapshot()["no_broker_reachable"] == 0
    lose_all(scripted)
    assert scripted.engine.metrics.snapshot()["no_broker_reachable"] == 1


def test_connections_that_the_client_closed_as_idle_are_no_outage() -> None:
    scripted = WatchedEngine(connections_max_idle_ms=1_000)
    scripted.start()
    scripted.advance(2.0)
    assert all(channel.closed for channel in scripted.network.channels)
    assert (scripted.state, scripted.changes) == (REACHABLE, [])


def test_connections_that_the_broker_closed_as_idle_are_made_again_and_are_no_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scripted = WatchedEngine()
    bootstrap = scripted.start()
    bootstrap.hang_up()
    scripted.advance(2.0)
    scripted.connect()
    assert (scripted.state, scripted.changes) == (REACHABLE, [])
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_one_broker_of_several_is_no_outage_and_shows_its_error() -> None:
    scripted = WatchedEngine()
    scripted.start(brokers=2)
    scripted.nodes.ready(0, scripted.clock())
    scripted.settle()
    scripted.connect()
    scripted.nodes.ready(1, scripted.clock())
    scripted.settle()
    scripted.channel.refuse()
    scripted.settle()
    assert (scripted.state, scripted.changes) == (REACHABLE, [])
    assert set(scripted.engine.connectivity().errors) == {"b1:9092"}


def test_a_callback_that_fails_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(change: Connectivity) -> None:
        raise ValueError("no")

    scripted = ScriptedEngine(
        ClientConfig(bootstrap_servers="boot:9092", on_connectivity_change=fail), run_soon=lambda function: function()
    )
    scripted.network.names["boot"] = []
    scripted.settle()
    assert scripted.engine.connectivity().state is UNREACHABLE
    assert "on_connectivity_change failed" in caplog.text


def test_a_coroutine_function_is_refused_as_callback() -> None:
    async def notify(change: Connectivity) -> None:
        """Nothing awaits this."""

    with pytest.raises(ConfigError, match="on_connectivity_change must be a plain function"):
        ClientConfig(on_connectivity_change=notify)
