"""TLS of one connection in memory: encrypted bytes on one side, decrypted bytes on the other.

The network, the handshake's deadline and what an error means are the connection's (`kclient.net.tls`,
`refbroker.server.tls`). This is the pure twin, with Python's own `ssl` throughout. It gives up the GIL for each record
of 16 KiB, so it is slow beside a thread that computes; `_tls_stream.pyx` processes all received records at once.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_JOINED_BELOW = 16_384
"""Bytes; smaller parts are joined, because each part becomes at least one record of TLS."""


class TlsStream:
    """The TLS of one connection.

    Parameters:
        context: the TLS context.
        server_side: whether this is the side of the server.
        server_hostname: the server that a client asks for; its certificate must be for it if the context checks that.

    Attributes:
        tls: Python's object of the connection, for its certificates and version.
    """

    def __init__(
        self, context: ssl.SSLContext, *, server_side: bool = False, server_hostname: str | None = None
    ) -> None:
        self._received, self._encrypted = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self._received, self._encrypted, server_side=server_side, server_hostname=server_hostname
        )
        self._failure: ssl.SSLError | None = None

    def receive(self, data: bytes) -> None:
        """Take encrypted bytes from the network."""
        self._received.write(data)

    def do_handshake(self) -> bool:
        """Continue the handshake; return whether it is complete. Bytes to send may follow in either case.

        Raises:
            ssl.SSLError: the handshake failed.
        """
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def read_into(self, buffer: memoryview) -> int:
        """Decrypt into a buffer, and return how many bytes; 0 while none are there.

        Raises:
            ssl.SSLZeroReturnError: the peer has ended the connection properly.
            ssl.SSLError: the connection is broken, or the peer has sent an alert.
        """
        tls: Any = self.tls
        filled = 0
        while filled < len(buffer) and self._failure is None:
            try:
                count: int = tls.read(len(buffer) - filled, buffer[filled:])
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError as error:
                # OpenSSL tells the reason once, and the bytes before it come first.
                self._failure = error
                break
            if not count:
                self._failure = ssl.SSLZeroReturnError(ssl.SSL_ERROR_ZERO_RETURN, "the peer has ended the connection")
            filled += count
        if self._failure is not None and not filled:
            raise self._failure
        return filled

    def write(self, parts: Sequence[Any]) -> None:
        """Encrypt bytes-like objects in order; `take` returns the result.

        Raises:
            ssl.SSLError: the connection has ended.
        """
        small: list[Any] = []
        held = 0
        for part in parts:
            if len(part) >= _JOINED_BELOW:
                self._encrypt(small)
                self.tls.write(part)
                small, held = [], 0
                continue
            small.append(part)
            held += len(part)
            if held >= _JOINED_BELOW:
                self._encrypt(small)
                small, held = [], 0
        self._encrypt(small)

    def take(self) -> bytes:
        """Return the bytes to send; empty if nothing waits."""
        return self._encrypted.read()

    def shut_down(self) -> None:
        """Tell the peer that the connection ends; what to send is in `take`."""
        with suppress(ssl.SSLError):
            self.tls.unwrap()

    def _encrypt(self, parts: list[Any]) -> None:
        if parts:
            self.tls.write(parts[0] if len(parts) == 1 else b"".join(parts))
