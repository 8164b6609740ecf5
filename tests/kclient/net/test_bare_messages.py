"""A set-up step that sends bytes without a request around them, as after the old SaslHandshake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kclient.errors import BrokerConnectionError, KafkaError
from kclient.net.connection import Connection
from kclient.net.connection_failures import Peer
from kclient.net.connection_states import State
from kclient.net.events import CLOSED, CONNECTED, FRAME, PeerClosed
from kclient.net.handshake import BareMessage, Exchange, Setup
from kclient.net.transport import Address


class RecordingChannel:
    """A channel that records what is sent."""

    def __init__(self) -> None:
        self.frame_limit = 0
        self.sent: list[bytes] = []

    def send(self, parts: Sequence[Any], notify: bool = False) -> bool:
        self.sent.append(b"".join(parts))
        return True

    def close(self) -> None:
        self.sent.append(b"closed")


class Recorder:
    """The owner of a connection."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.is_ready = False
        self.error: KafkaError | None = None

    def connection_ready(self, connection: Connection, now: float) -> None:
        self.is_ready = True

    def connection_has_room(self, connection: Connection, now: float) -> None:
        raise AssertionError

    def connection_closed(self, connection: Connection, error: KafkaError, now: float) -> None:
        self.error = error


def connect() -> tuple[Connection, RecordingChannel, Recorder]:
    channel, owner = RecordingChannel(), Recorder()

    def step(setup: Setup) -> Exchange:
        for message in (b"first", b""):
            owner.received.append(bytes((yield BareMessage(message, "check the password"))))
        assert (yield BareMessage(b"last", "check the password", is_answered=False)) is None

    nothing: Any = None
    connection = Connection(
        Peer("1 (kafka:9092)", "kafka", 9092), owner, steps=[step], client_id="c", software_version="1",
        metrics=nothing, defer=nothing,
    )  # fmt: skip
    connection.open(lambda address, handler: channel, Address(2, ("kafka", 9092)), 10.0, 0.0)
    connection.on_event(CONNECTED, None, 0.0)
    return connection, channel, owner


def test_bytes_are_sent_and_received_as_they_are() -> None:
    connection, channel, owner = connect()
    assert channel.sent == [b"\0\0\0\5first"]
    connection.on_event(FRAME, b"ab", 0.0)
    assert channel.sent[1:] == [b"\0\0\0\0"]
    connection.on_event(FRAME, b"", 0.0)
    assert (channel.sent[2:], owner.received) == ([b"\0\0\0\4last"], [b"ab", b""])


def test_after_a_message_without_an_answer_the_connection_is_ready() -> None:
    connection, _, owner = connect()
    for _ in range(2):
        connection.on_event(FRAME, b"", 0.0)
    assert (owner.is_ready, connection.state) == (True, State.READY)


def test_a_peer_that_closes_instead_of_answering_is_reported_with_the_advice() -> None:
    connection, _, owner = connect()
    connection.on_event(CLOSED, PeerClosed(), 0.0)
    assert isinstance(owner.error, BrokerConnectionError)
    assert "the broker closed the connection during the login; check the password" in str(owner.error)
