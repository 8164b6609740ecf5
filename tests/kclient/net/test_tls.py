"""TLS on a client's connection, against OpenSSL's server side in memory: bytes may be cut anywhere."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from kclient.config import AdminConfig
from kclient.errors import BrokerConnectionError, KafkaError, SslAuthenticationError
from kclient.net.events import BYTES, CLOSED, CONNECTED, FRAME, TLS_STARTED, BadFrame, PeerClosed
from kclient.net.tls import TlsChannel, TlsConnector
from kclient.net.transport import Address
from tests.support import pki

ADDRESS = Address(2, ("127.0.0.1", 9093))
HOST = "localhost"


def whole(data: bytes) -> list[bytes]:
    """Return what the server sends as it is."""
    return [data]


class Wire:
    """A transport with one connection, whose other end is a server of OpenSSL.

    Parameters:
        server: its context; None for a peer that sends what the test says.
        cut: splits what the server sends.
    """

    def __init__(
        self, server: ssl.SSLContext | None, cut: Callable[[bytes], list[bytes]] = lambda data: [data]
    ) -> None:
        self.closed = False
        self.frame_limit = 0
        self.failure: ssl.SSLError | None = None
        self.decrypted = bytearray()
        self._cut = cut
        self._to_server, self._from_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._server = server.wrap_bio(self._to_server, self._from_server, server_side=True) if server else None
        self.peer: Any = None

    def connect(self, address: Address, handler: Any, *, raw: bool = False) -> Wire:
        assert raw
        self.peer = handler
        return self

    def send(self, parts: Any, notify: bool = False) -> bool:
        for part in parts:
            self._to_server.write(part)
        return True

    def close(self) -> None:
        self.closed = True

    def pump(self) -> None:
        """Let the server read and answer, until nothing is on the way."""
        while not self.closed:
            self._serve()
            data = self._from_server.read()
            if not data:
                return
            for piece in self._cut(data):
                self.peer.on_event(BYTES, piece, 0.0)

    def respond(self, data: bytes) -> None:
        assert self._server is not None
        self._server.write(data)
        self.pump()

    def end(self) -> None:
        """Let the server end the connection as TLS wants it."""
        assert self._server is not None
        try:
            self._server.unwrap()
        except ssl.SSLWantReadError:
            self.pump()

    def _serve(self) -> None:
        if self._server is None or self.failure is not None:
            return
        try:
            if self._server.version() is None or not self.decrypted:
                self._server.do_handshake()
            while data := self._server.read(65536):
                self.decrypted += data
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            self.failure = error


class Log:
    """A handler that keeps its events."""

    def __init__(self) -> None:
        self.events: list[tuple[int, Any]] = []

    def on_event(self, event: int, value: Any, now: float) -> None:
        self.events.append((event, value))

    @property
    def kinds(self) -> list[int]:
        return [event for event, _ in self.events]

    @property
    def reason(self) -> Any:
        assert self.kinds[-1] == CLOSED
        return self.events[-1][1]


def connect(wire: Wire, **options: Any) -> tuple[TlsChannel, Log]:
    given = {"ssl_truststore_certificates": pki.authority_pem(), **options}
    connector = TlsConnector(AdminConfig(security_protocol="SSL", **given))
    log = Log()
    channel = connector.connect(HOST, wire)(ADDRESS, log)  # type: ignore[arg-type]
    assert isinstance(channel, TlsChannel)
    channel.on_event(CONNECTED, None, 0.0)
    wire.pump()
    return channel, log


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4) + body for body in bodies)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_frames_pass_in_both_directions(version: ssl.TLSVersion) -> None:
    wire = Wire(pki.server_context(maximum_version=version))
    channel, log = connect(wire)
    assert log.kinds == [TLS_STARTED, CONNECTED]
    large = random.Random(1).randbytes(300_000)
    assert channel.send([b"\0\0\0\4abcd", memoryview(large), b"end", b"x" * 20_000])
    wire.pump()
    assert bytes(wire.decrypted) == b"\0\0\0\4abcd" + large + b"end" + b"x" * 20_000
    wire.respond(framed(b"1234", large, b"5678"))
    assert [bytes(value) for event, value in log.events if event == FRAME] == [b"1234", large, b"5678"]


@pytest.mark.parametrize("seed", range(20))
def test_records_may_be_cut_anywhere(seed: int) -> None:
    rng = random.Random(seed)

    def cut(data: bytes) -> list[bytes]:
        places = sorted({0, len(data), *(rng.randrange(len(data)) for _ in range(rng.randrange(40)))})
        return [data[start:end] for start, end in pairwise(places)]

    wire = Wire(pki.server_context(), cut)
    _, log = connect(wire)
    bodies = [rng.randbytes(rng.choice((4, 5, 100, 16_384, 70_000))) for _ in range(20)]
    wire.respond(framed(*bodies))
    assert [bytes(value) for event, value in log.events if event == FRAME] == bodies


def test_a_frame_that_is_too_large_is_refused_before_its_memory_is_allocated() -> None:
    wire = Wire(pki.server_context())
    channel, log = connect(wire)
    channel.frame_limit = 1000
    wire.respond(b"\x7f\xff\xff\xff12345")
    assert isinstance(log.reason, BadFrame)
    assert wire.closed


def test_an_end_in_the_middle_of_a_frame_keeps_its_start() -> None:
    for proper in (True, False):
        wire = Wire(pki.server_context())
        channel, log = connect(wire)
        wire.respond(b"\0\0\0\7ab")
        if proper:
            wire.end()
        else:
            channel.on_event(CLOSED, PeerClosed(), 0.0)
        assert isinstance(log.reason, PeerClosed)
        assert log.reason.head == b"\0\0\0\7"


def test_closing_tells_the_broker() -> None:
    wire = Wire(pki.server_context())
    channel, log = connect(wire)
    channel.send([b"last"])
    channel.close()
    channel.close()
    wire.closed = False
    wire.pump()
    assert (bytes(wire.decrypted), wire.failure) == (b"last", None)
    assert log.kinds == [TLS_STARTED, CONNECTED]
    assert not channel.send([b"more"])


def test_a_handler_that_closes_gets_no_further_frame() -> None:
    class Closing(Log):
        channel: TlsChannel

        def on_event(self, event: int, value: Any, now: float) -> None:
            super().on_event(event, value, now)
            if event == FRAME:
                self.channel.close()

    wire = Wire(pki.server_context())
    channel, log = connect(wire)
    closing = Closing()
    closing.channel, closing.events = channel, log.events
    channel._handler = closing
    wire.respond(framed(b"1234", b"5678"))
    assert log.kinds == [TLS_STARTED, CONNECTED, FRAME]


def refused(server: ssl.SSLContext, **options: Any) -> KafkaError:
    """Return the error of a handshake that fails on either side."""
    wire = Wire(server)
    _, log = connect(wire, **options)
    wire.pump()
    reason = log.reason
    assert isinstance(reason, KafkaError)
    return reason


def test_a_broker_of_an_unknown_authority_is_named_with_its_certificate() -> None:
    error = refused(pki.server_context(signer=pki.stranger()))
    assert isinstance(error, SslAuthenticationError)
    assert error.fatal
    assert "localhost:9093 is not trusted: " in error.message
    assert 'it has the certificate "CN=broker,OU=' in error.message
    assert 'issued by "OU=Testing CA' in error.message
    assert error.message.endswith("; set ssl_truststore_location to the certificate of its authority")
    assert not str(error).startswith("SSL_AUTHENTICATION_FAILED (")


def test_a_certificate_for_another_host_names_the_hosts_that_it_is_for() -> None:
    error = refused(pki.server_context(host="kafka.example.org"))
    assert "for kafka.example.org, issued by" in error.message
    assert "connect by a name in the certificate" in error.message
    wire = Wire(pki.server_context(host="kafka.example.org"))
    _, log = connect(wire, ssl_endpoint_identification_algorithm="")
    assert log.kinds == [TLS_STARTED, CONNECTED]


def test_an_expired_certificate_has_dates() -> None:
    error = refused(pki.server_context(days=-1))
    assert "certificate has expired; it has the certificate" in error.message
    assert error.message.endswith("the certificate must be replaced on the broker")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_broker_that_refuses_the_client_is_no_lost_connection(version: ssl.TLSVersion) -> None:
    demanding: dict[str, Any] = {"verify_mode": ssl.CERT_REQUIRED, "maximum_version": version}
    error = refused(pki.server_context(**demanding))
    assert isinstance(error, SslAuthenticationError)
    if version == ssl.TLSVersion.TLSv1_3:
        assert "localhost:9093 refused a client without a certificate (certificate required)" in error.message
        assert error.message.endswith("; set ssl_keystore_location")
    else:
        assert error.message.endswith("and whether the listener asks for a certificate")
    chain, key = pki.certificate(signer=pki.stranger())
    error = refused(pki.server_context(**demanding), ssl_keystore_certificate_chain=chain, ssl_keystore_key=key)
    assert "localhost:9093 refused the certificate of this client (unknown ca)" in error.message


def test_a_broker_without_a_common_version_is_named() -> None:
    error = refused(pki.server_context(maximum_version=ssl.TLSVersion.TLSv1_2), ssl_enabled_protocols=("TLSv1.3",))
    assert "the TLS handshake with localhost:9093 failed" in error.message
    assert "check ssl_enabled_protocols and ssl_cipher_suites" in error.message


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x10\0\0\0\0" + bytes(12)], ids=["http", "kafka"]
)
def test_a_peer_without_tls_is_named(answer: bytes) -> None:
    wire = Wire(None)
    _, log = connect(wire)
    wire.peer.on_event(BYTES, answer, 0.0)
    assert isinstance(log.reason, BrokerConnectionError)
    assert "it does not speak TLS" in str(log.reason)
    assert log.reason.retriable


def test_a_peer_that_closes_during_the_handshake_is_named() -> None:
    wire = Wire(None)
    channel, log = connect(wire)
    channel.on_event(CLOSED, PeerClosed(), 0.0)
    assert "closed the connection during the TLS handshake; if this listener has no TLS, set" in str(log.reason)


@pytest.mark.parametrize(("address", "host", "name"), [
    (ADDRESS, "kafka.example.org.", "kafka.example.org"),
    (ADDRESS._replace(name="one.example.org"), "any.example.org", "one.example.org"),
], ids=["trailing dot", "canonical"])  # fmt: skip
def test_the_host_is_sent_to_the_broker(address: Address, host: str, name: str) -> None:
    asked: list[str | None] = []
    server = pki.server_context(host=name)
    server.sni_callback = lambda tls, asked_for, context: asked.append(asked_for)
    wire = Wire(server)
    connector = TlsConnector(AdminConfig(security_protocol="SSL", ssl_truststore_certificates=pki.authority_pem()))
    log = Log()
    channel: Any = connector.connect(host, wire)(address, log)  # type: ignore[arg-type]
    channel.on_event(CONNECTED, None, 0.0)
    wire.pump()
    assert (asked, log.kinds) == ([name], [TLS_STARTED, CONNECTED])


def test_a_context_of_the_application_is_used_as_it_is() -> None:
    context = pki.client_context()
    wire = Wire(pki.server_context())
    connector = TlsConnector(AdminConfig(security_protocol="SSL", ssl_context=context))
    log = Log()
    channel: Any = connector.connect(HOST, wire)(ADDRESS, log)  # type: ignore[arg-type]
    channel.on_event(CONNECTED, None, 0.0)
    wire.pump()
    assert log.kinds == [TLS_STARTED, CONNECTED]
