"""Listens, keeps the connections, and closes those that are idle for too long.

Leaves out TLS, several listeners and quotas on connections by address.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter_ns

from refbroker.config import BrokerConfig
from refbroker.metrics.counters import BrokerMetrics, Closed
from refbroker.runtime.file_limit import is_nearly_out
from refbroker.server.connection import Connection
from refbroker.server.dispatch import Dispatcher

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 1.0


class Server:
    """The broker's listening socket and its connections.

    Parameters:
        config: the broker's settings.
        dispatcher: handles the requests.
        metrics: where connections are counted.
        make_room: closes files that need not be open, and says whether there was one.

    Attributes:
        loop: the event loop it was made in.
        connections: those that are open.
        stopping: whether it is being closed.
    """

    def __init__(
        self,
        config: BrokerConfig,
        dispatcher: Dispatcher,
        metrics: BrokerMetrics,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        self.config = config
        self.dispatcher = dispatcher
        self.metrics = metrics
        self._make_room = make_room
        self.loop = asyncio.get_running_loop()
        self.connections: set[Connection] = set()
        self.stopping = False
        self._empty = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._socket: socket.socket | None = None

    def bind(self, host: str, port: int) -> int:
        """Take the port, without accepting yet, and say which it is.

        Raises:
            OSError: the port is in use, or the address is not this machine's.
        """
        infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, proto, _, address = infos[0]
        listening = socket.socket(family, kind, proto)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for option, name in (
                (socket.SO_SNDBUF, "socket.send.buffer.bytes"),
                (socket.SO_RCVBUF, "socket.receive.buffer.bytes"),
            ):
                # Only what was set: the system's own choice grows with the connection's speed.
                size = self.config.static.get(name)
                if size is not None and int(size) >= 0:
                    listening.setsockopt(socket.SOL_SOCKET, option, int(size))
            listening.bind(address)
        except OSError as error:
            listening.close()
            raise OSError(error.errno, f"could not listen on {host}:{port}: {error.strerror}") from error
        self._socket = listening
        bound: int = listening.getsockname()[1]
        return bound

    async def start(self) -> None:
        """Accept connections."""
        assert self._socket is not None
        backlog = self.config.integer("socket.listen.backlog.size")
        self._server = await self.loop.create_server(
            lambda: Connection(self), sock=self._socket, backlog=max(backlog, 128)
        )
        self._socket = None

    def opened(self, connection: Connection) -> None:
        """Take note of a new connection; one too many is closed."""
        self.connections.add(connection)
        self.metrics.connections_opened += 1
        if self.stopping:
            # It was accepted before, and is told only now.
            connection.abort()
            return
        limit = self.config.integer("max.connections")
        if len(self.connections) > limit:
            connection.close(f"there are {limit} connections already", why=Closed.REFUSED)
        elif is_nearly_out(connection.descriptor) and not self._make_room():
            # Without files no log could begin a new segment, and the broker would have to give up.
            connection.close("too few files are left; raise their limit (ulimit -n)", why=Closed.REFUSED)

    def lost(self, connection: Connection) -> None:
        """Take note that a connection is gone."""
        self.connections.discard(connection)
        self.metrics.connections_closed[connection.closed_for] += 1
        if self.stopping and not self.connections:
            self._empty.set()

    def sweep(self) -> None:
        """Close the connections that are idle for too long; others that are quiet give back memory."""
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
        # Answers that are still being sent get a moment.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._empty.wait()
        self.abort()

    async def stop_accepting(self) -> None:
        """Take no more connections; those that were accepted already become such before this returns."""
        for listening in self._server.sockets if self._server is not None else ():
            self.loop.remove_reader(listening.fileno())
        # asyncio makes their transports in a task each, which fails and leaks the socket once the server is closed.
        await asyncio.sleep(0)
        self._stop_listening()

    def abort(self) -> None:
        """Drop everything at once."""
        self._stop_listening()
        for connection in list(self.connections):
            connection.abort()

    def _stop_listening(self) -> None:
        self.stopping = True
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
