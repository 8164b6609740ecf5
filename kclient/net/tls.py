"""TLS on the connections of a client: a channel that encrypts, over a channel that carries bytes.

The records of TLS pass through memory, so this works on every transport. The channel reports TLS_STARTED when the
handshake begins, and CONNECTED when it is complete. Elsewhere: the contexts and their certificates
(`kclient.security.context`), what an error of OpenSSL means (`tls_failures`), and what a connection does with its
frames (`connection`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kclient.config import ClientConfig
from kclient.net.events import BYTES, CLOSED, CONNECTED, FRAME, SENT, TLS_STARTED, BadFrame, Handler, PeerClosed
from kclient.net.frame_buffer import FrameBuffer
from kclient.net.tls_failures import TlsFailures
from kclient.net.transport import Address, Channel, Transport
from kclient.security.context import ContextSource, make_context
from kclient.security.settings import TlsSettings

_JOINED_BELOW = 16_384
"""Bytes; smaller parts are joined, because each part becomes at least one record of TLS."""


class TlsConnector:
    """Makes the channels of one client.

    Parameters:
        config: the client's options.

    Raises:
        ConfigError: the certificates cannot be used.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._has_identity = config.tls.has_identity or config.ssl_context is not None
        self._given: ssl.SSLContext | None = config.ssl_context
        self._checks_host = config.ssl_endpoint_identification_algorithm == "https"
        self._source: ContextSource | None = None
        if self._given is None:
            self._source = ContextSource(lambda: config.tls, self._prepare, config.label)

    def connect(self, host: str, transport: Transport) -> Callable[[Address, Handler], Channel]:
        """Return what connects to an address of a host.

        Parameters:
            host: the name that the certificate must be for.
            transport: the network.
        """

        def connect(address: Address, handler: Handler) -> Channel:
            name = (address.name or host).rstrip(".")
            failures = TlsFailures(name, address.sockaddr[1], self._has_identity)
            return TlsChannel(transport, address, handler, self._context(), failures)

        return connect

    def _context(self) -> ssl.SSLContext:
        if self._source is None:
            assert self._given is not None
            return self._given
        return self._source.current()

    def _prepare(self, settings: TlsSettings) -> ssl.SSLContext:
        context = make_context(settings, ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self._checks_host
        return context


class TlsChannel:
    """One connection with TLS; see Channel.

    Parameters:
        transport: the network.
        address: where to connect.
        handler: receives the events.
        context: the TLS context.
        failures: describes what goes wrong; its host is sent to the broker (SNI), and its certificate must be for it.

    Raises:
        OSError: connecting failed immediately.
    """

    def __init__(
        self,
        transport: Transport,
        address: Address,
        handler: Handler,
        context: ssl.SSLContext,
        failures: TlsFailures,
    ) -> None:
        self.frame_limit = 0x7FFFFFFF
        self._handler = handler
        self._failures = failures
        self._received = ssl.MemoryBIO()
        self._encrypted = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._encrypted, server_hostname=failures.host)
        self._shaking_hands = True
        self._closed = False
        self._frames = FrameBuffer()
        self._channel = transport.connect(address, self, raw=True)

    # -- the channel, for the connection

    def send(self, parts: Sequence[Any], notify: bool = False) -> bool:
        """See Channel."""
        if self._closed:
            return False
        small: list[Any] = []
        held = 0
        try:
            for part in parts:
                if len(part) >= _JOINED_BELOW:
                    self._encrypt(small)
                    self._tls.write(part)
                    small, held = [], 0
                    continue
                small.append(part)
                held += len(part)
                if held >= _JOINED_BELOW:
                    self._encrypt(small)
                    small, held = [], 0
            self._encrypt(small)
        except ssl.SSLError:
            # The connection has ended, which the channel below reports.
            return False
        return self._channel.send([self._encrypted.read()], notify)

    def close(self) -> None:
        """See Channel; the peer is notified, unless that would wait."""
        if self._closed:
            return
        self._closed = True
        if not self._shaking_hands:
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        self._channel.close()

    def _encrypt(self, parts: list[Any]) -> None:
        if parts:
            self._tls.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def _flush(self) -> None:
        if self._encrypted.pending:
            self._channel.send([self._encrypted.read()])

    # -- the events of the channel below

    def on_event(self, event: int, value: Any, now: float) -> None:
        """Handle an event of the channel that carries the bytes."""
        if self._closed:
            return
        if event == BYTES:
            self._received.write(value)
            self._proceed(now)
        elif event == SENT:
            self._handler.on_event(SENT, value, now)
        elif event == CONNECTED:
            self._handler.on_event(TLS_STARTED, None, now)
            self._proceed(now)
        elif event == CLOSED:
            self._end(value, now)

    def _proceed(self, now: float) -> None:
        """Continue the handshake, then read what has arrived."""
        try:
            if self._shaking_hands:
                self._tls.do_handshake()
                self._shaking_hands = False
                self._flush()
                self._handler.on_event(CONNECTED, None, now)
            while not self._closed:
                self._read(now)
        except ssl.SSLWantReadError:
            self._flush()
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._fail(self._peer_closed(), now)
        except ssl.SSLError as error:
            # Tells the peer why.
            self._flush()
            self._fail(self._failures.describe(error, self._tls, self._shaking_hands), now)

    def _read(self, now: float) -> None:
        """Read some bytes of a frame.

        Raises:
            ssl.SSLError: no bytes are there, or the connection is broken.
        """
        tls: Any = self._tls
        rest = self._frames.rest
        count: int = tls.read(len(rest), rest)
        if not count:
            # The broker has ended the connection properly.
            self._fail(self._peer_closed(), now)
            return
        found = self._frames.add(count, self.frame_limit)
        if isinstance(found, BadFrame):
            self._fail(found, now)
        elif found is not None:
            self._handler.on_event(FRAME, found, now)

    def _end(self, reason: Exception, now: float) -> None:
        """Report that the connection ended."""
        if isinstance(reason, PeerClosed):
            reason = self._peer_closed()
        self._fail(reason, now)

    def _fail(self, reason: Exception, now: float) -> None:
        self._closed = True
        self._channel.close()
        self._handler.on_event(CLOSED, reason, now)

    def _peer_closed(self) -> Exception:
        if self._shaking_hands:
            return self._failures.closed_early()
        return PeerClosed(self._frames.start)
