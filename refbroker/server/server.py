"""Keeps the connections, and closes idle ones.

Elsewhere: how they are accepted (`accepting`), which of them are admitted (`connection_limits`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter_ns
from typing import NamedTuple

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import ClientQuotaRecord, ConfigRecord
from refbroker.handlers.answers import host_of
from refbroker.metadata.image import BROKER_RESOURCE
from refbroker.metrics.counters import Closed
from refbroker.runtime.file_limit import is_nearly_out
from refbroker.runtime.limited_log import LimitedLog
from refbroker.server.accepting import Acceptor
from refbroker.server.address_limits import AddressLimits
from refbroker.server.connection import Connection
from refbroker.server.connection_limits import ConnectionLimits, Refusal
from refbroker.server.dispatch import Dispatcher
from refbroker.server.listening import Accepted, Listener
from refbroker.server.pending_connections import PendingConnections
from refbroker.server.sasl import SaslListener
from refbroker.server.services import ServerServices
from refbroker.server.tls import TlsListener, TlsProtocol

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 1.0


class _Slot(NamedTuple):
    """What a connection counts for in the limits: its listener, and the address of its client."""

    listener: str
    address: str


class Server:
    """The broker's listening sockets and its connections.

    Parameters:
        broker: the parts of the broker.
        dispatcher: handles the requests.
        listeners: a bound port for each listener, by its name.
        tls: the TLS of the listeners that have it, by name.
        sasl: the SASL of the listeners that have it, by name.
        make_room: closes files that need not be open; returns whether there was one.

    Attributes:
        config: the broker's settings.
        dispatcher: handles the requests.
        loop: the event loop that created it.
        connections: the open connections, the oldest first: the order of a set would differ between runs.
        pending: the connections that are not ready: in a TLS handshake, not logged in, or without a request.
        bad_connections: logs what is wrong with connections.
        stopping: whether it is being closed.
    """

    def __init__(
        self,
        broker: ServerServices,
        dispatcher: Dispatcher,
        listeners: Mapping[str, Listener],
        tls: Mapping[str, TlsListener],
        sasl: Mapping[str, SaslListener],
        make_room: Callable[[], bool],
    ) -> None:
        self.config = broker.config
        self.dispatcher = dispatcher
        self._metrics = broker.metrics
        self._clock = broker.clock
        self._address_limits = AddressLimits(broker.config, broker.image, broker.lookups)
        self.limits = ConnectionLimits(broker.config, self._address_limits, broker.clock)
        self.pending = PendingConnections()
        self._make_room = make_room
        self.loop = asyncio.get_running_loop()
        self.connections: dict[Connection, None] = {}
        self.bad_connections = LimitedLog(logger, self.loop.time)
        self.stopping = False
        self._empty = asyncio.Event()
        self._acceptors = [
            Acceptor(name, listener, self.limits, broker.clock, self.bad_connections, self._admit)
            for name, listener in listeners.items()
        ]
        self._tls = tls
        self._sasl = sasl
        self._image = broker.image
        self._tokens = broker.tokens
        # The first two also have connections whose TLS handshake is not complete.
        self._slots: dict[Connection, _Slot] = {}
        self._tls_protocols: dict[Connection, TlsProtocol] = {}
        self._refused: dict[Accepted, asyncio.Future[None]] = {}

    def start(self) -> None:
        """Accept connections.

        Raises:
            OSError: a port cannot be listened on.
        """
        self._address_limits.update()
        backlog = max(self.config.integer("socket.listen.backlog.size"), 128)
        for acceptor in self._acceptors:
            acceptor.start(backlog)

    @property
    def connection_count(self) -> int:
        """The open connections, also those in a TLS handshake."""
        return len(self._slots)

    def _admit(self, listener: str, accepted: Accepted) -> None:
        """Serve a connection, or refuse it because of its address or the limit of open files."""
        self._metrics.connections_opened += 1
        if is_nearly_out(accepted.descriptor) and not self._make_room():
            # Without free descriptors no log could start a new segment, and the broker would have to shut down.
            self._refuse(accepted, Refusal("too few files are left; raise their limit (ulimit -n)"))
            return
        address = host_of(accepted.peer).removeprefix("/")
        refusal = self.limits.admit(listener, address)
        if refusal is not None:
            self._refuse(accepted, refusal)
            return
        try:
            connection, protocol = self._make(listener)
        except Exception:
            # Nothing is closed that would make it count no more.
            logger.exception("a connection of %s could not be set up", accepted.peer)
            self.limits.release(listener, address)
            self._metrics.connections_closed[Closed.ERROR] += 1
            accepted.close()
            return
        self._slots[connection] = _Slot(listener, address)
        accepted.serve(protocol)
        self._close_excess()

    def _make(self, listener: str) -> tuple[Connection, asyncio.BaseProtocol]:
        """Return a new connection, and the protocol of its socket."""
        sasl = self._sasl.get(listener)
        connection = Connection(self, listener, None if sasl is None else sasl.authenticator(self._image, self._tokens))
        return connection, connection if listener not in self._tls else self._with_tls(connection)

    def _refuse(self, accepted: Accepted, refusal: Refusal) -> None:
        def close(_: asyncio.Future[None] | None = None) -> None:
            self._refused.pop(accepted, None)
            self._metrics.connections_closed[Closed.REFUSED] += 1
            self.bad_connections.warning(accepted.peer, "closing the connection of %s: %s", refusal.reason)
            accepted.close()

        if not refusal.after_ms:
            close()
            return
        until = self._refused[accepted] = self._clock.wake_after(refusal.after_ms)
        until.add_done_callback(close)

    def _with_tls(self, connection: Connection) -> TlsProtocol:
        began, ended = partial(self._handshake_begins, connection), partial(self._tls_ended, connection)
        return TlsProtocol(self._tls[connection.listener], connection, self.loop, self.bad_connections, began, ended)

    def _handshake_begins(self, connection: Connection, protocol: TlsProtocol) -> None:
        self._tls_protocols[connection] = protocol
        self.pending.add(connection.listener, connection, partial(protocol.drop, why=Closed.REFUSED))
        if self.stopping:
            protocol.transport.abort()

    def _tls_ended(self, connection: Connection, protocol: TlsProtocol) -> None:
        self._tls_protocols.pop(connection, None)
        self._release(connection)

    def opened(self, connection: Connection) -> None:
        """Record a new connection, after its TLS handshake."""
        self.connections[connection] = None
        self.pending.add(connection.listener, connection, partial(connection.abort, why=Closed.REFUSED))
        if self.stopping:
            # It was accepted before the listener closed.
            connection.abort()

    def ready(self, connection: Connection) -> None:
        """Record that the client of a connection has sent a request, and has logged in if it has to."""
        self.pending.discard(connection.listener, connection)

    def lost(self, connection: Connection) -> None:
        """Record that a connection is closed."""
        self.connections.pop(connection, None)
        self._release(connection)
        if self.stopping and not self.connections:
            self._empty.set()

    def _release(self, connection: Connection) -> None:
        """Let another connection take the place of one that is closed."""
        self.pending.discard(connection.listener, connection)
        slot = self._slots.pop(connection, None)
        if slot is None:
            return
        self._metrics.connections_closed[connection.closed_for] += 1
        self.limits.release(*slot)
        if not self.stopping:
            self._accept_waiting()

    def _accept_waiting(self) -> None:
        """Admit connections that wait for a limit; the listeners take turns."""
        for acceptor in list(self._acceptors):
            if acceptor.proceed():
                self._acceptors.remove(acceptor)
                self._acceptors.append(acceptor)

    def follow(self, records: Sequence[Message]) -> None:
        """Apply changed settings and quotas to the connections: the limits may be higher or lower.

        Parameters:
            records: a change of the metadata, which has been applied to the settings.
        """
        has_settings = any(
            isinstance(record, ConfigRecord) and record.resource_type == BROKER_RESOURCE for record in records
        )
        if has_settings or any(isinstance(record, ClientQuotaRecord) for record in records):
            self._address_limits.update()
        if has_settings:
            self._close_excess()
            self._accept_waiting()

    def _close_excess(self) -> None:
        """Close the connections that have been idle for longest, but none of brokers, while there are too many."""
        while self.limits.excess > 0:
            open_ones = [one for one in (*self._tls_protocols, *self.connections) if one in self._slots]
            clients = [one for one in open_ones if not self.limits.is_protected(one.listener)]
            if not clients:
                return
            idle = min(clients, key=lambda one: one.last_active_ns)
            if idle in self.connections:
                idle.abort("there are too many connections", why=Closed.REFUSED)
            else:
                self._tls_protocols[idle].drop("there are too many connections", why=Closed.REFUSED)
            self._release(idle)

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
        """Accept no more connections; those admitted already are recorded before this returns."""
        for acceptor in self._acceptors:
            await acceptor.stop()
        self._stop_listening()

    def abort(self) -> None:
        """Drop all connections immediately."""
        self._stop_listening()
        for connection in list(self.connections):
            connection.abort()
        for protocol in list(self._tls_protocols.values()):
            protocol.transport.abort()

    def _stop_listening(self) -> None:
        self.stopping = True
        self._address_limits.close()
        for acceptor in self._acceptors:
            acceptor.close()
        for until in list(self._refused.values()):
            until.cancel()
