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
from tests.kclient.net.scripted import Rig, cluster
from tests.support.typed import reread


def ready_rig(**options: Any) -> Rig:
    """A client connected to broker 0."""
    rig = Rig(**options)
    rig.start()
    rig.nodes.ready(0, rig.clock())
    rig.settle()
    rig.connect()
    assert rig.nodes.ready(0, rig.clock())
    return rig


def test_a_request_to_a_broker_that_is_not_connected_waits_for_the_set_up() -> None:
    rig = Rig()
    rig.start()
    rig.send(0)
    assert rig.channel.address.sockaddr[0] == "b0"
    rig.channel.accept()
    rig.settle()
    assert rig.channel.names() == ["ApiVersionsRequest"]
    rig.channel.answer_versions()
    rig.settle()
    assert rig.channel.names() == ["MetadataRequest"]


def test_requests_that_wait_fail_with_the_reason_when_connecting_fails() -> None:
    rig = Rig()
    rig.start()
    rig.send(0)
    rig.send(0)
    rig.channel.refuse()
    rig.settle()
    assert [type(error) for error in rig.results] == [BrokerConnectionError, BrokerConnectionError]
    assert rig.results[0] is not rig.results[1]
    assert "Connection refused" in str(rig.results[0])
    assert rig.results[0].api == "Metadata"


def test_a_request_to_a_broker_nobody_knows_fails_and_asks_for_metadata() -> None:
    rig = Rig()
    rig.start()
    rig.send(77)
    (error,) = rig.results
    assert isinstance(error, DisconnectedError)
    assert error.refreshes_metadata
    assert "77" in str(error)


def test_at_most_the_configured_requests_are_in_flight_and_the_order_is_kept() -> None:
    rig = ready_rig(max_in_flight_requests_per_connection=2)
    order: list[int] = []

    def build(number: int, version: int) -> MetadataRequest:
        order.append(number)
        return MetadataRequest()

    for number in range(5):
        rig.send(0, build=partial(build, number))
    assert len(rig.channel.unanswered) == 2
    assert rig.nodes.in_flight(0) == 2
    assert not rig.nodes.ready(0, rig.clock())
    for _ in range(5):
        rig.channel.answer(cluster())
        rig.settle()
        assert rig.nodes.in_flight(0) <= 2
    assert order == [0, 1, 2, 3, 4]
    assert len(rig.results) == 5
    assert rig.nodes.ready(0, rig.clock())


def test_answers_reach_their_requests_in_order() -> None:
    rig = ready_rig()
    for _ in range(3):
        rig.send(0)
    for controller in (1, 2, 3):
        rig.channel.answer(cluster(controller_id=controller))
    rig.settle()
    assert [answer.controller_id for answer in rig.results] == [1, 2, 3]


@pytest.mark.parametrize("wrong", [1, -5, 2**31 - 1])
def test_a_wrong_correlation_id_closes_the_connection(wrong: int) -> None:
    rig = ready_rig()
    rig.send(0)
    rig.send(0)
    next_id = rig.channel.unanswered[0][0].correlation_id
    rig.channel.answer(cluster(), correlation_id=next_id + wrong if wrong == 1 else wrong)
    rig.settle()
    first, second = rig.results
    assert isinstance(first, ProtocolError)
    assert "correlation id" in str(first)
    assert isinstance(second, DisconnectedError)
    assert rig.channel.closed


def test_an_answer_nobody_waits_for_closes_the_connection() -> None:
    rig = ready_rig()
    rig.channel.event(1, b"\0\0\0\x09")
    rig.settle()
    assert rig.channel.closed
    assert "nobody waits for" in str(rig.nodes.connection_error(0))


def test_a_malformed_answer_closes_the_connection_and_names_the_message() -> None:
    rig = ready_rig()
    rig.send(0)
    header, _ = rig.channel.unanswered[0]
    rig.channel.event(1, header.correlation_id.to_bytes(4, "big") + b"\0\xff")
    rig.settle()
    (error,) = rig.results
    assert isinstance(error, ProtocolError)
    assert "MetadataResponse" in str(error)
    assert error.broker == "0 (b0:9092)"
    assert rig.channel.closed


def test_the_tagged_fields_of_a_header_are_skipped() -> None:
    rig = ready_rig()
    rig.send(0)
    header, _ = rig.channel.unanswered[0]
    body = cluster().encode(header.request_api_version)
    rig.channel.event(1, header.correlation_id.to_bytes(4, "big") + b"\x01\x05\x02ab" + body)
    rig.settle()
    assert isinstance(rig.results[0], MetadataResponse)


def test_a_request_that_is_not_answered_in_time_ends_the_connection_for_all() -> None:
    rig = ready_rig()
    rig.send(0, timeout=10.0)
    rig.send(0, timeout=2.0)
    channel = rig.channel
    rig.advance(1.9)
    assert not rig.results
    rig.advance(0.2)
    first, second = rig.results
    assert isinstance(first, DisconnectedError)
    assert isinstance(second, KafkaTimeoutError)
    assert "2 s" in str(second)
    assert channel.closed
    assert rig.nodes.retry_at(0) > rig.clock()


def test_an_answer_in_time_leaves_later_deadlines_alone() -> None:
    rig = ready_rig()
    rig.send(0, timeout=2.0)
    rig.advance(1.0)
    rig.channel.answer(cluster())
    rig.settle()
    rig.send(0, timeout=5.0)
    rig.advance(4.9)
    assert len(rig.results) == 1
    rig.advance(0.2)
    assert isinstance(rig.results[1], KafkaTimeoutError)


def test_without_a_timeout_of_its_own_a_request_has_that_of_the_client() -> None:
    rig = ready_rig(request_timeout_ms=3_000)
    rig.send(0)
    rig.advance(2.9)
    assert not rig.results
    rig.advance(0.2)
    assert isinstance(rig.results[0], KafkaTimeoutError)


def test_a_request_that_cannot_be_written_in_time_fails_alone() -> None:
    rig = ready_rig(max_in_flight_requests_per_connection=1)
    rig.send(0, timeout=20.0)
    rig.send(0, timeout=1.0)
    rig.advance(1.1)
    (error,) = rig.results
    assert isinstance(error, KafkaTimeoutError)
    assert not rig.channel.closed


def test_a_lost_connection_fails_what_was_under_way_and_is_made_again_on_demand() -> None:
    rig = ready_rig()
    rig.send(0)
    rig.channel.hang_up()
    rig.settle()
    (error,) = rig.results
    assert isinstance(error, DisconnectedError)
    assert error.retriable
    assert (error.broker, error.api) == ("0 (b0:9092)", "Metadata")
    assert not rig.nodes.ready(0, rig.clock())
    rig.advance(1.0)
    assert not rig.nodes.ready(0, rig.clock())
    rig.settle()
    rig.connect()
    assert rig.nodes.ready(0, rig.clock())


def test_a_request_during_the_backoff_is_kept_for_the_next_attempt() -> None:
    rig = ready_rig(reconnect_backoff_ms=1000)
    rig.channel.hang_up()
    rig.settle()
    rig.send(0)
    retry_at = rig.nodes.retry_at(0)
    rig.advance(retry_at - rig.clock() - 0.01)
    assert rig.nodes.retry_at(0) == retry_at
    rig.advance(0.02)
    assert rig.network.lookups[-1][0] == "b0"
    rig.connect().answer(cluster())
    rig.settle()
    assert isinstance(rig.results[0], MetadataResponse)


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    rig = ready_rig(connections_max_idle_ms=60_000)
    rig.advance(50.0)
    rig.send(0, timeout=100.0)
    rig.advance(59.0)
    rig.channel.answer(cluster())
    rig.settle()
    rig.advance(59.0)
    assert not rig.channel.closed
    rig.advance(2.0)
    assert reread(rig.channel.closed)
    assert rig.nodes.connection_error(0) is None
    assert rig.nodes.retry_at(0) == 0.0


def test_a_request_without_answer_is_done_when_its_bytes_are_out() -> None:
    rig = ready_rig()
    rig.send(0, ProduceRequest, expects_response=False)
    assert rig.results == [None]
    rig.channel.blocked = True
    rig.send(0, ProduceRequest, expects_response=False)
    assert rig.results == [None]
    assert rig.nodes.in_flight(0) == 1
    rig.channel.unblock()
    rig.settle()
    assert rig.results == [None, None]


def test_a_request_that_cannot_be_encoded_fails_alone() -> None:
    rig = ready_rig()
    rig.send(0, build=lambda version: MetadataRequest(include_cluster_authorized_operations=True))
    (error,) = rig.results
    assert isinstance(error, ProtocolError)
    assert not rig.channel.closed


def test_a_request_whose_making_fails_for_any_reason_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    rig = ready_rig()
    rig.send(0, build=lambda version: vars(version))
    (error,) = rig.results
    assert type(error) is KafkaError
    assert "could not be made: TypeError" in str(error)
    assert (error.broker, error.api, error.retriable) == ("0 (b0:9092)", "Metadata", False)
    assert isinstance(error.__cause__, TypeError)
    assert "Metadata for 0 (b0:9092) could not be made" in caplog.text
    rig.send(0)
    rig.channel.answer(cluster())
    rig.settle()
    assert isinstance(rig.results[1], MetadataResponse)


def test_the_range_of_a_request_narrows_what_is_negotiated() -> None:
    rig = ready_rig()
    assert rig.send(0, maximum_version=9).version == 9
    rig.send(0, minimum_version=14)
    assert isinstance(rig.results[0], UnsupportedVersionError)


def test_a_request_for_any_broker_goes_to_the_least_loaded_connection() -> None:
    rig = Rig(ProducerConfig(bootstrap_servers="boot:1"))
    rig.start(brokers=2)
    channels = []
    for node in (0, 1):
        rig.nodes.ready(node, rig.clock())
        rig.settle()
        channels.append(rig.connect())
    rig.send(0)
    rig.send(-1)
    rig.send(-1)
    assert sorted(len(channel.unanswered) for channel in channels) in ([1, 2],)
    assert len(channels[1].unanswered) >= 1


def test_bootstrap_connections_end_when_the_brokers_are_known_and_nothing_is_under_way() -> None:
    rig = Rig()
    rig.settle()
    boot = rig.connect()
    rig.send(-1)
    boot.answer(cluster())
    rig.settle()
    assert not boot.closed
    boot.answer(cluster())
    rig.settle()
    assert reread(boot.closed)
    assert len(rig.results) == 1


def test_a_broker_that_moved_is_reconnected_at_its_new_address() -> None:
    rig = ready_rig()
    old = rig.channel
    rig.send(0)
    moved = cluster()
    moved.brokers[0].host = "elsewhere"
    rig.metadata.request_update()
    rig.advance(1.0)
    assert old.names() == ["MetadataRequest", "MetadataRequest"]
    old.answer(cluster())
    old.answer(moved)
    rig.send(0)
    assert old.closed
    assert rig.network.lookups[-1][:2] == ("elsewhere", 9092) or rig.nodes.ready(0, rig.clock()) is False
    rig.settle()
    assert rig.channel.address.sockaddr[0] == "elsewhere"


def test_a_request_for_any_broker_does_not_wait_behind_a_long_poll_if_another_connection_is_idle() -> None:
    rig = ready_rig()
    main = rig.channel
    rig.send(0)
    own = rig.nodes.dedicate(Node(0, "b0", 9092))
    rig.nodes.ready(own, rig.clock())
    rig.settle()
    dedicated = rig.connect()
    rig.send(ANY_NODE)
    assert main.names() == dedicated.names() == ["MetadataRequest"]
