"""Accepts a broker's connections: from a listening socket, or from the network that a test provides.

Elsewhere: TLS (`tls`).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Mapping
from typing import Protocol

_BUFFERS = ((socket.SO_SNDBUF, "socket.send.buffer.bytes"), (socket.SO_RCVBUF, "socket.receive.buffer.bytes"))


class Listener(Protocol):
    """A bound port.

    Attributes:
        port: its number.
    """

    port: int

    async def start(self, make_protocol: Callable[[], asyncio.BaseProtocol], backlog: int) -> None:
        """Accept connections and give each its own protocol."""

    async def stop_accepting(self) -> None:
        """Stop accepting. Connections that were accepted have reached their protocols when this returns."""

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
        self._server: asyncio.Server | None = None

    async def start(self, make_protocol: Callable[[], asyncio.BaseProtocol], backlog: int) -> None:
        """See Listener."""
        assert self._socket is not None
        # In two steps: the first does not wait, so that a cancelled start has a server to close.
        self._server = await self._loop.create_server(
            make_protocol, sock=self._socket, backlog=backlog, start_serving=False
        )
        self._socket = None
        await self._server.start_serving()

    async def stop_accepting(self) -> None:
        """See Listener."""
        for listening in self._server.sockets if self._server is not None else ():
            self._loop.remove_reader(listening.fileno())
        # asyncio creates each transport in a task, which fails and leaks the socket if the server is closed first.
        await asyncio.sleep(0)
        self.close()

    def close(self) -> None:
        """See Listener."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the address and port of a connection's client, for log messages."""
    address = transport.get_extra_info("peername")
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "?")
