"""The twins of TLS streams, as parameters of tests."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.security import tls_stream as pure

Compiled: Any = None
try:
    from kclient.security import _tls_stream  # type: ignore[attr-defined]
except ImportError:
    pass
else:
    Compiled = _tls_stream.TlsStream

STREAMS: list[Any] = [pytest.param(pure.TlsStream, id="python")]
if Compiled is not None:
    STREAMS.append(pytest.param(Compiled, id="compiled"))


def shake_hands(client: Any, server: Any) -> None:
    """Complete the handshake of two streams; what follows it has arrived as well."""
    done = False
    while not done:
        done = client.do_handshake()
        server.receive(bytes(client.take()))
        done &= server.do_handshake()
        client.receive(bytes(server.take()))


def read_all(stream: Any, room: int = 65_536) -> bytes:
    """Return what a stream has to read."""
    found = bytearray()
    buffer = memoryview(bytearray(room))
    while count := stream.read_into(buffer):
        found += buffer[:count]
    return bytes(found)
