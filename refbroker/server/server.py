"""Listens, keeps the connections, and closes idle ones.

Elsewhere: which connections are admitted (`connection_limits`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import perf_counter_ns

from refbroker.config import BrokerConfig
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.tokens import DelegationTokens
from refbroker.metrics.counters import BrokerMetrics, Closed
from refbroker.runtime.clock import Clock
from refbroker.runtime.file_limit import is_nearly_out
from refbroker.runtime.limited_log import LimitedLog
from refbroker.server.connection import Connection
from refbroker.server.connection_limits import ConnectionLimits, Refusal
from refbroker.server.dispatch import Dispatcher
from refbroker.server.listening import Listener
from refbroker.server.pending_connections import PendingConnections
from refbroker.server.sasl import SaslListener
from refbroker.server.tls import TlsListener, TlsProtocol

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 1.0


class Server:
    """The broker's listening sockets and its connections.

    Parameters:
        config: the broker's settings.
        dispatcher: handles the requests.
        metrics: counts the connections.
        listeners: a bound port for each listener, by its name.
        tls: the TLS of the listeners that have it, by name.
        sasl: the SASL of the listeners that have it, by name.
        image: the state of the cluster, with the credentials of users and the quotas of addresses.
        tokens: the delegation tokens, with which clients may log in.
        clock: measures how fast addresses open connections.
        make_room: closes files that need not be open; returns whether there was one.

    Attributes:
        loop: the event loop that created it.
        connections: the open connections, the oldest first: the order of a set would differ between runs.
        pending: the connections that are not ready: in a TLS handshake, not logged in, or without a request.
        bad_connections: logs what is wrong with connections.
        stopping: whether it is being closed.
    """

    def __init__(
        self,
        config: BrokerConfig,
        dispatcher: Dispatcher,
        metrics: BrokerMetrics,
        listeners: Mapping[str, Listener],
        tls: Mapping[str, TlsListener],
        sasl: Mapping[str, SaslListener],
        image: ClusterImage,
        tokens: DelegationTokens,
        clock: Clock,
        make_room: Callable[[], bool],
    ) -> None:
        self.config = config
        self.dispatcher = dispatcher
        self.metrics = metrics
        self._clock = clock
        self._limits = ConnectionLimits(config, image, clock)
        self.pending = PendingConnections()
        self._make_room = make_room
        self.loop = asyncio.get_running_loop()
        self.connections: dict[Connection, None] = {}
        self.bad_connections = LimitedLog(logger, self.loop.time)
        self.stopping = False
        self._empty = asyncio.Event()
        self._listeners = listeners
        self._tls = tls
        self._sasl = sasl
        self._image = image
        self._tokens = tokens
        # Also those whose handshake is not complete, of which no connection knows.
        self._tls_protocols: dict[TlsProtocol, None] = {}

    async def start(self) -> None:
        """Accept connections."""
        backlog = self.config.integer("socket.listen.backlog.size")
        for name, listener in self._listeners.items():
            make = partial(self._make_tls if name in self._tls else self._make, name)
            await listener.start(make, max(backlog, 128))

    def _make(self, listener: str) -> Connection:
        sasl = self._sasl.get(listener)
        return Connection(self, listener, None if sasl is None else sasl.authenticator(self._image, self._tokens))

    def _make_tls(self, listener: str) -> TlsProtocol:
        connection = self._make(listener)
        began, ended = partial(self._handshake_begins, connection), partial(self._tls_ended, connection)
        return TlsProtocol(self._tls[listener], connection, self.loop, self.bad_connections, began, ended)

    def _handshake_begins(self, connection: Connection, protocol: TlsProtocol) -> None:
        self._tls_protocols[protocol] = None
        self.pending.add(connection.listener, connection, protocol.drop)

    def _tls_ended(self, connection: Connection, protocol: TlsProtocol) -> None:
        del self._tls_protocols[protocol]
        self.pending.discard(connection.listener, connection)

    def opened(self, connection: Connection) -> None:
        """Record a new connection, after its TLS handshake; close it if there are too many."""
        self.connections[connection] = None
        self.metrics.connections_opened += 1
        self.pending.add(connection.listener, connection, partial(connection.abort, why=Closed.REFUSED))
        refusal = self._limits.opened(connection.listener, connection.address)
        if self.stopping:
            # It was accepted before the listener closed.
            connection.abort()
            return
        if refusal is not None:
            self._refuse(connection, refusal)
        elif is_nearly_out(connection.descriptor) and not self._make_room():
            # Without free descriptors no log could start a new segment, and the broker would have to shut down.
            connection.close("too few files are left; raise their limit (ulimit -n)", why=Closed.REFUSED)

    def _refuse(self, connection: Connection, refusal: Refusal) -> None:
        if not refusal.after_ms:
            connection.close(refusal.reason, why=Closed.REFUSED)
            return
        until = self._clock.wake_after(refusal.after_ms)
        # Closed before it would be read again.
        until.add_done_callback(lambda _: connection.close(refusal.reason, why=Closed.REFUSED))
        connection.hold(until)

    def ready(self, connection: Connection) -> None:
        """Record that the client of a connection has sent a request, and has logged in if it has to."""
        self.pending.discard(connection.listener, connection)

    def lost(self, connection: Connection) -> None:
        """Record that a connection is closed."""
        if connection in self.connections:
            self._limits.lost(connection.listener, connection.address)
        self.connections.pop(connection, None)
        self.pending.discard(connection.listener, connection)
        self.metrics.connections_closed[connection.closed_for] += 1
        if self.stopping and not self.connections:
            self._empty.set()

    def sweep(self) -> None:
        """Close the connections that have been idle for too long; release memory of other idle ones."""
        now = perf_counter_ns()
        limit = self.config.connections_max_idle_ms / 1000
        for connection in list(self.connections):
            idle = (now - connection.last_active_ns) / 1e9
            if connection.is_busy:
                continue
            if limit >= 0 and idle > limit:
                logger.info("closing the connection of %s after %.0f s without a request", connection.peer, idle)
                connection.close(why=Closed.IDLE)
            elif idle > 1:
                connection.shrink()

    async def close(self) -> None:
        """Stop accepting, and close the connections."""
        await self.stop_accepting()
        for connection in list(self.connections):
            connection.close(why=Closed.STOPPED)
        if not self.connections:
            self._empty.set()
        # Responses that are being sent get a moment to complete.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._empty.wait()
        self.abort()

    async def stop_accepting(self) -> None:
        """Accept no more connections; those accepted already are recorded before this returns."""
        for listener in self._listeners.values():
            await listener.stop_accepting()
        self._stop_listening()

    def abort(self) -> None:
        """Drop all connections immediately."""
        self._stop_listening()
        for connection in list(self.connections):
            connection.abort()
        for protocol in list(self._tls_protocols):
            protocol.transport.abort()

    def _stop_listening(self) -> None:
        self.stopping = True
        for listener in self._listeners.values():
            listener.close()
