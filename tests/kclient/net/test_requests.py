"""Requests on a connection: order, limits, timeouts, what a lost connection means, idle connections."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kclient.config import ProducerConfig
from kclient.errors import (
    BrokerConnectionError,
    DisconnectedError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    UnsupportedVersionError,
)
from kclient.net.manager import ANY_NODE
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.messages.produce import ProduceRequest
from kclient.types import Node
from tests.kclient.net.scripted import ScriptedEngine, cluster
from tests.support.typed import reread


def ready_rig(**options: Any) -> ScriptedEngine:
    """A client connected to broker 0."""
    scripted = ScriptedEngine(**options)
    scripted.start()
    scripted.nodes.ready(0, scripted.clock())
    scripted.settle()
    scripted.connect()
    assert scripted.nodes.ready(0, scripted.clock())
    return scripted


def test_a_request_to_a_broker_that_is_not_connected_waits_for_the_set_up() -> None:
    scripted = ScriptedEngine()
    scripted.start()
    scripted.send(0)
    assert scripted.channel.address.sockaddr[0] == "b0"
    scripted.channel.accept()
    scripted.settle()
    assert scripted.channel.names() == ["ApiVersionsRequest"]
    scripted.channel.answer_versions()
    scripted.settle()
    assert scripted.channel.names() == ["MetadataRequest"]


def test_requests_that_wait_fail_with_the_reason_when_connecting_fails() -> None:
    scripted = ScriptedEngine()
    scripted.start()
    scripted.send(0)
    scripted.send(0)
    scripted.channel.refuse()
    scripted.settle()
    assert [type(error) for error in scripted.results] == [BrokerConnectionError, BrokerConnectionError]
    assert scripted.results[0] is not scripted.results[1]
    assert "Connection refused" in str(scripted.results[0])
    assert scripted.results[0].api == "Metadata"


def test_a_request_to_a_broker_nobody_knows_fails_and_asks_for_metadata() -> None:
    scripted = ScriptedEngine()
    scripted.start()
    scripted.send(77)
    (error,) = scripted.results
    assert isinstance(error, DisconnectedError)
    assert error.refreshes_metadata
    assert "77" in str(error)


def test_at_most_the_configured_requests_are_in_flight_and_the_order_is_kept() -> None:
    scripted = ready_rig(max_in_flight_requests_per_connection=2)
    order: list[int] = []

    def build(number: int, version: int) -> MetadataRequest:
        order.append(number)
        return MetadataRequest()

    for number in range(5):
        scripted.send(0, build=partial(build, number))
    assert len(scripted.channel.unanswered) == 2
    assert scripted.nodes.in_flight(0) == 2
    assert not scripted.nodes.ready(0, scripted.clock())
    for _ in range(5):
        scripted.channel.answer(cluster())
        scripted.settle()
        assert scripted.nodes.in_flight(0) <= 2
    assert order == [0, 1, 2, 3, 4]
    assert len(scripted.results) == 5
    assert scripted.nodes.ready(0, scripted.clock())


def test_answers_reach_their_requests_in_order() -> None:
    scripted = ready_rig()
    for _ in range(3):
        scripted.send(0)
    for controller in (1, 2, 3):
        scripted.channel.answer(cluster(controller_id=controller))
    scripted.settle()
    assert [answer.controller_id for answer in scripted.results] == [1, 2, 3]


@pytest.mark.parametrize("wrong", [1, -5, 2**31 - 1])
def test_a_wrong_correlation_id_closes_the_connection(wrong: int) -> None:
    scripted = ready_rig()
    scripted.send(0)
    scripted.send(0)
    next_id = scripted.channel.unanswered[0][0].correlation_id
    scripted.channel.answer(cluster(), correlation_id=next_id + wrong if wrong == 1 else wrong)
    scripted.settle()
    first, second = scripted.results
    assert isinstance(first, ProtocolError)
    assert "correlation id" in str(first)
    assert isinstance(second, DisconnectedError)
    assert scripted.channel.closed


def test_an_answer_nobody_waits_for_closes_the_connection() -> None:
    scripted = ready_rig()
    scripted.channel.event(1, b"\0\0\0\x09")
    scripted.settle()
    assert scripted.channel.closed
    assert "response without a request" in str(scripted.nodes.connection_error(0))


def test_a_malformed_answer_closes_the_connection_and_names_the_message() -> None:
    scripted = ready_rig()
    scripted.send(0)
    header, _ = scripted.channel.unanswered[0]
    scripted.channel.event(1, header.correlation_id.to_bytes(4, "big") + b"\0\xff")
    scripted.settle()
    (error,) = scripted.results
    assert isinstance(error, ProtocolError)
    assert "MetadataResponse" in str(error)
    assert error.broker == "0 (b0:9092)"
    assert scripted.channel.closed


def test_the_tagged_fields_of_a_header_are_skipped() -> None:
    scripted = ready_rig()
    scripted.send(0)
    header, _ = scripted.channel.unanswered[0]
    body = cluster().encode(header.request_api_version)
    scripted.channel.event(1, header.correlation_id.to_bytes(4, "big") + b"\x01\x05\x02ab" + body)
    scripted.settle()
    assert isinstance(scripted.results[0], MetadataResponse)


def test_a_request_that_is_not_answered_in_time_ends_the_connection_for_all() -> None:
    scripted = ready_rig()
    scripted.send(0, timeout=10.0)
    scripted.send(0, timeout=2.0)
    channel = scripted.channel
    scripted.advance(1.9)
    assert not scripted.results
    scripted.advance(0.2)
    first, second = scripted.results
    assert isinstance(first, DisconnectedError)
    assert isinstance(second, KafkaTimeoutError)
    assert "2 s" in str(second)
    assert channel.closed
    assert scripted.nodes.retry_at(0) > scripted.clock()


def test_an_answer_in_time_leaves_later_deadlines_alone() -> None:
    scripted = ready_rig()
    scripted.send(0, timeout=2.0)
    scripted.advance(1.0)
    scripted.channel.answer(cluster())
    scripted.settle()
    scripted.send(0, timeout=5.0)
    scripted.advance(4.9)
    assert len(scripted.results) == 1
    scripted.advance(0.2)
    assert isinstance(scripted.results[1], KafkaTimeoutError)


def test_without_a_timeout_of_its_own_a_request_has_that_of_the_client() -> None:
    scripted = ready_rig(request_timeout_ms=3_000)
    scripted.send(0)
    scripted.advance(2.9)
    assert not scripted.results
    scripted.advance(0.2)
    assert isinstance(scripted.results[0], KafkaTimeoutError)


def test_a_request_that_cannot_be_written_in_time_fails_alone() -> None:
    scripted = ready_rig(max_in_flight_requests_per_connection=1)
    scripted.send(0, timeout=20.0)
    scripted.send(0, timeout=1.0)
    scripted.advance(1.1)
    (error,) = scripted.results
    assert isinstance(error, KafkaTimeoutError)
    assert not scripted.channel.closed


def test_a_lost_connection_fails_what_was_under_way_and_is_made_again_on_demand() -> None:
    scripted = ready_rig()
    scripted.send(0)
    scripted.channel.hang_up()
    scripted.settle()
    (error,) = scripted.results
    assert isinstance(error, DisconnectedError)
    assert error.retriable
    assert (error.broker, error.api) == ("0 (b0:9092)", "Metadata")
    assert not scripted.nodes.ready(0, scripted.clock())
    scripted.advance(1.0)
    assert not scripted.nodes.ready(0, scripted.clock())
    scripted.settle()
    scripted.connect()
    assert scripted.nodes.ready(0, scripted.clock())


def test_a_request_during_the_backoff_is_kept_for_the_next_attempt() -> None:
    scripted = ready_rig(reconnect_backoff_ms=1000)
    scripted.channel.hang_up()
    scripted.settle()
    scripted.send(0)
    retry_at = scripted.nodes.retry_at(0)
    scripted.advance(retry_at - scripted.clock() - 0.01)
    assert scripted.nodes.retry_at(0) == retry_at
    scripted.advance(0.02)
    assert scripted.network.lookups[-1][0] == "b0"
    scripted.connect().answer(cluster())
    scripted.settle()
    assert isinstance(scripted.results[0], MetadataResponse)


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    scripted = ready_rig(connections_max_idle_ms=60_000)
    scripted.advance(50.0)
    scripted.send(0, timeout=100.0)
    scripted.advance(59.0)
    scripted.channel.answer(cluster())
    scripted.settle()
    scripted.advance(59.0)
    assert not scripted.channel.closed
    scripted.advance(2.0)
    assert reread(scripted.channel.closed)
    assert scripted.nodes.connection_error(0) is None
    assert scripted.nodes.retry_at(0) == 0.0


def test_a_request_without_answer_is_done_when_its_bytes_are_out() -> None:
    scripted = ready_rig()
    scripted.send(0, ProduceRequest, expects_response=False)
    assert scripted.results == [None]
    scripted.channel.blocked = True
    scripted.send(0, ProduceRequest, expects_response=False)
    assert scripted.results == [None]
    assert scripted.nodes.in_flight(0) == 1
    scripted.channel.unblock()
    scripted.settle()
    assert scripted.results == [None, None]


def test_a_request_that_cannot_be_encoded_fails_alone() -> None:
    scripted = ready_rig()
    scripted.send(0, build=lambda version: MetadataRequest(include_cluster_authorized_operations=True))
    (error,) = scripted.results
    assert isinstance(error, ProtocolError)
    assert not scripted.channel.closed


def test_a_request_whose_build_raises_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    scripted = ready_rig()
    scripted.send(0, build=lambda version: vars(version))
    (error,) = scripted.results
    assert type(error) is KafkaError
    assert "could not be built: TypeError" in str(error)
    assert (error.broker, error.api, error.retriable) == ("0 (b0:9092)", "Metadata", False)
    assert isinstance(error.__cause__, TypeError)
    assert "the request Metadata to 0 (b0:9092) could not be built" in caplog.text
    scripted.send(0)
    scripted.channel.answer(cluster())
    scripted.settle()
    assert isinstance(scripted.results[1], MetadataResponse)


def test_the_range_of_a_request_narrows_what_is_negotiated() -> None:
    scripted = ready_rig()
    assert scripted.send(0, maximum_version=9).version == 9
    scripted.send(0, minimum_version=14)
    assert isinstance(scripted.results[0], UnsupportedVersionError)


def test_a_request_for_any_broker_goes_to_the_least_loaded_connection() -> None:
    scripted = ScriptedEngine(ProducerConfig(bootstrap_servers="boot:1"))
    scripted.start(brokers=2)
    channels = []
    for node in (0, 1):
        scripted.nodes.ready(node, scripted.clock())
        scripted.settle()
        channels.append(scripted.connect())
    scripted.send(0)
    scripted.send(-1)
    scripted.send(-1)
    assert sorted(len(channel.unanswered) for channel in channels) in ([1, 2],)
    assert len(channels[1].unanswered) >= 1


def test_idle_bootstrap_connections_close_when_a_broker_is_connected() -> None:
    scripted = ScriptedEngine()
    scripted.settle()
    boot = scripted.connect()
    scripted.send(-1)
    boot.answer(cluster())
    scripted.settle()
    boot.answer(cluster())
    scripted.settle()
    assert not boot.closed
    scripted.nodes.ready(0, scripted.clock())
    scripted.settle()
    scripted.connect()
    assert reread(boot.closed)
    assert len(scripted.results) == 1


def test_a_broker_that_moved_is_reconnected_at_its_new_address() -> None:
    scripted = ready_rig()
    old = scripted.channel
    scripted.send(0)
    moved = cluster()
    moved.brokers[0].host = "elsewhere"
    scripted.metadata.request_update()
    scripted.advance(1.0)
    assert old.names() == ["MetadataRequest", "MetadataRequest"]
    old.answer(cluster())
    old.answer(moved)
    scripted.send(0)
    assert old.closed
    assert scripted.network.lookups[-1][:2] == ("elsewhere", 9092) or scripted.nodes.ready(0, scripted.clock()) is False
    scripted.settle()
    assert scripted.channel.address.sockaddr[0] == "elsewhere"


def test_a_request_for_any_broker_uses_an_idle_connection_instead_of_a_long_poll() -> None:
    scripted = ready_rig()
    main = scripted.channel
    scripted.send(0)
    own = scripted.nodes.dedicate(Node(0, "b0", 9092))
    scripted.nodes.ready(own, scripted.clock())
    scripted.settle()
    dedicated = scripted.connect()
    scripted.send(ANY_NODE)
    assert main.names() == dedicated.names() == ["MetadataRequest"]
