"""Blocking sockets on the simulated network, for tests that write to a broker without a client.

A call that would block runs the simulation until it can return. Not implemented: options of sockets, of which only
`SO_LINGER` has an effect, the source address of a connection, and sockets that listen.
"""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Callable
from typing import Any, Self

from refbroker.testing.simulation.network import Network

LINGER = struct.Struct("ii")


def connector(network: Network) -> Callable[..., BlockingSocket]:
    """Return a `socket.create_connection` that connects through a simulated network."""

    def create_connection(
        address: tuple[str, int],
        timeout: float | None = None,
        source_address: tuple[str, int] | None = None,
        *,
        all_errors: bool = False,
    ) -> BlockingSocket:
        return BlockingSocket(network, address, timeout)

    return create_connection


class BlockingSocket:
    """A connected socket, with the methods that tests and `http.client` call.

    Parameters:
        network: what it connects through.
        address: host and port of the listener.
        timeout: seconds that a call may block; None is forever.
    """

    def __init__(self, network: Network, address: tuple[str, int], timeout: float | None) -> None:
        self._timeout = timeout
        self._network = network
        self._is_abortive = False
        self._endpoint = network.connect(*address)
        self._wait(lambda: self._endpoint.is_connected or self._endpoint.error is not None)
        if self._endpoint.error is not None:
            raise self._endpoint.error

    def sendall(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            self._wait(lambda: self._endpoint.is_writable)
            rest = rest[self._endpoint.send(rest) :]

    def recv(self, size: int) -> bytes:
        self._wait(lambda: self._endpoint.is_readable)
        return self._endpoint.receive(size)

    def makefile(self, mode: str = "rb") -> io.BufferedReader:
        """Return a file that reads from the socket."""
        return io.BufferedReader(_Reader(self))

    def getsockname(self) -> tuple[str, int]:
        return self._endpoint.address

    def settimeout(self, timeout: float | None) -> None:
        self._timeout = timeout

    def setblocking(self, blocking: bool) -> None:
        self._timeout = None if blocking else 0.0

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER):
            self._is_abortive = LINGER.unpack(value) == (1, 0)

    def shutdown(self, how: int) -> None:
        """End the stream of bytes to the peer; reading remains possible."""
        assert how == socket.SHUT_WR
        self._endpoint.finish()

    def close(self) -> None:
        if self._is_abortive:
            self._endpoint.abort()
        else:
            self._endpoint.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _wait(self, is_ready: Callable[[], bool]) -> None:
        if self._timeout == 0:
            if not is_ready():
                raise BlockingIOError
        elif not self._network.simulation.run_until(is_ready, self._timeout):
            raise TimeoutError("timed out")


class _Reader(io.RawIOBase):
    """The raw file of a socket, which stays open when the file is closed."""

    def __init__(self, sock: BlockingSocket) -> None:
        self._socket = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._socket.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)
