"""TLS on a listener: the contexts of its settings, and the protocol between the socket and a connection.

The records of TLS pass through memory, so this works on every transport, and a connection is the same with and without
TLS: after the handshake it gets a transport that encrypts. Certificates are read again when their files or settings
change. Elsewhere: the settings' meaning (`kclient.security`), principals (`refbroker.security`).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

from kclient.errors import ConfigError
from kclient.security.certificates import subject_of
from kclient.security.context import ContextSource, make_context
from kclient.security.der import DerError
from kclient.security.implementation import tls_stream
from kclient.security.settings import TlsSettings
from refbroker.config import CLIENT_AUTH, LISTENER_PREFIX, NO_CLIENT_AUTH, BrokerConfig
from refbroker.metrics.counters import Closed
from refbroker.runtime.limited_log import LimitedLog
from refbroker.security.principals import ANONYMOUS, NoMatchingRuleError, Principal, PrincipalMapper
from refbroker.server.listening import peer_of

logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10.0
"""How long a handshake may take. Kafka waits for `connections.max.idle.ms`."""

ENCRYPTED_AT_ONCE = 262_144
"""Bytes; the client decrypts them while the next ones are encrypted."""
_ALERT = bytes.fromhex("15030300020246")
"""A record of TLS: the fatal alert protocol_version."""
_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class TlsListener:
    """The TLS of one listener.

    Parameters:
        config: the broker's settings; their current values count.
        name: the listener.

    Raises:
        ConfigError: a store cannot be used, or is missing, or a rule for principals is malformed.
    """

    def __init__(self, config: BrokerConfig, name: str) -> None:
        self._config = config
        self._name = name
        self._mapper = PrincipalMapper(self._text("ssl.principal.mapping.rules") or "DEFAULT")
        if not self._read().has_identity:
            raise ConfigError(f"the listener {name} has TLS, which needs ssl.keystore.location or a certificate chain")
        self._source = ContextSource(self._read, _prepare, f"listener {name}")
        ignored, used = self._text(CLIENT_AUTH) or NO_CLIENT_AUTH, config.client_auth(name)
        if used != ignored:
            logger.warning(
                "%s=%s is not for listeners with SASL; set %s%s.%s for it",
                *(CLIENT_AUTH, ignored, LISTENER_PREFIX, name.lower(), CLIENT_AUTH),
            )

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        return self._source.current()

    def client_advice(self) -> str:
        """Return what to do about a client without TLS, for log lines."""
        return self._config.listeners.client_advice(self._name)

    def principal(self, tls: ssl.SSLObject) -> Principal:
        """Return who the client of a connection is.

        Raises:
            NoMatchingRuleError: no rule applies to its certificate.
        """
        certificate = tls.getpeercert(binary_form=True)
        if certificate is None:
            return ANONYMOUS
        try:
            return self._mapper.principal(subject_of(certificate))
        except DerError as error:
            raise NoMatchingRuleError(str(error)) from error

    def _read(self) -> TlsSettings:
        return self._config.tls_settings(self._name)

    def _text(self, setting: str) -> str | None:
        return self._config.listener_text(self._name, setting)


def _prepare(settings: TlsSettings) -> ssl.SSLContext:
    settings.check()
    context = make_context(settings, ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY[settings.client_auth]
    if context.verify_mode != ssl.CERT_NONE and not settings.has_trust:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def tls_listeners(config: BrokerConfig) -> dict[str, TlsListener]:
    """Return the TLS of each listener that has it, by name.

    Raises:
        ConfigError: see TlsListener.
    """
    names = [name for name, _, _ in config.listeners.all if config.listeners.protocol(name).has_tls]
    return {name: TlsListener(config, name) for name in names}


class SecuredConnection(Protocol):
    """A connection as TLS needs it: the protocol above, which has principals and reasons for closing."""

    principal: Principal
    closed_for: Closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class TlsProtocol(asyncio.Protocol):
    """Decrypts for one connection.

    Parameters:
        listener: the TLS of its listener.
        connection: what the decrypted bytes are for; it learns of the client once the handshake is complete.
        loop: the event loop.
        log: logs why connections fail.
        began: called when the handshake begins.
        ended: called when the socket is closed.
    """

    def __init__(
        self,
        listener: TlsListener,
        connection: SecuredConnection,
        loop: asyncio.AbstractEventLoop,
        log: LimitedLog,
        began: Callable[[TlsProtocol], None],
        ended: Callable[[TlsProtocol], None],
    ) -> None:
        self._listener = listener
        self._connection = connection
        self._loop = loop
        self._log = log
        self._began = began
        self._ended = ended
        self._stream = tls_stream(listener.context(), server_side=True)
        self._is_connected = False
        self._deadline: asyncio.TimerHandle | None = None
        self._peer = "?"
        self.paused = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._peer = peer_of(transport)
        self._deadline = self._loop.call_later(HANDSHAKE_SECONDS, self.drop, "the TLS handshake took too long")
        self._began(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._is_connected:
            self._connection.connection_lost(exc)
        self._ended(self)

    def data_received(self, data: bytes) -> None:
        self._stream.receive(data)
        self.proceed()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self._is_connected:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._is_connected:
            self._connection.resume_writing()

    def proceed(self) -> None:
        """Continue the handshake, then pass on what has arrived, until the connection pauses reading."""
        if self.transport.is_closing():
            return
        try:
            if not self._is_connected:
                if not self._stream.do_handshake():
                    self.flush()
                    return
                self._connect()
            while not self.paused and not self.transport.is_closing():
                count = self._stream.read_into(self._connection.get_buffer(-1))
                if not count:
                    break
                self._connection.buffer_updated(count)
            self.flush()
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self.transport.close()
        except ssl.SSLError as error:
            # Tells the client why.
            self.flush()
            if self._is_connected:
                self._log.warning(self._peer, "closing the connection of %s: TLS failed: %s", error.reason)
                self.transport.close()
            else:
                advice = ""
                if "WRONG_VERSION" in (error.reason or ""):
                    # OpenSSL tells nothing to a client without TLS; by an alert it can recognize the port, as Java's.
                    self.transport.write(_ALERT)
                    advice = f"; it does not use TLS: {self._listener.client_advice()}"
                self._refuse(str(error.reason or error).replace("_", " ").lower() + advice)

    def encrypt(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send some bytes."""
        held: list[memoryview] = []
        size = 0
        for part in parts:
            rest = memoryview(part)
            while rest:
                held.append(rest[: ENCRYPTED_AT_ONCE - size])
                size += len(held[-1])
                rest = rest[len(held[-1]) :]
                if size == ENCRYPTED_AT_ONCE:
                    self._encrypt(held)
                    held, size = [], 0
        if held:
            self._encrypt(held)

    def _encrypt(self, parts: list[memoryview]) -> None:
        with suppress(ssl.SSLError):
            self._stream.write(parts)
        self.flush()

    def flush(self) -> None:
        """Send the records that wait."""
        if (data := self._stream.take()) and not self.transport.is_closing():
            self.transport.write(data)

    def end(self) -> None:
        """Tell the client that the connection ends, and close it."""
        self._stream.shut_down()
        self.flush()
        self.transport.close()

    def drop(self, reason: str, *, why: Closed = Closed.ERROR) -> None:
        """Close the connection at once, also if the client does not read what was sent; the reason is logged.

        Parameters:
            why: the reason to count.
        """
        self._log.warning(self._peer, "closing the connection of %s: %s", reason)
        self._connection.closed_for = why
        self.transport.abort()

    def _connect(self) -> None:
        self.flush()
        try:
            self._connection.principal = self._listener.principal(self._stream.tls)
        except NoMatchingRuleError as error:
            self._refuse(str(error))
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._is_connected = True
        self._connection.connection_made(TlsTransport(self))

    def _refuse(self, reason: str) -> None:
        self._connection.closed_for = Closed.ERROR
        self._log.warning(self._peer, "closing the connection of %s: the TLS handshake failed: %s", reason)
        self.transport.close()


class TlsTransport(asyncio.Transport):
    """The transport of a connection with TLS: encrypts what is written."""

    def __init__(self, protocol: TlsProtocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._below = protocol.transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See asyncio.WriteTransport."""
        self._protocol.encrypt((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """See asyncio.WriteTransport; without a copy that joins them."""
        self._protocol.encrypt(list_of_data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio.BaseTransport."""
        return self._below.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio.WriteTransport."""
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """See asyncio.WriteTransport."""
        return self._below.get_write_buffer_size()

    def is_closing(self) -> bool:
        """See asyncio.BaseTransport."""
        return self._below.is_closing()

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._protocol.paused = True
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport; what was received before is passed on soon."""
        self._protocol.paused = False
        self._below.resume_reading()
        asyncio.get_running_loop().call_soon(self._protocol.proceed)

    def close(self) -> None:
        """See asyncio.BaseTransport."""
        self._protocol.end()

    def abort(self) -> None:
        """See asyncio.WriteTransport."""
        self._below.abort()
