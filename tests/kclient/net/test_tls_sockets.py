"""TLS on the sockets of a client, every combination of twins: records in pieces, ends, alerts, and slow peers.

The other end is a server of Python's own, in this thread. Elsewhere: TLS on a transport in memory (`test_tls`).
"""

from __future__ import annotations

import gc
import random
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psutil
import pytest

from kclient.config import AdminConfig
from kclient.errors import BrokerConnectionError, SslAuthenticationError
from kclient.net import io as pure
from kclient.net import tls as tls_module
from kclient.net.events import CLOSED, CONNECTED, FRAME, SENT, TLS_STARTED, BadFrame, PeerClosed
from kclient.net.tls import TlsChannel, TlsConnector
from kclient.net.transport import Address
from kclient.security.tls_stream import TlsStream
from tests.support import pki
from tests.support.tls_twins import Compiled

try:
    from kclient.net import _io as compiled  # type: ignore[attr-defined]
except ImportError:
    compiled = None

VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])


class Twins(NamedTuple):
    """The twins of a client: its sockets, and its TLS."""

    sockets: Any
    stream: Any


TWINS = [pytest.param(Twins(pure, TlsStream), id="pure")]
if compiled is not None:
    TWINS.append(pytest.param(Twins(compiled, TlsStream), id="compiled-sockets"))
    TWINS.append(pytest.param(Twins(pure, Compiled), id="compiled-tls"))
    TWINS.append(pytest.param(Twins(compiled, Compiled), id="compiled"))


class Line:
    """A client's channel, and the server at the other end of a pair of sockets.

    Parameters:
        poller: the client's.
        context: the server's.
        options: the client's.
    """

    def __init__(self, poller: Any, context: ssl.SSLContext, **options: Any) -> None:
        self._poller = poller
        self._mine, self.peer = socket.socketpair()
        self._mine.setblocking(False)
        self.peer.setblocking(False)
        self.server = TlsStream(context, server_side=True)
        self.failure: ssl.SSLError | None = None
        self.decrypted = bytearray()
        self._buffer = memoryview(bytearray(65_536))
        self.events: list[tuple[int, Any]] = []
        self.server_is_done = False
        given = {"ssl_truststore_certificates": pki.authority_pem(), **options}
        connector = TlsConnector(AdminConfig(security_protocol="SSL", **given))
        address = Address(2, ("127.0.0.1", 9093))
        self.channel = connector.connect("localhost", self)(address, self)  # type: ignore[arg-type]
        assert isinstance(self.channel, TlsChannel)

    # -- a transport, and a handler

    def connect(self, address: Address, handler: Any, *, raw: bool = False) -> Any:
        return self._poller.register(self._mine, handler, raw)

    def on_event(self, event: int, value: Any, now: float) -> None:
        self.events.append((event, value))

    # -- what happens

    @property
    def kinds(self) -> list[int]:
        return [event for event, _ in self.events]

    @property
    def frames(self) -> list[bytes]:
        return [bytes(value) for event, value in self.events if event == FRAME]

    @property
    def reason(self) -> Any:
        assert self.kinds[-1] == CLOSED, self.kinds
        return self.events[-1][1]

    def client_turn(self) -> None:
        for handler, event, value in self._poller.wait(0.0):
            handler.on_event(event, value, 0.0)

    def server_turn(self, *, reads: bool = True) -> bool:
        """Let the server read what has arrived, and send; return whether it read anything."""
        data = b""
        if reads:
            try:
                data = self.peer.recv(1 << 20)
            except (BlockingIOError, ConnectionResetError):
                pass
        if data:
            self.server.receive(data)
        try:
            if not self.server_is_done:
                self.server_is_done = self.server.do_handshake()
            if self.server_is_done and reads:
                while count := self.server.read_into(self._buffer):
                    self.decrypted += self._buffer[:count]
        except ssl.SSLError as error:
            self.failure = self.failure or error
        self.send(self.server.take())
        return bool(data)

    def send(self, data: bytes) -> None:
        """Send encrypted bytes to the client, which reads them as soon as the sockets are full."""
        view = memoryview(data)
        while view:
            try:
                view = view[self.peer.send(view) :]
            except BlockingIOError:
                self.client_turn()
            except (BrokenPipeError, ConnectionResetError):
                return

    def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(100_000):
            if is_so():
                return
            self.server_turn()
            self.client_turn()
        raise AssertionError(f"did not happen; the client's events are {self.kinds[-20:]}")

    def respond(self, data: bytes) -> None:
        self.server.write([data])
        self.send(self.server.take())

    def close(self) -> None:
        self.channel.close()
        self.peer.close()


Connect = Callable[..., Line]


@pytest.fixture(params=TWINS)
def connect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Return what makes a connection whose handshake is complete."""
    twins: Twins = request.param
    monkeypatch.setattr(tls_module, "tls_stream", twins.stream)
    poller = twins.sockets.Poller()
    lines: list[Line] = []

    def make(*, is_open: bool = True, context: dict[str, Any] | None = None, **options: Any) -> Line:
        line = Line(poller, pki.server_context(**(context or {})), **options)
        lines.append(line)
        if is_open:
            line.until(lambda: line.server_is_done and CONNECTED in line.kinds)
            assert line.kinds == [TLS_STARTED, CONNECTED]
            native = twins.sockets is compiled and twins.stream is Compiled
            assert line.channel._delegates == native  # type: ignore[attr-defined]
        return line

    yield make
    for line in lines:
        line.close()
    poller.close()


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4) + body for body in bodies)


@VERSIONS
def test_frames_of_any_size_arrive_whole(connect: Connect, version: ssl.TLSVersion, rng: random.Random) -> None:
    line = connect(context={"maximum_version": version})
    bodies = [rng.randbytes(size) for size in (4, 5, 16_379, 16_380, 32_764, 32_765, 100_000, 3_000_000, 7)]
    line.respond(framed(*bodies))
    line.until(lambda: len(line.frames) == len(bodies))
    assert line.frames == bodies


def test_frames_that_share_a_record_are_distinguished(connect: Connect, rng: random.Random) -> None:
    line = connect()
    bodies = [rng.randbytes(rng.choice([4, 30, 500])) for _ in range(400)]
    line.respond(framed(*bodies))
    line.until(lambda: len(line.frames) == len(bodies))
    assert line.frames == bodies


def test_every_byte_may_arrive_alone(connect: Connect, rng: random.Random) -> None:
    line = connect(is_open=False)
    sent: list[bytes] = []
    line.send = sent.append  # type: ignore[method-assign, assignment]
    bodies = [rng.randbytes(size) for size in (4, 700, 40_000)]

    def deliver() -> None:
        for data in sent:
            for position in range(len(data)):
                line.peer.send(data[position : position + 1])
                line.client_turn()
        sent.clear()

    while CONNECTED not in line.kinds or not line.server_is_done:
        line.client_turn()
        line.server_turn()
        deliver()
    line.respond(framed(*bodies))
    deliver()
    assert line.frames == bodies


def test_records_and_frames_are_cut_in_any_way(connect: Connect, rng: random.Random) -> None:
    line = connect()
    bodies = [rng.randbytes(rng.choice([4, 10, 1000, 32_760, 32_764, 40_000, 300_000])) for _ in range(60)]
    stream = framed(*bodies)
    while stream:
        size = rng.choice([1, 3, 100, 5000, 33_000, 90_000])
        line.server.write([stream[:size]])
        stream = stream[size:]
        data = bytes(line.server.take())
        while data:
            size = rng.choice([1, 30, 5000, 300_000])
            line.send(data[:size])
            data = data[size:]
            if rng.random() < 0.5:
                line.client_turn()
    line.until(lambda: len(line.frames) == len(bodies))
    assert line.frames == bodies


def test_requests_arrive_in_order(connect: Connect, rng: random.Random) -> None:
    line = connect()
    wanted = bytearray()
    for _ in range(50):
        parts = [rng.randbytes(rng.choice([0, 1, 100, 16_384, 50_000])) for _ in range(rng.randrange(1, 20))]
        wanted += b"".join(parts)
        line.channel.send(parts)
        line.server_turn()
    line.until(lambda: len(line.decrypted) == len(wanted))
    assert line.decrypted == wanted


def test_a_small_request_is_sent_at_once(connect: Connect) -> None:
    line = connect()
    assert line.channel.send([b"ab", b"", memoryview(b"cd"), bytearray(b"ef")])
    line.server_turn()
    assert line.decrypted == b"abcdef"


def test_a_slow_peer_gets_everything_and_the_sender_is_notified_once(connect: Connect, rng: random.Random) -> None:
    line = connect()
    parts = [rng.randbytes(900_000) for _ in range(5)] + [b"tail"] * 200
    assert not line.channel.send(parts, True)
    assert not line.channel.send([b"and more"], True)
    line.client_turn()
    assert SENT not in line.kinds
    # Frames are read while requests wait.
    line.respond(framed(b"1234", bytes(100_000)))
    for _ in range(20):
        line.server_turn(reads=False)
        line.client_turn()
    assert [len(frame) for frame in line.frames] == [4, 100_000]
    line.until(lambda: SENT in line.kinds)
    line.until(lambda: len(line.decrypted) == 4_500_808)
    assert line.decrypted == b"".join(parts) + b"and more"
    assert line.kinds.count(SENT) == 1


def test_requests_that_wait_are_not_encrypted_before_they_can_be_sent(connect: Connect) -> None:
    line = connect()
    part = bytes(20_000_000)
    before = psutil.Process().memory_info().rss
    line.channel.send([part, part])
    line.client_turn()
    if line.channel._delegates:  # type: ignore[attr-defined]
        assert psutil.Process().memory_info().rss - before < 10_000_000


@pytest.mark.parametrize("part", [b"", b"\0\0", framed(b"0123456789")[:9]], ids=["none", "size", "frame"])
@pytest.mark.parametrize("is_proper", [True, False], ids=["close_notify", "closed"])
def test_the_peers_end_is_reported_with_what_did_not_come_whole(connect: Connect, part: bytes, is_proper: bool) -> None:
    line = connect()
    line.respond(framed(b"whole") + part)
    if is_proper:
        line.server.shut_down()
        line.send(line.server.take())
    else:
        line.peer.close()
    while CLOSED not in line.kinds:
        line.client_turn()
    assert line.frames == [b"whole"]
    assert isinstance(line.reason, PeerClosed)
    assert bool(line.reason.head) == bool(part)
    assert not line.channel.send([b"too late"])


def test_closing_tells_the_broker(connect: Connect) -> None:
    line = connect()
    line.channel.send([b"last"])
    line.channel.close()
    line.channel.close()
    line.server_turn()
    assert (bytes(line.decrypted), type(line.failure)) == (b"last", ssl.SSLZeroReturnError)
    assert line.kinds == [TLS_STARTED, CONNECTED]


def test_a_size_that_cannot_be_ends_the_connection(connect: Connect) -> None:
    line = connect()
    line.channel.frame_limit = 1000
    line.respond(framed(b"fine") + (1001).to_bytes(4) + bytes(2000))
    while CLOSED not in line.kinds:
        line.client_turn()
    assert (line.frames, type(line.reason), line.reason.size) == ([b"fine"], BadFrame, 1001)


@pytest.mark.parametrize("is_late", [False, True], ids=["in time", "after a request"])
def test_a_certificate_that_is_refused_after_the_handshake_is_named(connect: Connect, is_late: bool) -> None:
    chain, key = pki.certificate(signer=pki.stranger())
    own = {"ssl_keystore_certificate_chain": chain, "ssl_keystore_key": key}
    line = connect(is_open=False, context={"verify_mode": ssl.CERT_REQUIRED}, **own)
    while CONNECTED not in line.kinds:
        line.client_turn()
        if CONNECTED not in line.kinds:
            line.server_turn()
    if is_late:
        line.channel.send([b"request"])
    line.server_turn()
    line.peer.close()
    if is_late:
        line.channel.send([b"another request"])
    while CLOSED not in line.kinds:
        line.client_turn()
    assert isinstance(line.reason, SslAuthenticationError)
    assert "localhost:9093 refused the certificate of this client (unknown ca)" in line.reason.message


def test_a_changed_record_ends_the_connection_and_the_peer_learns_why(connect: Connect) -> None:
    line = connect()
    line.server.write([framed(b"fine")])
    line.server.write([framed(b"changed")])
    data = bytearray(line.server.take())
    data[-1] ^= 1
    line.send(bytes(data))
    while CLOSED not in line.kinds:
        line.client_turn()
    assert line.frames == [b"fine"]
    assert isinstance(line.reason, BrokerConnectionError)
    assert "TLS failed (decryption failed or bad record mac)" in str(line.reason)
    line.server_turn()
    assert "BAD_RECORD_MAC" in str(line.failure)


def test_an_error_while_sending_is_reported_by_the_next_wait(connect: Connect) -> None:
    line = connect()
    line.peer.close()
    line.channel.send([b"x" * 1000])
    while CLOSED not in line.kinds:
        line.client_turn()
    assert isinstance(line.reason, (PeerClosed, OSError))
    assert line.kinds.count(CLOSED) == 1


def test_a_handler_that_closes_gets_no_further_frame(connect: Connect) -> None:
    line = connect()
    note = line.on_event

    def closes(event: int, value: Any, now: float) -> None:
        note(event, value, now)
        if event == FRAME:
            line.channel.close()

    line.on_event = closes  # type: ignore[method-assign]
    line.respond(framed(b"1234", b"5678"))
    for _ in range(5):
        line.client_turn()
    assert line.frames == [b"1234"]


def test_a_large_frame_outlives_its_channel(connect: Connect) -> None:
    line = connect()
    body = bytes(range(256)) * 1000
    line.respond(framed(body))
    line.until(lambda: FRAME in line.kinds)
    value = line.events[-1][1]
    line.close()
    gc.collect()
    assert bytes(memoryview(value)[100:200]) == body[100:200]


def test_several_connections_share_a_poller(connect: Connect, rng: random.Random) -> None:
    lines = [connect() for _ in range(12)]
    bodies = [rng.randbytes(70_000) for _ in lines]
    for line, body in zip(lines, bodies, strict=True):
        line.respond(framed(body, b"last"))
    for line in lines[::3]:
        line.close()
    kept = [(line, body) for index, (line, body) in enumerate(zip(lines, bodies, strict=True)) if index % 3]
    for line, body in kept:
        line.until(lambda line=line: len(line.frames) == 2)  # type: ignore[misc]
        assert line.frames == [body, b"last"]


def test_a_connection_that_always_has_more_does_not_hold_up_another(connect: Connect, rng: random.Random) -> None:
    busy, other = connect(), connect()
    busy.server.write([framed(*[rng.randbytes(40_000)] * 200)])
    stream = memoryview(busy.server.take())

    def refill() -> None:
        nonlocal stream
        try:
            while stream:
                stream = stream[busy.peer.send(stream) :]
        except BlockingIOError:
            return

    refill()
    busy.client_turn()
    other.respond(framed(b"small"))
    turns = 0
    while not other.frames:
        refill()
        busy.client_turn()
        turns += 1
    assert turns == 1, f"it waited {turns} turns, until {len(busy.frames)} of 200 frames had arrived"


def test_memory_stays_flat(connect: Connect) -> None:
    line = connect()
    body = random.Random(1).randbytes(1_000_000)

    def exchange(count: int) -> int:
        for _ in range(count):
            line.respond(framed(body))
            line.until(lambda: FRAME in line.kinds)
            line.channel.send([body])
            line.until(lambda: len(line.decrypted) == len(body))
            line.events.clear()
            line.decrypted.clear()
        gc.collect()
        return int(psutil.Process().memory_info().rss)

    before = exchange(20)
    assert exchange(60) - before < 10_000_000
