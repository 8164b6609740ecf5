"""TLS on the connections of a client: a channel that encrypts, over a channel that carries bytes.

The records of TLS pass through memory, so this works on every transport. The channel reports TLS_STARTED when the
handshake begins, and CONNECTED when it is complete. After the handshake, compiled sockets encrypt and decrypt
themselves, without the GIL; for other channels this module does it. Elsewhere: the contexts and their certificates
(`kclient.security.context`), the records of TLS (`kclient.security.tls_stream`), what an error of OpenSSL means
(`tls_failures`), and what a connection does with its frames (`connection`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Any

from kclient.config import ClientConfig
from kclient.net.events import BYTES, CLOSED, CONNECTED, FRAME, SENT, TLS_STARTED, BadFrame, Handler, PeerClosed
from kclient.net.frame_buffer import FrameBuffer
from kclient.net.tls_failures import TlsFailures
from kclient.net.transport import Address, Channel, EncryptingChannel, Transport
from kclient.security.context import ContextSource, make_context
from kclient.security.implementation import tls_stream
from kclient.security.settings import TlsSettings


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
        self._protocol = config.protocol
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
            failures = TlsFailures(name, address.sockaddr[1], self._has_identity, self._protocol)
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
        self._handler = handler
        self._failures = failures
        self._stream = tls_stream(context, server_hostname=failures.host)
        self._shaking_hands = True
        # Whether the channel below encrypts and decrypts.
        self._delegates = False
        self._closed = False
        self._frame_limit = 0x7FFFFFFF
        self._frames = FrameBuffer()
        self._channel = transport.connect(address, self, raw=True)

    # -- the channel, for the connection

    @property
    def frame_limit(self) -> int:
        """See Channel."""
        return self._frame_limit

    @frame_limit.setter
    def frame_limit(self, limit: int) -> None:
        self._frame_limit = self._channel.frame_limit = limit

    def send(self, parts: Sequence[Any], notify: bool = False) -> bool:
        """See Channel."""
        if self._closed:
            return False
        if self._delegates:
            return self._channel.send(parts, notify)
        try:
            self._stream.write(parts)
        except ssl.SSLError:
            # The connection has ended, which the channel below reports.
            return False
        return self._channel.send([self._stream.take()], notify)

    def close(self) -> None:
        """See Channel; the peer is notified, unless that would wait."""
        if self._closed:
            return
        self._closed = True
        if not self._shaking_hands and not self._delegates:
            self._stream.shut_down()
            self._flush()
        self._channel.close()

    def _flush(self) -> None:
        if data := self._stream.take():
            self._channel.send([data])

    # -- the events of the channel below

    def on_event(self, event: int, value: Any, now: float) -> None:
        """Handle an event of the channel that carries the bytes."""
        if self._closed:
            return
        if event in (FRAME, SENT):
            self._handler.on_event(event, value, now)
        elif event == BYTES:
            self._stream.receive(value)
            self._proceed(now)
        elif event == CONNECTED:
            self._handler.on_event(TLS_STARTED, None, now)
            self._proceed(now)
        elif event == CLOSED:
            self._end(value, now)

    def _proceed(self, now: float) -> None:
        """Continue the handshake, then read what has arrived."""
        try:
            if self._shaking_hands:
                if not self._stream.do_handshake():
                    self._flush()
                    return
                self._shaking_hands = False
                channel = self._channel
                self._delegates = isinstance(channel, EncryptingChannel) and channel.secure(self._stream)
                if not self._delegates:
                    self._flush()
                self._handler.on_event(CONNECTED, None, now)
            if not self._delegates:
                self._read(now)
        except ssl.SSLError as error:
            # Tells the peer why.
            self._flush()
            self._end(error, now)

    def _read(self, now: float) -> None:
        """Read the frames that have arrived.

        Raises:
            ssl.SSLError: the connection has ended, or is broken.
        """
        while not self._closed:
            count = self._stream.read_into(self._frames.rest)
            if not count:
                self._flush()
                return
            found = self._frames.add(count, self._frame_limit)
            if isinstance(found, BadFrame):
                self._fail(found, now)
            elif found is not None:
                self._handler.on_event(FRAME, found, now)

    def _end(self, reason: Exception, now: float) -> None:
        """Report that the connection ended."""
        if isinstance(reason, (ssl.SSLZeroReturnError, ssl.SSLEOFError)):
            reason = PeerClosed(self._frames.start)
        if isinstance(reason, ssl.SSLError):
            reason = self._failures.describe(reason, self._stream.tls, self._shaking_hands)
        elif isinstance(reason, PeerClosed) and self._shaking_hands:
            reason = self._failures.closed_early()
        elif isinstance(reason, PeerClosed) and not self._delegates:
            reason = PeerClosed(self._frames.start)
        self._fail(reason, now)

    def _fail(self, reason: Exception, now: float) -> None:
        self._closed = True
        self._channel.close()
        self._handler.on_event(CLOSED, reason, now)
