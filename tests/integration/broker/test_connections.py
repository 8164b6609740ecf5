"""Connections: order, waiting, slow readers, large answers, idleness."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Any

import pytest

from kclient.protocol.frames import decode_response_header, peek_correlation_id
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.protocol.messages.metadata import MetadataRequest
from refbroker.broker import Broker
from refbroker.server import connection
from refbroker.testing import RefBroker
from tests.support.waiting import wait_until
from tests.support.wire import Wire, fetch_request, frame, produce_request, values


def test_pipelined_requests_are_answered_in_order(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    with Wire(kafka.bootstrap_servers) as wire:
        requests = [
            frame(produce_request("t", b"v%d" % number), 9, number)
            if number % 2
            else frame(MetadataRequest(topics=None), 12, number)
            for number in range(200)
        ]
        wire.write(b"".join(requests))
        answers = [peek_correlation_id(wire.read_frame()) for _ in requests]
        assert answers == list(range(200))
        assert values(wire.ask(fetch_request("t"), 11)) == [b"v%d" % number for number in range(1, 200, 2)]


def test_what_comes_behind_a_long_poll_waits_for_it(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    with Wire(kafka.bootstrap_servers) as waiting, Wire(kafka.bootstrap_servers) as other:
        waiting.write(
            frame(fetch_request("t", wait_ms=20_000), 11, 1)
            + frame(produce_request("t", b"second"), 9, 2)
            + frame(MetadataRequest(topics=None), 12, 3)
        )
        wait_until(lambda: kafka.call(lambda broker: len(broker.parts.delayed_fetches)))
        assert other.ask(produce_request("t", b"first"), 9).responses[0].partition_responses[0].base_offset == 0
        correlation_id, body = decode_response_header(1, 11, waiting.read_frame())
        assert correlation_id == 1
        assert values(FetchResponse.decode(body, 11)) == [b"first"]
        assert [peek_correlation_id(waiting.read_frame()) for _ in range(2)] == [2, 3]


def test_a_client_that_goes_while_it_waits_is_forgotten(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    wire = Wire(kafka.bootstrap_servers)
    wire.send(fetch_request("t", wait_ms=60_000), 11)
    wait_until(lambda: kafka.call(lambda broker: len(broker.parts.delayed_fetches)))
    wire.socket.close()
    wait_until(lambda: not kafka.call(lambda broker: len(broker.parts.delayed_fetches)))


def test_acks_0_leaves_no_gap_among_the_answers(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    with Wire(kafka.bootstrap_servers) as wire:
        wire.write(
            frame(produce_request("t", b"a", acks=0), 9, 1)
            + frame(produce_request("t", b"b"), 9, 2)
            + frame(ApiVersionsRequest(), 0, 3)
        )
        assert [peek_correlation_id(wire.read_frame()) for _ in range(2)] == [2, 3]
        wire.send(produce_request("none", b"c", acks=0), 9)
        assert wire.is_closed()


def test_records_of_every_size_come_back_whole(kafka: RefBroker) -> None:
    kafka.create_topic("t", max_message_bytes=20_000_000)
    limit = connection.SENDFILE_FROM
    sizes = [0, 1, 5000, connection.JOINED_BELOW, limit - 100, limit, limit + 100, 3_000_000, 10_000_000]
    with Wire(kafka.bootstrap_servers) as wire:
        sent = [bytes([number]) * size for number, size in enumerate(sizes)]
        for value in sent:
            answer = wire.ask(produce_request("t", value), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
        for offset, value in enumerate(sent):
            assert values(wire.ask(fetch_request("t", offset, max_bytes=1), 11)) == [value]
        assert values(wire.ask(fetch_request("t"), 11)) == sent


def test_a_client_that_does_not_read_delays_only_itself(kafka: RefBroker) -> None:
    kafka.create_topic("t", max_message_bytes=20_000_000)
    with Wire(kafka.bootstrap_servers) as slow, Wire(kafka.bootstrap_servers) as quick:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        value = bytes(range(256)) * 32_768
        assert quick.ask(produce_request("t", value), 9).responses[0].partition_responses[0].error_code == 0
        for number in range(20):
            slow.write(frame(fetch_request("t"), 11, number))
        for _ in range(20):
            assert quick.ask(MetadataRequest(topics=None), 12).topics
        for number in range(20):
            correlation_id, body = decode_response_header(1, 11, slow.read_frame())
            assert correlation_id == number
            assert values(FetchResponse.decode(body, 11)) == [value]


@pytest.mark.not_simulated("the simulated network has no sendfile")
@pytest.mark.not_secured("TLS does not use sendfile")
def test_where_the_file_system_has_no_sendfile_answers_go_without(
    kafka: RefBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def sendfile(*_: Any) -> int:
        refused.append(True)
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "sendfile", sendfile)
    value = bytes(range(256)) * 1024
    assert len(value) > connection.SENDFILE_FROM
    kafka.create_topic("t")
    with Wire(kafka.bootstrap_servers) as wire:
        for number in range(3):
            wire.ask(produce_request("t", b"%d" % number + value), 9)
        for number in range(3):
            fetched = values(wire.ask(fetch_request("t", number), 11))
            assert fetched == [b"%d" % later + value for later in range(number, 3)]
    assert len(refused) == 3


def test_a_client_that_disconnects_within_a_response_causes_no_warning(
    kafka: RefBroker, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic("t", max_message_bytes=40_000_000)
    with Wire(kafka.bootstrap_servers) as wire:
        wire.ask(produce_request("t", b"x" * 30_000_000), 9)
    # Larger than what the sockets hold, so that a part of the answer has no place to go.
    for abruptly in (True, False):
        wire = Wire(kafka.bootstrap_servers)
        wire.send(fetch_request("t"), 11)
        wire.socket.recv(1)
        if abruptly:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.socket.close()
        wait_until(lambda: not kafka.call(lambda broker: len(broker.server.connections)))
    assert caplog.text == ""


def test_a_client_that_disconnects_before_its_responses_causes_no_warning(
    kafka: RefBroker, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"t{number}" for number in range(20)]
    with Wire(kafka.bootstrap_servers) as wire:
        for name in names:
            kafka.create_topic(name)
            # Of the size from which a range is written by itself.
            wire.ask(produce_request(name, b"x" * connection.JOINED_BELOW), 9)
    one = FetchRequest.FetchPartition(partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic=name, partitions=[one]) for name in names]
    in_parts = FetchRequest(max_bytes=1 << 20, min_bytes=1, session_epoch=-1, topics=topics)
    for requests in ([frame(in_parts, 11, 1)], [frame(MetadataRequest(), 12, number) for number in range(20)]):
        wire = Wire(kafka.bootstrap_servers)
        wire.ask(ApiVersionsRequest(), 0)

        def ask_and_go(_: Broker, wire: Wire = wire, requests: list[bytes] = requests) -> None:
            # While the broker's loop does this, it cannot answer yet.
            wire.write(b"".join(requests))
            wire.socket.close()

        kafka.call(ask_and_go)
        wait_until(lambda: not kafka.call(lambda broker: len(broker.server.connections)))
    assert caplog.text == ""


def test_idle_connections_are_closed_and_busy_ones_are_not(kafka: RefBroker) -> None:
    kafka.create_topic("t")
    with Wire(kafka.bootstrap_servers) as idle, Wire(kafka.bootstrap_servers) as waiting:
        assert idle.ask(ApiVersionsRequest(), 0)
        waiting.send(fetch_request("t", wait_ms=60_000), 11)
        wait_until(lambda: kafka.call(lambda broker: len(broker.parts.delayed_fetches)))

        def time_passes(broker: Broker) -> None:
            server = broker.server
            for one in server.connections:
                one.last_active_ns -= 601 * 10**9
            server.sweep()

        kafka.call(time_passes)
        assert idle.is_closed()
        assert kafka.call(lambda broker: len(broker.server.connections)) == 1


def test_a_quiet_connection_gives_its_memory_back(kafka: RefBroker) -> None:
    kafka.create_topic("t", max_message_bytes=20_000_000)
    with Wire(kafka.bootstrap_servers) as wire:
        wire.ask(produce_request("t", b"x" * 5_000_000), 9)

        def quiet(broker: Broker) -> int:
            server = broker.server
            (one,) = server.connections
            one.last_active_ns -= 2 * 10**9
            server.sweep()
            return len(one._buffer)

        assert kafka.call(quiet) == connection.SMALL_BUFFER
        assert wire.ask(produce_request("t", b"y"), 9).responses[0].partition_responses[0].base_offset == 1


def test_a_handler_that_fails_behind_a_long_poll_closes_its_connection_alone(
    kafka: RefBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic("t")
    dispatcher = kafka.call(lambda broker: broker.server.dispatcher)
    handle = dispatcher.handle

    def fail_for_metadata(connection: Any, frame: memoryview) -> Any:
        if bytes(frame[:2]) == b"\x00\x03":
            raise ZeroDivisionError("a bug")
        return handle(connection, frame)

    monkeypatch.setattr(dispatcher, "handle", fail_for_metadata)
    with Wire(kafka.bootstrap_servers) as waiting, Wire(kafka.bootstrap_servers) as other:
        waiting.write(frame(fetch_request("t", wait_ms=20_000), 11, 1) + frame(MetadataRequest(topics=None), 12, 2))
        wait_until(lambda: kafka.call(lambda broker: len(broker.parts.delayed_fetches)))
        other.ask(produce_request("t", b"v"), 9)
        assert peek_correlation_id(waiting.read_frame()) == 1
        assert waiting.is_closed()
        assert waiting.name in caplog.text
        other.ask(produce_request("t", b"v"), 9)
