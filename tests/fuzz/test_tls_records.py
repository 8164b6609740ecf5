"""TLS between a client and a broker in memory: records that are cut anywhere, and damaged ones.

The bytes of a handshake differ each time, so a seed decides where they are cut and damaged.
"""

from __future__ import annotations

import asyncio
import logging
import random
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.config import AdminConfig
from kclient.errors import KafkaError
from kclient.net.events import BYTES, CLOSED, CONNECTED, FRAME, TLS_STARTED, BadFrame, PeerClosed
from kclient.net.tls import TlsChannel, TlsConnector
from kclient.net.transport import Address
from refbroker.config import BrokerConfig
from refbroker.metrics.counters import Closed
from refbroker.runtime.limited_log import LimitedLog
from refbroker.security.principals import ANONYMOUS
from refbroker.server.tls import TlsListener, TlsProtocol
from tests.support import pki

pytestmark = pytest.mark.fuzz

FRAMES = [b"first", bytes(range(256)) * 100, b"last"]
SENT = b"".join(len(frame).to_bytes(4) + frame for frame in FRAMES)


@cache
def listener() -> TlsListener:
    chain, key = pki.certificate("broker")
    settings = {"ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
    trust = {"ssl.truststore.certificates": pki.authority_pem(), "ssl.client.auth": "requested"}
    return TlsListener(BrokerConfig({"listeners": "SSL://127.0.0.1:0", **settings, **trust}), "SSL")


@cache
def connector(has_identity: bool) -> TlsConnector:
    chain, key = pki.certificate("client")
    own = {"ssl_keystore_certificate_chain": chain, "ssl_keystore_key": key} if has_identity else {}
    return TlsConnector(
        AdminConfig(security_protocol="SSL", ssl_truststore_certificates=pki.authority_pem(), **own)  # type: ignore[arg-type]
    )


class Socket(asyncio.Transport):
    """The broker's end of the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 40_000) if name == "peername" else default

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class Decrypted:
    """The broker's connection above TLS, which answers the first bytes."""

    def __init__(self) -> None:
        self.principal = ANONYMOUS
        self.closed_for = Closed.CLIENT
        self.data = bytearray()
        self._buffer = bytearray(4096)
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Do nothing."""

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        if not self.data:
            self.transport.write(SENT)
        self.data += self._buffer[:nbytes]

    def pause_writing(self) -> None:
        """Do nothing."""

    def resume_writing(self) -> None:
        """Do nothing."""


class Session:
    """A client and a broker, and what each has received.

    Parameters:
        has_identity: whether the client has a certificate.
    """

    def __init__(self, *, has_identity: bool) -> None:
        self.events: list[tuple[int, Any]] = []
        self.socket, self.broker = Socket(), Decrypted()
        self.is_closed = False
        self.frame_limit = 0
        self._to_broker = bytearray()
        timer = SimpleNamespace(cancel=lambda: None)
        loop: Any = SimpleNamespace(call_later=lambda *_: timer)
        log = LimitedLog(logging.getLogger("test"), lambda: 0.0)
        self._protocol = TlsProtocol(listener(), self.broker, loop, log, lambda _: None, lambda _: None)
        self._protocol.connection_made(self.socket)
        own: Any = self
        channel = connector(has_identity).connect("localhost", own)(Address(2, ("127.0.0.1", 9093)), own)
        assert isinstance(channel, TlsChannel)
        self.channel = channel
        self.channel.on_event(CONNECTED, None, 0.0)

    # The transport and the connection of the client

    def connect(self, address: Address, handler: Any, *, raw: bool) -> Session:
        return self

    def send(self, parts: Any, notify: bool = False) -> bool:
        for part in parts:
            self._to_broker += part
        return True

    def close(self) -> None:
        self.is_closed = True

    def on_event(self, event: int, value: Any, now: float) -> None:
        self.events.append((event, value))
        if event == CONNECTED:
            self.channel.send([SENT])

    # The network

    def flights(self, change: Any) -> None:
        """Carry what both send, until they have nothing more to send.

        Parameters:
            change: returns in which pieces a flight arrives; its arguments are the number of the flight and its bytes.
        """
        for number in range(20):
            data, other = bytes(self._to_broker), bytes(self.socket.written)
            self._to_broker.clear()
            self.socket.written.clear()
            if not data and not other:
                return
            for piece in change(2 * number, data):
                if not self.socket.is_closed:
                    self._protocol.data_received(piece)
            for piece in change(2 * number + 1, other):
                if not self.is_closed:
                    self.channel.on_event(BYTES, piece, 0.0)
        pytest.fail("the two sides do not stop to send")

    def check(self) -> None:
        """Check that nobody has received anything that was not sent."""
        kinds = [event for event, _ in self.events]
        frames = [bytes(value) for event, value in self.events if event == FRAME]
        assert kinds[0] == TLS_STARTED
        assert frames == FRAMES[: len(frames)]
        assert SENT.startswith(self.broker.data)
        if CLOSED in kinds:
            assert kinds.index(CLOSED) == len(kinds) - 1
            assert isinstance(self.events[-1][1], KafkaError | PeerClosed | BadFrame)
            assert self.is_closed


def cut(rng: random.Random, data: bytes) -> list[bytes]:
    places = {0, len(data), *(rng.randrange(len(data) + 1) for _ in range(rng.randrange(8)))}
    return [data[start:end] for start, end in pairwise(sorted(places))]


def damaged(rng: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(found) + 1)
        # The first bytes of a record are its kind, its version and its length.
        at = min(at, 5) if rng.random() < 0.2 else at
        match rng.randrange(4):
            case 0 if at < len(found):
                found[at] = rng.randrange(256)
            case 1:
                del found[at : at + rng.randrange(1, 2000)]
            case 2:
                found[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                found[at:at] = found[at : at + rng.randrange(1, 2000)]
    return bytes(found)


SEEDS = st.integers(0, 2**32 - 1).map(random.Random)


@given(rng=SEEDS, has_identity=st.booleans())
def test_records_that_are_cut_anywhere_arrive_whole(rng: random.Random, has_identity: bool) -> None:
    session = Session(has_identity=has_identity)
    session.flights(lambda number, flight: cut(rng, flight))
    session.check()
    assert [bytes(value) for event, value in session.events if event == FRAME] == FRAMES
    assert bytes(session.broker.data) == SENT
    assert str(session.broker.principal).startswith("User:CN=client" if has_identity else "User:ANONYMOUS")


@given(rng=SEEDS, has_identity=st.booleans(), wrong=st.integers(0, 7))
def test_damaged_records_end_the_connection_and_change_nothing(
    rng: random.Random, has_identity: bool, wrong: int
) -> None:
    session = Session(has_identity=has_identity)
    session.flights(lambda number, flight: cut(rng, damaged(rng, flight) if number == wrong else flight))
    session.check()


@given(first=st.binary(min_size=1, max_size=300), to_broker=st.booleans())
def test_random_bytes_end_the_connection(first: bytes, to_broker: bool) -> None:
    session = Session(has_identity=False)
    session.flights(lambda number, flight: [first] if number == (0 if to_broker else 3) else [flight])
    session.check()
    assert not session.broker.data
