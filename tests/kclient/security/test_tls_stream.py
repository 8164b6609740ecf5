"""TLS in memory, both twins: bytes in any pieces, how connections end, and messages of TLS between the bytes."""

from __future__ import annotations

import _ssl
import ctypes
import gc
import os
import random
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kclient.security import implementation
from kclient.security.tls_stream import TlsStream
from tests.support import pki
from tests.support.kafka.cluster import free_ports
from tests.support.patience import ANSWER
from tests.support.tls_twins import STREAMS, Compiled, read_all, shake_hands

VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
RECORD = 16_384


@pytest.fixture(params=STREAMS)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def pair(kind: Any, **attributes: Any) -> tuple[Any, Any]:
    """Return a client and a server of Python's own that have shaken hands."""
    server = TlsStream(pki.server_context(**attributes), server_side=True)
    client = kind(pki.client_context(), server_hostname="localhost")
    shake_hands(client, server)
    return client, server


def records(data: bytes) -> list[int]:
    """Return the sizes of the records of TLS, without what encryption adds in TLS 1.3."""
    sizes = []
    while data:
        size = int.from_bytes(data[3:5])
        sizes.append(size - 17)
        data = data[5 + size :]
    return sizes


@VERSIONS
def test_bytes_pass_in_both_directions(kind: Any, version: ssl.TLSVersion, rng: random.Random) -> None:
    client, server = pair(kind, maximum_version=version)
    assert client.tls.version() == version.name.replace("_", ".")
    for size in (1, 100, RECORD - 1, RECORD, RECORD + 1, 1_000_000):
        sent = rng.randbytes(size)
        client.write([sent])
        server.receive(bytes(client.take()))
        assert read_all(server) == sent
        server.write([sent])
        client.receive(bytes(server.take()))
        assert read_all(client) == sent


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_records_may_arrive_in_pieces(kind: Any, size: int, rng: random.Random) -> None:
    server = TlsStream(pki.server_context(), server_side=True)
    client = kind(pki.client_context(), server_hostname="localhost")
    done = False
    while not done:
        done = client.do_handshake()
        server.receive(bytes(client.take()))
        done &= server.do_handshake()
        for piece in pieces(server.take(), size):
            client.receive(piece)
            done = client.do_handshake()
            server.receive(bytes(client.take()))
    sent = rng.randbytes(40_000)
    server.write([sent])
    found = b""
    for piece in pieces(server.take(), size):
        client.receive(piece)
        found += read_all(client)
    assert found == sent


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (bytes(data[start:end]) for start, end in pairwise([*range(0, len(data), size), len(data)]))


def test_received_bytes_wait_until_they_are_read(kind: Any) -> None:
    client, server = pair(kind)
    sent = [b"a" * 40_000, b"b" * 3, b"c" * 20_000]
    for part in sent:
        server.write([part])
        client.receive(bytes(server.take()))
    small = memoryview(bytearray(10))
    assert (client.read_into(small), bytes(small)) == (10, b"a" * 10)
    assert read_all(client, 7_000) == b"".join(sent)[10:]
    assert client.read_into(small) == 0
    assert client.read_into(small[:0]) == 0


def test_a_large_buffer_is_filled_from_many_records(kind: Any) -> None:
    client, server = pair(kind)
    server.write([bytes(300_000)])
    client.receive(bytes(server.take()))
    assert client.read_into(memoryview(bytearray(1_000_000))) == 300_000


def test_small_parts_share_a_record(kind: Any) -> None:
    client, _ = pair(kind)
    client.take()
    client.write([b"ab", memoryview(b"cd"), bytearray(b"ef"), b"", *[b"x"] * 100])
    assert records(bytes(client.take())) == [106]
    client.write([])
    assert client.take() == b""


def test_parts_of_any_sizes_keep_their_order(kind: Any, rng: random.Random) -> None:
    client, server = pair(kind)
    for _ in range(30):
        parts = [rng.randbytes(rng.choice([0, 1, 100, 5000, RECORD, 20_000, 70_000])) for _ in range(rng.randrange(40))]
        client.write(parts)
        taken = bytes(client.take())
        server.receive(taken)
        assert read_all(server) == b"".join(parts)
        if kind is Compiled:
            # All records but the last are full: the end of a large part is joined with what follows.
            assert all(size == RECORD for size in records(taken)[:-1])


def test_a_proper_end_is_reported_from_a_lack_of_bytes(kind: Any) -> None:
    client, server = pair(kind)
    server.write([b"last"])
    server.shut_down()
    client.receive(bytes(server.take()))
    buffer = memoryview(bytearray(100))
    assert client.read_into(buffer) == 4
    for _ in range(2):
        with pytest.raises(ssl.SSLZeroReturnError):
            client.read_into(buffer)


def test_shutting_down_tells_the_peer(kind: Any) -> None:
    client, server = pair(kind)
    client.write([b"last"])
    client.shut_down()
    server.receive(bytes(client.take()))
    buffer = memoryview(bytearray(100))
    assert server.read_into(buffer) == 4
    with pytest.raises(ssl.SSLZeroReturnError):
        server.read_into(buffer)


def test_a_changed_record_breaks_the_connection(kind: Any) -> None:
    client, server = pair(kind)
    server.write([b"first"])
    server.write([b"second"])
    data = bytearray(server.take())
    data[-1] ^= 1
    client.receive(bytes(data))
    buffer = memoryview(bytearray(100))
    assert client.read_into(buffer) == 5
    for _ in range(2):
        with pytest.raises(ssl.SSLError) as caught:
            client.read_into(buffer)
        assert caught.value.reason == "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
    with pytest.raises(ssl.SSLError):
        client.write([b"more"])
    assert client.take()  # the alert that tells the peer


def test_an_alert_after_the_handshake_has_its_reason(kind: Any) -> None:
    server = TlsStream(pki.server_context(verify_mode=ssl.CERT_REQUIRED), server_side=True)
    client = kind(pki.client_context(), server_hostname="localhost")
    client.do_handshake()
    server.receive(bytes(client.take()))
    server.do_handshake()
    client.receive(bytes(server.take()))
    assert client.do_handshake()
    server.receive(bytes(client.take()))
    with pytest.raises(ssl.SSLError):
        server.do_handshake()
    client.receive(bytes(server.take()))
    with pytest.raises(ssl.SSLError) as caught:
        client.read_into(memoryview(bytearray(10)))
    assert caught.value.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"


def test_certificates_are_verified(kind: Any) -> None:
    for context, name in (
        (pki.server_context(signer=pki.stranger()), "localhost"),
        (pki.server_context(), "other.example.org"),
    ):
        server = TlsStream(context, server_side=True)
        client = kind(pki.client_context(), server_hostname=name)
        client.do_handshake()
        server.receive(bytes(client.take()))
        server.do_handshake()
        client.receive(bytes(server.take()))
        with pytest.raises(ssl.SSLCertVerificationError):
            client.do_handshake()


def test_pythons_object_may_outlive_the_stream(kind: Any) -> None:
    client, server = pair(kind)
    tls = client.tls
    server.write([b"unread"])
    client.receive(bytes(server.take()))
    del client
    gc.collect()
    assert tls.getpeercert()["subject"]
    if kind is Compiled:
        with pytest.raises(OSError):
            tls.read(10)


def test_many_connections_do_not_mix(kind: Any, rng: random.Random) -> None:
    pairs = [pair(kind) for _ in range(20)]
    for client, server in pairs:
        sent = rng.randbytes(30_000)
        server.write([sent])
        client.receive(bytes(server.take()))
        assert read_all(client) == sent


# --- a peer that is not Python's -------------------------------------------------------------------------------------


@contextmanager
def openssl(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of OpenSSL, which sends its standard input and prints what it receives."""
    if shutil.which("openssl") is None:
        pytest.skip("the command openssl is not on this machine")
    process = subprocess.Popen(
        ["openssl", *arguments, "-tls1_3", "-state"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


class OnSocket:
    """A stream on a blocking socket."""

    def __init__(self, stream: Any, sock: socket.socket) -> None:
        self._stream, self._socket = stream, sock
        sock.settimeout(ANSWER)
        while not stream.do_handshake():
            self._exchange()
        self._send()

    def write(self, data: bytes) -> None:
        self._stream.write([data])
        self._send()

    def read_until(self, end: bytes) -> bytes:
        found = b""
        while not found.endswith(end):
            found += read_all(self._stream)
            if not found.endswith(end):
                self._exchange()
        return found

    def _exchange(self) -> None:
        self._send()
        self._stream.receive(self._socket.recv(65_536))

    def _send(self) -> None:
        self._socket.sendall(self._stream.take())


def printed(process: subprocess.Popen[bytes], *words: bytes) -> bool:
    """Wait until a command prints a line with these words; return False if it ends first."""
    assert process.stdout is not None
    return any(all(word in line for word in words) for line in process.stdout)


def check_key_updates(peer: OnSocket, process: subprocess.Popen[bytes]) -> None:
    """Let a command of OpenSSL change its keys, and request that the other side does so too."""
    assert process.stdin is not None
    for command, is_requested in ((b"k", False), (b"K", True), (b"K", True)):
        process.stdin.write(b"before\n")
        assert peer.read_until(b"before\n")
        process.stdin.write(command + b"\n")
        assert printed(process, b"write ", b"key update")
        process.stdin.write(b"after\n")
        assert peer.read_until(b"after\n") == b"after\n"
        peer.write(b"answer\n")
        if is_requested:
            assert printed(process, b"read ", b"key update")
        assert printed(process, b"answer")


def test_a_client_follows_changes_of_the_keys(kind: Any, tmp_path: Path) -> None:
    store = tmp_path / "own.pem"
    store.write_text("".join(pki.certificate("broker")))
    (port,) = free_ports(1)
    with openssl("s_server", "-accept", f"127.0.0.1:{port}", "-cert", str(store)) as process:
        assert printed(process, b"ACCEPT")
        with socket.create_connection(("127.0.0.1", port)) as sock:
            peer = OnSocket(kind(pki.client_context(), server_hostname="localhost"), sock)
            check_key_updates(peer, process)


def test_a_server_follows_changes_of_the_keys(kind: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(ANSWER)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with openssl("s_client", "-connect", address) as process:
            sock, _ = listening.accept()
            with sock:
                peer = OnSocket(kind(pki.server_context(), server_side=True), sock)
                assert printed(process, b"negotiation finished")
                check_key_updates(peer, process)


# --- the choice of the twin ------------------------------------------------------------------------------------------


def shows_openssl() -> bool:
    path = getattr(_ssl, "__file__", None)
    return hasattr(ctypes.CDLL(path), "OPENSSL_version_major")


@pytest.mark.skipif(Compiled is None or not shows_openssl(), reason="not compiled, or OpenSSL is hidden")
def test_the_compiled_twin_works_with_this_python() -> None:
    assert isinstance(Compiled(pki.client_context(), server_hostname="localhost"), Compiled)


def test_python_is_used_if_openssl_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(*arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    monkeypatch.setattr(implementation, "_Fast", hidden)
    assert implementation.tls_implementation() == "python"
    assert type(implementation.tls_stream(pki.client_context(), server_hostname="localhost")) is TlsStream


@pytest.mark.skipif(Compiled is None, reason="not compiled")
def test_an_ssl_that_was_made_beside_another_one_is_not_taken() -> None:
    class Twice(ssl.SSLContext):
        def wrap_bio(self, *arguments: Any, **options: Any) -> Any:
            super().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
            return super().wrap_bio(*arguments, **options)

    class Other(ssl.SSLContext):
        def wrap_bio(self, *arguments: Any, **options: Any) -> Any:
            return super().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)

    class NoNew(ssl.SSLContext):
        def wrap_bio(self, *arguments: Any, **options: Any) -> Any:
            return object()

    for context in (Twice, Other, NoNew):
        with pytest.raises(NotImplementedError, match="the SSL of Python's object cannot be found"):
            Compiled(context(ssl.PROTOCOL_TLS_SERVER), server_side=True)


@pytest.mark.parametrize(("variables", "expected"), [
    ({"KCLIENT_TLS": "python"}, "python"),
    ({"KCLIENT_PURE": "1"}, "python"),
    ({}, "compiled"),
], ids=["asked for", "pure", "default"])  # fmt: skip
def test_the_environment_selects_the_twin(variables: dict[str, str], expected: str) -> None:
    if expected == "compiled" and (Compiled is None or not shows_openssl()):
        pytest.skip("not compiled, or OpenSSL is hidden")
    environment = {name: value for name, value in os.environ.items() if name not in ("KCLIENT_TLS", "KCLIENT_PURE")}
    code = "from kclient.security.implementation import tls_implementation; print(tls_implementation())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected
