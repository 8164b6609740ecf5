"""How a connection comes up: names, addresses, ApiVersions with its fallback, strangers, timeouts, backoff."""

from __future__ import annotations

import errno
import logging

import pytest

from kclient.config import AdminConfig, ClientConfig
from kclient.errors import (
    BrokerConnectionError,
    ConfigError,
    KafkaTimeoutError,
    NotKafkaError,
    UnsupportedVersionError,
)
from kclient.net.bootstrap import parse_servers
from kclient.net.connection_states import STATES, State
from kclient.net.link import STATES as LINK_STATES
from kclient.net.link import LinkState
from kclient.protocol.messages.api_versions import ApiVersionsResponse
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest
from tests.kclient.net.scripted import ALL_APIS, ScriptedEngine, cluster

BOOT = -2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        (" a:1 , b:2,a:1,", [("a", 1), ("b", 2)]),
        (["[::1]:9092", "10.0.0.1:80"], [("::1", 9092), ("10.0.0.1", 80)]),
        ("[fe80::1%eth0]:9092", [("fe80::1%eth0", 9092)]),
        ("PLAINTEXT://broker-1.example.org:9092", [("broker-1.example.org", 9092)]),
        ("localhost", [("localhost", 9092)]),
        ("a,b:9093", [("a", 9092), ("b", 9093)]),
        (["[::1]", "10.0.0.1"], [("::1", 9092), ("10.0.0.1", 9092)]),
    ],
)
def test_bootstrap_servers_are_host_and_port(text: str | list[str], expected: list[tuple[str, int]]) -> None:
    assert parse_servers(text) == expected


@pytest.mark.parametrize(
    "text", ["", ",", "localhost:", "9092", ":9092", "::1", "::1:9092", "a:0", "a:65536", "a:x", "http://a:80", "a b:1"]
)
def test_malformed_bootstrap_servers_are_refused_when_the_client_is_made(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ScriptedEngine(AdminConfig(bootstrap_servers=text))
    assert "bootstrap" in str(caught.value)


def test_every_state_that_is_entered_is_in_the_tables() -> None:
    assert set(STATES.states) == set(State)
    assert set(LINK_STATES.states) == set(LinkState)


def test_api_versions_is_asked_first_and_requests_wait_for_it() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    channel = scripted.channel
    channel.accept()
    scripted.settle()
    assert channel.names() == ["ApiVersionsRequest"]
    header, message = channel.unanswered[0]
    assert (header.request_api_version, header.client_id) == (4, "kclient")
    assert message.client_software_name == "kclient"  # type: ignore[attr-defined]
    channel.answer_versions()
    scripted.settle()
    assert channel.names() == ["MetadataRequest"]


@pytest.mark.parametrize("own_range", [(0, 3), (0, 2), None])
def test_a_broker_that_does_not_know_the_version_is_asked_with_its_own(own_range: tuple[int, int] | None) -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    channel = scripted.channel
    channel.accept()
    scripted.settle()
    keys = []
    if own_range:
        keys = [ApiVersionsResponse.ApiVersion(api_key=18, min_version=own_range[0], max_version=own_range[1])]
    channel.answer(ApiVersionsResponse(error_code=35, api_keys=keys), version=0)
    scripted.settle()
    header, _ = channel.unanswered[0]
    assert header.request_api_version == (own_range[1] if own_range else 0)
    channel.answer_versions()
    scripted.settle()
    assert channel.names() == ["MetadataRequest"]
    assert scripted.nodes.api_version(BOOT, MetadataRequest) == 13


def test_an_error_35_without_a_body_falls_back_to_version_0() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    channel = scripted.channel
    channel.accept()
    scripted.settle()
    header, _ = channel.unanswered.pop(0)
    channel.event(2 - 1, header.correlation_id.to_bytes(4, "big") + b"\x00\x23")
    scripted.settle()
    assert channel.unanswered[0][0].request_api_version == 0


def test_the_version_of_a_request_is_the_newest_that_both_know() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    channel = scripted.connect(ALL_APIS | {3: (0, 9)})
    assert channel.unanswered[0][0].request_api_version == 9


@pytest.mark.parametrize(
    ("last_join", "last_sync", "used"), [(9, 5, (9, 5)), (7, 5, (7, 5)), (6, 4, (5, 3)), (5, 3, (5, 3)), (2, 1, (2, 1))]
)
def test_a_broker_that_disconnects_at_the_latest_version_gets_the_previous_one(
    last_join: int, last_sync: int, used: tuple[int, int]
) -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    scripted.connect(ALL_APIS | {11: (0, last_join), 14: (0, last_sync)})
    assert (
        scripted.nodes.api_version(BOOT, JoinGroupRequest),
        scripted.nodes.api_version(BOOT, SyncGroupRequest),
    ) == used


def test_a_request_the_broker_is_too_old_for_names_api_ranges_and_broker() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    scripted.connect(ALL_APIS | {0: (0, 2)})
    scripted.send(BOOT, ProduceRequest, minimum_version=9)
    (error,) = scripted.results
    assert isinstance(error, UnsupportedVersionError)
    for part in ("versions 0 to 2", "9 to 13", "boot:9092", "Produce"):
        assert part in str(error)


def test_a_request_the_broker_does_not_have_is_an_error_too() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    scripted.connect({3: (0, 13)})
    scripted.send(BOOT, ProduceRequest)
    (error,) = scripted.results
    assert isinstance(error, UnsupportedVersionError)
    assert "does not have the API Produce" in str(error)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain", "HTTP server"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "TLS port"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not Kafka's protocol"),
    ],
)
def test_a_stranger_is_named_for_what_it_is(head: bytes, words: str) -> None:
    scripted = ScriptedEngine()
    future = scripted.engine.call(-1, MetadataRequest, lambda version: MetadataRequest())
    scripted.settle()
    scripted.channel.accept()
    scripted.settle()
    scripted.channel.nonsense(head)
    scripted.settle()
    error = future.exception(timeout=0)
    assert isinstance(error, NotKafkaError)
    assert words in str(error)
    assert "boot:9092" in str(error)
    assert isinstance(scripted.metadata.fatal_error, NotKafkaError)


def test_one_stranger_among_the_bootstrap_servers_hides_nobody() -> None:
    scripted = ScriptedEngine(AdminConfig(bootstrap_servers="a:1,b:2"))
    scripted.settle()
    scripted.channel.accept()
    scripted.settle()
    scripted.channel.nonsense(b"HTTP/1.1 200 OK")
    scripted.settle()
    scripted.connect().answer(cluster())
    scripted.settle()
    assert scripted.metadata.fatal_error is None
    assert scripted.metadata.cluster.brokers.keys() == {0}


def test_a_peer_that_closes_during_set_up_may_want_tls() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    scripted.channel.accept()
    scripted.settle()
    scripted.channel.hang_up()
    scripted.settle()
    error = scripted.nodes.connection_error(BOOT)
    assert isinstance(error, BrokerConnectionError)
    assert "TLS" in str(error)
    assert scripted.channel.closed


def test_garbage_in_the_answer_to_api_versions_is_no_kafka() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    scripted.channel.accept()
    scripted.settle()
    scripted.channel.event(1, b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")
    scripted.settle()
    assert isinstance(scripted.nodes.connection_error(BOOT), NotKafkaError)


def test_all_addresses_of_a_name_are_tried_before_the_wait() -> None:
    scripted = ScriptedEngine()
    scripted.network.names["boot"] = ["::1", "127.0.0.1"]
    scripted.settle()
    assert scripted.channel.address.sockaddr[0] == "::1"
    scripted.channel.refuse()
    scripted.settle()
    assert scripted.channel.address.sockaddr[0] == "127.0.0.1"
    scripted.connect()
    assert scripted.nodes.ready(BOOT, scripted.clock())


def test_a_name_that_does_not_resolve_is_an_error_that_says_so() -> None:
    scripted = ScriptedEngine()
    scripted.network.names["boot"] = []
    scripted.settle()
    assert "Name or service not known" in str(scripted.nodes.connection_error(BOOT))
    assert not scripted.network.channels


def test_a_refusal_by_the_own_system_counts_like_the_peers() -> None:
    scripted = ScriptedEngine()
    scripted.network.refuse_at_once = True
    scripted.settle()
    assert "Network is unreachable" in str(scripted.nodes.connection_error(BOOT))
    assert scripted.nodes.retry_at(BOOT) > scripted.clock()


def test_the_wait_between_attempts_doubles_up_to_its_maximum() -> None:
    scripted = ScriptedEngine(
        ClientConfig(bootstrap_servers="boot:1", reconnect_backoff_ms=100, reconnect_backoff_max_ms=1000)
    )
    waits = []
    scripted.settle()
    for _ in range(8):
        scripted.channel.refuse()
        scripted.settle()
        attempts = len(scripted.network.channels)
        wait = scripted.nodes.retry_at(BOOT) - scripted.clock()
        scripted.advance(wait * 0.99)
        assert len(scripted.network.channels) == attempts
        scripted.advance(wait * 0.02)
        assert len(scripted.network.channels) == attempts + 1
        waits.append(wait)
    for wait, plain in zip(waits, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0], strict=True):
        assert plain * 0.8 <= wait <= min(1.0, plain * 1.2)
    assert len(set(waits[:4])) == 4


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What was logged of connections, without debugging: level and text."""
    found = [one for one in caplog.records if one.name == "kclient.net.link" and one.levelno > logging.DEBUG]
    return [(one.levelname, one.getMessage()) for one in found]


def test_a_connection_that_comes_up_is_logged_as_loudly_as_its_failures(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kclient.net.link")
    scripted = ScriptedEngine(client_id="billing")
    scripted.settle()
    scripted.channel.refuse()
    scripted.settle()
    scripted.advance(1.0)
    scripted.channel.refuse()
    scripted.settle()
    scripted.advance(1.0)
    scripted.connect()
    failure, recovery = lines(caplog)
    assert failure[0] == "WARNING"
    assert failure[1].startswith("producer 'billing': could not connect to boot:9092: Connection refused")
    assert recovery == ("WARNING", "producer 'billing': connected to boot:9092 (bootstrap) again, after 2 s")


def test_a_lost_connection_that_comes_up_at_once_is_logged_as_loudly_as_the_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scripted = ScriptedEngine(client_id="billing")
    scripted.settle()
    channel = scripted.connect()
    caplog.set_level(logging.DEBUG, "kclient.net.link")
    for _ in range(6):  # more than may be under way, so that one waits for the connection
        scripted.send(BOOT)
    channel.hang_up()
    scripted.settle()
    scripted.advance(1.0)
    scripted.send(BOOT)
    scripted.connect()
    loss, recovery = lines(caplog)
    assert (loss[0], recovery[0]) == ("INFO", "INFO")
    assert loss[1].startswith("producer 'billing': ")
    assert recovery[1] == "producer 'billing': connected to boot:9092 (bootstrap) again, after 1 s"


def test_a_first_connection_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kclient.net.link")
    scripted = ScriptedEngine()
    scripted.settle()
    scripted.connect()
    assert lines(caplog) == []


def test_a_connection_that_comes_up_ends_the_row_of_failures() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    for _ in range(3):
        scripted.channel.refuse()
        scripted.settle()
        scripted.advance(2.0)
    channel = scripted.connect()
    channel.hang_up()
    scripted.settle()
    assert scripted.nodes.retry_at(BOOT) - scripted.clock() <= 0.05 * 1.2


@pytest.mark.parametrize("accepts", [False, True])
def test_a_set_up_that_takes_too_long_fails_and_the_next_one_gets_longer(accepts: bool) -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    taken = []
    for _ in range(3):
        started = scripted.clock()
        if accepts:
            scripted.channel.accept()
            scripted.settle()
        while not scripted.channel.closed:
            scripted.advance(0.1)
            assert scripted.clock() < started + 40
        taken.append(scripted.clock() - started)
        error = scripted.nodes.connection_error(BOOT)
        assert isinstance(error, BrokerConnectionError)
        assert ("no response" if accepts else "no connection") in str(error)
        while scripted.channel.closed:
            scripted.advance(0.1)
    assert 8 <= taken[0] <= 12.2
    assert 16 <= taken[1] <= 24.2
    assert 24 <= taken[2] <= 30.2


def test_a_stuck_name_lookup_fails_by_the_timeout_and_its_late_result_is_ignored() -> None:
    scripted = ScriptedEngine()
    scripted.network.stuck_lookups = True
    scripted.settle()
    scripted.advance(12.1)
    assert "not resolved in time" in str(scripted.nodes.connection_error(BOOT))
    _, _, handler = scripted.network.lookups[0]
    scripted.network.events.append((handler, 4, [("late",)]))
    scripted.settle()
    assert not scripted.network.channels


def test_a_silent_bootstrap_server_does_not_keep_the_client_from_the_next_one() -> None:
    scripted = ScriptedEngine(AdminConfig(bootstrap_servers="a:1,b:2"))
    scripted.settle()
    first = scripted.channel
    scripted.advance(1.1)
    assert scripted.channel is not first
    scripted.connect().answer(cluster())
    scripted.settle()
    assert scripted.metadata.cluster.brokers


def test_a_request_for_any_broker_times_out_with_the_reason() -> None:
    scripted = ScriptedEngine()
    scripted.send(-1, timeout=5.0)
    scripted.channel.refuse(errno.EHOSTUNREACH)
    scripted.settle()
    while not scripted.results:
        scripted.advance(1.0)
        if not scripted.channel.closed:
            scripted.channel.refuse(errno.EHOSTUNREACH)
            scripted.settle()
    (error,) = scripted.results
    assert isinstance(error, KafkaTimeoutError)
    assert "No route to host" in str(error)
    assert "No route to host" in str(scripted.metadata.last_error)


def test_a_peer_that_stays_silent_is_named_before_its_time_is_over() -> None:
    scripted = ScriptedEngine()
    scripted.send(-1, timeout=3.0)
    scripted.channel.accept()
    scripted.settle()
    assert scripted.metadata.last_error is None
    scripted.advance(3.1)
    (error,) = scripted.results
    assert isinstance(error, KafkaTimeoutError)
    assert "connected, but received no response" in str(error)
    assert "boot:9092" in str(scripted.metadata.last_error)
