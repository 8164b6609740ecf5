"""The engine on real sockets, against a tiny broker and against peers that are no brokers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, NoReturn

import pytest

from kclient.config import ClientConfig
from kclient.errors import (
    BrokerConnectionError,
    DisconnectedError,
    KafkaError,
    KafkaTimeoutError,
    NotKafkaError,
    ProtocolError,
)
from kclient.net.engine import Engine
from kclient.net.manager import ANY_NODE
from kclient.net.waiting import wait_future
from kclient.protocol import Message
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.protocol.messages.metadata import MetadataRequest
from tests.integration.net.peers import Behaviour, Peer, TinyBroker, read_frame
from tests.support.patience import ANSWER, GUARD
from tests.support.waiting import wait_until

pytestmark = pytest.mark.not_simulated("talks over sockets of its own")

EngineMaker = Callable[..., Engine]


@pytest.fixture
def make_engine() -> Iterator[EngineMaker]:
    made: list[Engine] = []

    def make(*servers: str, **options: Any) -> Engine:
        engine = Engine(ClientConfig.from_options({"bootstrap_servers": servers, **options}))
        made.append(engine)
        engine.start()
        return engine

    yield make
    for engine in made:
        # Long enough for the guard to end the test if the thread does not stop by itself.
        engine.close(10 * GUARD)


def ask(engine: Engine, node: int = ANY_NODE, timeout: float = ANSWER) -> Future[Any]:
    return engine.call(node, MetadataRequest, lambda version: MetadataRequest(), timeout=timeout)


def test_metadata_and_requests_on_a_real_connection(make_engine: EngineMaker) -> None:
    with TinyBroker() as broker:
        engine = make_engine(broker.server)
        engine.metadata.add_topic("orders")
        wait_until(lambda: engine.metadata.cluster.partitions("orders"))
        assert engine.metadata.cluster.brokers[1].port == broker.port
        assert wait_future(ask(engine, 1), ANSWER).cluster_id == "tiny"
        shown = engine.metrics.snapshot()
        assert shown["request_total{node=1}"] == shown["response_total{node=1}"] >= 1
        assert shown["connection_count"] >= 1


def test_a_broker_with_an_old_api_versions(make_engine: EngineMaker) -> None:
    with TinyBroker(newest_api_versions=2) as broker:
        assert wait_future(ask(make_engine(broker.server)), ANSWER).cluster_id == "tiny"


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6(make_engine: EngineMaker) -> None:
    try:
        broker = TinyBroker(family=socket.AF_INET6, host="::1")
    except OSError as error:
        pytest.skip(f"no IPv6 loopback: {error}")
    with broker:
        assert wait_future(ask(make_engine(broker.server)), ANSWER).cluster_id == "tiny"


def test_a_host_name_with_an_address_nobody_listens_on(make_engine: EngineMaker) -> None:
    with TinyBroker() as broker:
        engine = make_engine(f"localhost:{broker.port}")
        assert wait_future(ask(engine), ANSWER).cluster_id == "tiny"


def test_large_answers_arrive_whole_and_in_order_beside_small_ones(make_engine: EngineMaker) -> None:
    with TinyBroker() as broker:
        broker.records = bytes(range(256)) * 20_000
        engine = make_engine(broker.server)
        wait_until(lambda: engine.metadata.cluster.brokers)
        fetches = []
        for _ in range(5):
            fetches.append(engine.call(1, FetchRequest, lambda version: FetchRequest(), timeout=ANSWER))
            small = ask(engine, 1)
        for fetch in fetches:
            answer = wait_future(fetch, ANSWER)
            assert isinstance(answer, FetchResponse)
            assert answer.responses[0].partitions[0].records == broker.records
        assert wait_future(small, ANSWER).cluster_id == "tiny"


def test_a_large_request_arrives_whole(make_engine: EngineMaker) -> None:
    with TinyBroker() as broker:
        engine = make_engine(broker.server)
        wait_until(lambda: engine.metadata.cluster.brokers)
        names = [f"{number:0>200}" for number in range(20_000)]

        def build(version: int) -> MetadataRequest:
            return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names])

        answer = wait_future(engine.call(1, MetadataRequest, build, timeout=ANSWER), ANSWER)
        assert [topic.name for topic in answer.topics] == names


def http(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>")


def tls(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"\x15\x03\x03\x00\x02\x02\x50")


def huge(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"\x7f\xff\xff\xff" + bytes(100))


def garbage(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"\x00\x00\x00\x10" + bytes(range(100, 200)))


def hang_up(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.shutdown(socket.SHUT_RDWR)


def half(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.shutdown(socket.SHUT_RDWR)


def silent(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.recv(1000)


@pytest.mark.parametrize(
    ("behaviour", "kind", "words"),
    [
        (http, NotKafkaError, "HTTP server"),
        (tls, NotKafkaError, "TLS port"),
        (huge, NotKafkaError, "not Kafka's protocol"),
        (garbage, NotKafkaError, "not Kafka's protocol"),
        (half, NotKafkaError, "closed the connection"),
        (hang_up, KafkaTimeoutError, 'if it has TLS, set security_protocol="SSL", or "SASL_SSL" if it has SASL'),
        (silent, KafkaTimeoutError, "received no response"),
    ],
)
def test_a_peer_that_is_no_broker_is_a_typed_error_that_says_what_and_where(
    make_engine: EngineMaker, behaviour: Behaviour, kind: type[KafkaError], words: str
) -> None:
    with Peer(behaviour) as peer:
        engine = make_engine(
            peer.server, socket_connection_setup_timeout_ms=200, socket_connection_setup_timeout_max_ms=300
        )
        error = ask(engine, timeout=1.5).exception(ANSWER)
        assert isinstance(error, kind)
        assert words in str(error)
        assert str(peer.port) in str(error)


def test_bad_peers_among_the_bootstrap_servers_do_not_hide_the_good_one(make_engine: EngineMaker) -> None:
    with Peer(http) as first, Peer(silent) as second, Peer(huge) as third, TinyBroker() as broker:
        engine = make_engine(first.server, second.server, third.server, "127.0.0.1:1", broker.server)
        assert wait_future(ask(engine), ANSWER).cluster_id == "tiny"


def test_a_broker_that_stops_in_the_middle_of_an_answer(make_engine: EngineMaker) -> None:
    with TinyBroker() as broker:
        engine = make_engine(broker.server)
        wait_until(lambda: engine.metadata.cluster.brokers)
        assert wait_future(ask(engine, 1), ANSWER)

        def stop(request: Any) -> Any:
            connection = broker.connections[-1]
            connection.sendall(b"\x00\x10\x00\x00\x00\x00")
            connection.shutdown(socket.SHUT_RDWR)
            raise EOFError

        broker._answer = stop  # type: ignore[method-assign]
        error = ask(engine, 1).exception(ANSWER)
        assert isinstance(error, DisconnectedError)
        assert "in the middle of a response" in str(error)
        del broker._answer
        assert wait_future(ask(engine), ANSWER).cluster_id == "tiny"


def test_an_impossible_size_after_set_up_closes_the_connection(make_engine: EngineMaker) -> None:
    with TinyBroker() as broker:
        engine = make_engine(broker.server)
        wait_until(lambda: engine.metadata.cluster.brokers)
        wait_future(ask(engine, 1), ANSWER)
        broker.connections[-1].sendall(b"\xff\xff\xff\xff")
        wait_until(lambda: isinstance(engine.nodes.connection_error(1), ProtocolError))
        assert wait_future(ask(engine), ANSWER).cluster_id == "tiny"


def test_a_request_that_is_not_answered_times_out(make_engine: EngineMaker) -> None:
    def read_only(connection: socket.socket) -> NoReturn:
        while True:
            read_frame(connection)

    def no_answer(request: Message) -> NoReturn:
        read_only(broker.connections[-1])

    with TinyBroker() as broker:
        engine = make_engine(broker.server)
        wait_until(lambda: engine.metadata.cluster.brokers)
        wait_future(ask(engine, 1), ANSWER)
        broker.behaviour = read_only
        broker._answer = no_answer  # type: ignore[method-assign]
        assert isinstance(ask(engine, 1, timeout=0.2).exception(ANSWER), KafkaTimeoutError)


def test_a_port_nobody_listens_on_is_named_with_the_reason(make_engine: EngineMaker) -> None:
    engine = make_engine("127.0.0.1:1")
    error = ask(engine, timeout=2.0).exception(ANSWER)
    assert isinstance(error, KafkaTimeoutError)
    assert "127.0.0.1:1" in str(error)
    assert "Connection refused" in str(error)
    assert isinstance(engine.metadata.last_error, BrokerConnectionError)


def test_hundreds_of_connections_to_bad_peers_leave_no_sockets_behind(make_engine: EngineMaker) -> None:
    with Peer(hang_up) as peer:
        engine = make_engine(peer.server, reconnect_backoff_ms=0, reconnect_backoff_max_ms=0)
        counter = engine.metrics.counter("connection_close_total")
        wait_until(lambda: counter.total >= 300)
        assert engine.metrics.snapshot()["connection_count"] == 0
        created = engine.metrics.counter("connection_creation_total").total
        assert created - counter.total <= 1
