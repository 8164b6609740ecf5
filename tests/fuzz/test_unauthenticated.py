"""The frames of a client that has not logged in: whatever they are, they log in nobody and disturb nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.protocol import Message
from kclient.protocol.frames import encode_request
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kclient.security.scram import MECHANISMS
from kclient.security.secret import Secret
from refbroker.runtime.limited_log import LimitedLog
from refbroker.security.principals import ANONYMOUS
from refbroker.security.sasl import TOKEN_LIMIT, Authenticator, Users
from refbroker.server.connection import Connection
from tests.support.broker_harness import Harness, turns
from tests.support.damage import cut, damaged

pytestmark = pytest.mark.fuzz

USERS = Users({"alice": Secret("wonder")}, lambda mechanism, user: None, lambda mechanism, name: None, b"secret")
FORBIDDEN = b"alice\0wonder"
"""Part of a token with which somebody may log in, so that nothing below contains it by chance."""


class Socket(asyncio.Transport):
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 40_000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Problems(logging.Handler):
    """Keeps the errors that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Broker:
    """A broker without sockets, in a loop that runs when a test says so."""

    def __init__(self, directory: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.harness = self.loop.run_until_complete(self._open(directory))
        self.config = self.harness.broker.config
        self.dispatcher = self.harness.dispatcher
        self.bad_connections = LimitedLog(logging.getLogger("refbroker.test"), lambda: 0.0)

    async def _open(self, directory: Path) -> Harness:
        protocols = "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"
        return Harness(
            directory, connection_failed_authentication_delay_ms="0", listener_security_protocol_map=protocols
        )

    def opened(self, connection: Connection) -> None:
        """See ConnectionListener."""

    ready = lost = opened

    async def receive(self, pieces: list[bytes]) -> tuple[Connection, Socket]:
        """Return a new connection that has received some bytes."""
        login = Authenticator(USERS.mechanisms(["PLAIN", *MECHANISMS]), self.harness.clock)
        connection, socket = Connection(self, "SASL", login), Socket()
        connection.connection_made(socket)
        for piece in pieces:
            rest = memoryview(piece)
            while rest and not socket.is_closed:
                buffer = connection.get_buffer(-1)
                count = min(len(buffer), len(rest))
                buffer[:count] = rest[:count]
                connection.buffer_updated(count)
                rest = rest[count:]
                if connection.is_busy:
                    await turns()
        await turns()
        connection.connection_lost(None)
        return connection, socket


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("data"))
    yield made
    made.loop.run_until_complete(asyncio.sleep(0))
    made.loop.call_soon(made.harness.close)
    made.loop.run_until_complete(turns())
    made.loop.close()


def framed(request: Message, version: int) -> bytes:
    return b"".join(encode_request(request, version, 1, "fuzz"))


FRAMES = [
    *(
        framed(ApiVersionsRequest(client_software_name="a", client_software_version="1"), version)
        for version in range(5)
    ),
    *(framed(SaslHandshakeRequest(mechanism=name), 1) for name in ("PLAIN", "SCRAM-SHA-256", "GSSAPI")),
    framed(SaslHandshakeRequest(mechanism="PLAIN"), 0),
    framed(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 0),
    *(framed(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), version) for version in range(3)),
    framed(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2),
    framed(SaslAuthenticateRequest(auth_bytes=b"c=biws,r=abc,p=AAAA"), 2),
    framed(MetadataRequest(topics=None), 12),
    framed(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1)]), 7),
    b"\0\0\0\x0c\0alice\0wrong",
    b"\0\0\0\x10n,,n=alice,r=abc",
    b"\0\0\0\0",
    b"\x7f\xff\xff\xff",
    (TOKEN_LIMIT).to_bytes(4) + b"abc",
    (TOKEN_LIMIT + 1).to_bytes(4),
]

frames = st.sampled_from(FRAMES)


@given(
    stream=st.lists(frames | frames.flatmap(damaged) | st.binary(max_size=60), max_size=6)
    .map(b"".join)
    .filter(lambda data: FORBIDDEN not in data)
    .flatmap(cut)
)
def test_whatever_comes_before_the_login_logs_in_nobody(broker: Broker, stream: list[bytes]) -> None:
    problems, logger = Problems(), logging.getLogger("refbroker")
    logger.addHandler(problems)
    before = broker.harness.broker.metadata.end_offset
    try:
        connection, socket = broker.loop.run_until_complete(broker.receive(stream))
    finally:
        logger.removeHandler(problems)
    assert not problems.records
    assert not connection.is_authenticated
    assert connection.principal == ANONYMOUS
    assert broker.harness.broker.metadata.end_offset == before
    assert len(socket.written) < 10_000


@given(pieces=st.sampled_from([0, 1]).flatmap(lambda version: cut(login_with(version))))
def test_a_login_in_pieces_is_a_login(broker: Broker, pieces: list[bytes]) -> None:
    connection, _ = broker.loop.run_until_complete(broker.receive(pieces))
    assert str(connection.principal) == "User:alice"


def login_with(version: int) -> bytes:
    token = b"\0" + FORBIDDEN
    message = len(token).to_bytes(4) + token if version == 0 else framed(SaslAuthenticateRequest(auth_bytes=token), 2)
    return FRAMES[4] + framed(SaslHandshakeRequest(mechanism="PLAIN"), version) + message
