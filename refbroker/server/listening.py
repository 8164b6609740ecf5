"""Accepts a broker's connections: from a listening socket, or from the network that a test provides.

A listener can pause: connections then wait in the system's queue, whose length is the backlog. Elsewhere: when it
pauses (`accepting`), TLS (`tls`).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Protocol

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""How long a listener pauses when the system has no memory or files for a connection."""
_BUFFERS = ((socket.SO_SNDBUF, "socket.send.buffer.bytes"), (socket.SO_RCVBUF, "socket.receive.buffer.bytes"))
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Accepted(Protocol):
    """A connection that was accepted, and is not read yet.

    Attributes:
        peer: the client's address and port, for log messages.
        descriptor: the descriptor of the socket.
    """

    peer: str
    descriptor: int

    def serve(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the connection its protocol."""

    def close(self) -> None:
        """Close the connection instead."""


class Listener(Protocol):
    """A bound port.

    Attributes:
        port: its number.
    """

    port: int

    def start(self, accept: Callable[[Accepted], None], backlog: int) -> None:
        """Accept connections, and pass each to a function.

        Raises:
            OSError: the port cannot be listened on.
        """

    def pause(self) -> None:
        """Accept no connection until `resume`; others wait in the queue."""

    def resume(self) -> None:
        """Accept connections again."""

    async def stop_accepting(self) -> None:
        """Stop accepting. Connections that are served have reached their protocols when this returns."""

    def close(self) -> None:
        """Release the port."""


class ListenerFactory(Protocol):
    """Creates the broker's listeners."""

    def bind(self, host: str, port: int, settings: Mapping[str, str]) -> Listener:
        """Bind a port without accepting connections yet; 0 picks a free one.

        Parameters:
            settings: the broker's settings, for the sizes of socket buffers.

        Raises:
            OSError: the port is in use, or the address is not local.
        """


class SocketListeners:
    """TCP."""

    def bind(self, host: str, port: int, settings: Mapping[str, str]) -> Listener:
        """See ListenerFactory."""
        # Without a host it accepts connections on every address of the machine, as Java does.
        is_dual = not host and socket.has_dualstack_ipv6()
        infos = socket.getaddrinfo(
            "::" if is_dual else host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, proto, _, address = infos[0]
        listening = socket.socket(family, kind, proto)
        try:
            if is_dual:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for option, name in _BUFFERS:
                # Set only what the settings contain: the system's own choice adapts to the connection's speed.
                size = settings.get(name)
                if size is not None and int(size) >= 0:
                    listening.setsockopt(socket.SOL_SOCKET, option, int(size))
            listening.bind(address)
        except OSError as error:
            listening.close()
            if is_dual and error.errno == errno.EADDRNOTAVAIL:
                # IPv6 is there, and switched off.
                return self.bind("0.0.0.0", port, settings)
            raise OSError(error.errno, f"could not listen on {host}:{port}: {error.strerror}") from error
        return SocketListener(listening)


class SocketListener:
    """A listening socket of the running event loop."""

    def __init__(self, listening: socket.socket) -> None:
        self.port: int = listening.getsockname()[1]
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = listening
        self._accept: Callable[[Accepted], None] = Accepted.close
        self._at_once = 1
        self._is_paused = True
        self._is_watched = False
        self._retry: asyncio.TimerHandle | None = None
        self._serving: set[asyncio.Task[object]] = set()

    def start(self, accept: Callable[[Accepted], None], backlog: int) -> None:
        """See Listener."""
        assert self._socket is not None
        self._socket.setblocking(False)
        self._socket.listen(backlog)
        self._accept, self._at_once = accept, backlog
        self.resume()

    def pause(self) -> None:
        """See Listener."""
        self._is_paused = True
        self._watch()

    def resume(self) -> None:
        """See Listener."""
        self._is_paused = False
        self._watch()

    def _watch(self) -> None:
        """Wait for connections, unless it is paused or the system cannot accept any."""
        wanted = not self._is_paused and self._retry is None
        if self._socket is None or wanted == self._is_watched:
            return
        self._is_watched = wanted
        if wanted:
            self._loop.add_reader(self._socket.fileno(), self._accept_some)
        else:
            self._loop.remove_reader(self._socket.fileno())

    def _accept_some(self) -> None:
        """Accept what waits in the queue, unless the first ones are already too many."""
        for _ in range(self._at_once):
            if self._socket is None or not self._is_watched:
                return
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                logger.error("no connection can be accepted on port %d: %s", self.port, error.strerror)
                self._retry = self._loop.call_later(RETRY_SECONDS, self._accept_again)
                self._watch()
                return
            connection.setblocking(False)
            self._accept(_AcceptedSocket(self, connection, f"{address[0]}:{address[1]}"))

    def _accept_again(self) -> None:
        self._retry = None
        self._watch()

    def serve(self, connection: socket.socket, protocol: asyncio.BaseProtocol) -> None:
        """Give a connection that was accepted its protocol."""
        # A loop has no method that does this without a task.
        task: asyncio.Task[object] = self._loop.create_task(
            self._loop.connect_accepted_socket(lambda: protocol, connection)
        )
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def stop_accepting(self) -> None:
        """See Listener."""
        self.close()
        if self._serving:
            await asyncio.wait(self._serving)

    def close(self) -> None:
        """See Listener."""
        self.pause()
        if self._retry is not None:
            self._retry.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _AcceptedSocket:
    """A connection that a listening socket has accepted."""

    def __init__(self, listener: SocketListener, connection: socket.socket, peer: str) -> None:
        self.peer = peer
        self.descriptor = connection.fileno()
        self._listener = listener
        self._socket = connection

    def serve(self, protocol: asyncio.BaseProtocol) -> None:
        """See Accepted."""
        self._listener.serve(self._socket, protocol)

    def close(self) -> None:
        """See Accepted."""
        self._socket.close()


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the address and port of a connection's client, for log messages."""
    address = transport.get_extra_info("peername")
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "?")
