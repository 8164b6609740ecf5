"""TLS on a listener: contexts, made again when settings or files change, and the bytes of a connection."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from pathlib import Path
from typing import Any

import pytest

from kclient.security.tls_stream import TlsStream
from refbroker.config import BrokerConfig
from refbroker.metrics.counters import Closed
from refbroker.runtime.limited_log import LimitedLog
from refbroker.security.principals import ANONYMOUS
from refbroker.server import tls as tls_module
from refbroker.server.tls import ENCRYPTED_AT_ONCE, TlsListener, TlsProtocol, TlsTransport
from tests.support import pki
from tests.support.tls_twins import STREAMS, read_all


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "broker.pem"
    path.write_text("".join(pki.certificate("broker")))
    return path


@pytest.fixture
def config(store: Path) -> BrokerConfig:
    trust = {"ssl.truststore.certificates": pki.authority_pem()}
    return BrokerConfig({"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(store), **trust})


def test_connections_share_a_context_while_nothing_changes(config: BrokerConfig) -> None:
    listener = TlsListener(config, "SSL")
    assert listener.context() is listener.context()


def test_changed_settings_make_a_new_context(config: BrokerConfig) -> None:
    listener = TlsListener(config, "SSL")
    first = listener.context()
    config.set_dynamic({"listener.name.ssl.ssl.client.auth": "required"}, {})
    second = listener.context()
    assert (first.verify_mode, second.verify_mode) == (ssl.CERT_NONE, ssl.CERT_REQUIRED)
    assert listener.context() is second


def test_a_listener_with_sasl_asks_for_a_certificate_by_a_setting_of_its_own(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    everywhere = {**config.layers.set_values, "listeners": "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0"}
    everywhere["ssl.client.auth"] = "required"
    own = {**everywhere, "listener.name.sasl_ssl.ssl.client.auth": "requested"}
    assert TlsListener(BrokerConfig(own), "SASL_SSL").context().verify_mode is ssl.CERT_OPTIONAL
    assert TlsListener(BrokerConfig(everywhere), "SSL").context().verify_mode is ssl.CERT_REQUIRED
    assert not caplog.records
    assert TlsListener(BrokerConfig(everywhere), "SASL_SSL").context().verify_mode is ssl.CERT_NONE
    (line,) = caplog.messages
    assert line == (
        "ssl.client.auth=required is not for listeners with SASL; set listener.name.sasl_ssl.ssl.client.auth for it"
    )


def test_invalid_settings_are_logged_once_and_keep_the_context(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    listener = TlsListener(config, "SSL")
    first = listener.context()
    config.set_dynamic({"listener.name.ssl.ssl.keystore.location": "/none"}, {})
    assert listener.context() is listener.context() is first
    (line,) = [record.message for record in caplog.records]
    assert line == (
        "listener SSL: the previous certificates stay: ssl.keystore.location: could not read /none: "
        "No such file or directory"
    )


class Socket(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def take(self) -> bytes:
        data = b"".join(self.written)
        self.written.clear()
        return data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Received:
    """A connection that keeps what was decrypted."""

    def __init__(self) -> None:
        self.principal = ANONYMOUS
        self.closed_for = Closed.CLIENT
        self.transport: Any = None
        self.data = bytearray()
        self._buffer = bytearray(10_000)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        pass

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self._buffer[:nbytes]

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass


def noted(protocol: TlsProtocol) -> None:
    """Ignore what a server would note of a connection."""


class Line:
    """The broker's end of a connection whose handshake is complete, and a client.

    Parameters:
        cut: the size of the pieces in which the client's bytes arrive.
    """

    def __init__(self, listener: TlsListener, cut: int = 1 << 30) -> None:
        self._cut = cut
        self.socket = Socket()
        self.connection = Received()
        log = LimitedLog(logging.getLogger("refbroker.test"), lambda: 0.0)
        self.protocol = TlsProtocol(listener, self.connection, asyncio.get_running_loop(), log, noted, noted)
        self.protocol.connection_made(self.socket)
        self.client = TlsStream(pki.client_context(), server_hostname="localhost")
        while not self.client.do_handshake():
            self.deliver()
            self.client.receive(self.socket.take())
        self.deliver()
        assert isinstance(self.connection.transport, TlsTransport)

    def deliver(self) -> None:
        """Pass what the client has written to the broker."""
        data = self.client.take()
        while data:
            self.protocol.data_received(data[: self._cut])
            data = data[self._cut :]

    def read(self) -> bytes:
        self.client.receive(self.socket.take())
        return read_all(self.client)


@pytest.fixture(params=STREAMS)
def listener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, config: BrokerConfig) -> TlsListener:
    monkeypatch.setattr(tls_module, "tls_stream", request.param)
    return TlsListener(config, "SSL")


@pytest.mark.parametrize("cut", [1, 3000, 1 << 30])
async def test_requests_may_be_cut_anywhere(listener: TlsListener, cut: int, rng: random.Random) -> None:
    line = Line(listener, cut)
    sent = b""
    for size in (1, 300, 50_000):
        part = rng.randbytes(size)
        line.client.write([part])
        sent += part
        line.deliver()
    assert line.connection.data == sent


async def test_what_arrives_while_reading_pauses_is_passed_on_later(listener: TlsListener, rng: random.Random) -> None:
    line = Line(listener)
    sent = [rng.randbytes(size) for size in (100, 40_000, 7)]
    line.connection.transport.pause_reading()
    for part in sent:
        line.client.write([part])
        line.deliver()
    assert line.connection.data == b""
    line.connection.transport.resume_reading()
    await asyncio.sleep(0)
    assert line.connection.data == b"".join(sent)


async def test_responses_are_encrypted_in_pieces_and_in_order(listener: TlsListener, rng: random.Random) -> None:
    line = Line(listener)
    line.read()
    parts = [rng.randbytes(size) for size in (50, 3, 900_000, 0, 16_384, 300_000, 9)]
    line.connection.transport.writelines(parts)
    assert all(len(data) < ENCRYPTED_AT_ONCE * 1.01 for data in line.socket.written)
    assert line.read() == b"".join(parts)
    line.connection.transport.write(b"small")
    assert len(line.socket.written) == 1
    assert line.read() == b"small"


async def test_a_client_that_ends_the_connection_closes_the_socket(listener: TlsListener) -> None:
    line = Line(listener)
    line.client.write([b"last"])
    line.client.shut_down()
    line.deliver()
    assert (bytes(line.connection.data), line.socket.is_closed) == (b"last", True)


async def test_closing_tells_the_client(listener: TlsListener) -> None:
    line = Line(listener)
    line.read()
    line.connection.transport.close()
    assert line.socket.is_closed
    with pytest.raises(ssl.SSLZeroReturnError):
        line.read()


async def test_a_changed_record_closes_the_socket_and_the_client_learns_why(
    listener: TlsListener, caplog: pytest.LogCaptureFixture
) -> None:
    line = Line(listener)
    line.read()
    line.client.write([b"first"])
    line.client.write([b"second"])
    data = bytearray(line.client.take())
    data[-1] ^= 1
    line.protocol.data_received(bytes(data))
    assert (bytes(line.connection.data), line.socket.is_closed) == (b"first", True)
    assert "TLS failed: DECRYPTION_FAILED_OR_BAD_RECORD_MAC" in caplog.text
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        line.read()
