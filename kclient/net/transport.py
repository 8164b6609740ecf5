"""The network as the driver sees it, and the real one: sockets, and name lookups that do not block.

The interface is small, so that a simulation can implement it: look up a name, connect to an address, send the parts of
a frame, wait for events. Elsewhere: the content of frames.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from kclient._text import address
from kclient.net.events import RESOLVED, Event, Handler
from kclient.net.implementation import Poller
from kclient.security.implementation import TlsStream


class Address(NamedTuple):
    """An address to connect to: the address family and the socket module's address.

    `name` is its canonical name, if that was requested.
    """

    family: int
    sockaddr: tuple[Any, ...]
    name: str = ""

    def __str__(self) -> str:
        host, port = self.sockaddr[:2]
        return address(str(host), port)


class Channel(Protocol):
    """One connection of a transport: whole frames in, parts of frames out."""

    frame_limit: int

    def send(self, parts: Sequence[Any], notify: bool = False) -> bool:
        """Send in order; return True if everything was handed to the system at once. Otherwise SENT follows with
        `notify`.
        """

    def close(self) -> None:
        """End the connection; no event follows."""


@runtime_checkable
class EncryptingChannel(Channel, Protocol):
    """A channel that can encrypt by itself, as the compiled sockets can."""

    def secure(self, stream: TlsStream) -> bool:
        """Encrypt and decrypt with a stream whose handshake is complete, from now on.

        FRAME then follows instead of BYTES, and CLOSED may have an `ssl.SSLError`.

        Returns:
            False if the channel cannot use this stream. Nothing has changed then.
        """


class Transport(Protocol):
    """The network as the driver sees it; called on the network thread, except for `wake`."""

    def resolve(self, host: str, port: int, handler: Handler, *, canonical: bool = False) -> None:
        """Look up a name; RESOLVED follows, with the addresses in the order to try them, or an OSError."""

    def connect(self, address: Address, handler: Handler, *, raw: bool = False) -> Channel:
        """Start connecting; CONNECTED or CLOSED follows. Raise OSError if that fails immediately.

        Parameters:
            raw: report BYTES as they arrive instead of frames.
        """

    def wait(self, timeout: float) -> list[Event]:
        """Wait for events, at most this many seconds; return none after `wake`."""

    def wake(self) -> None:
        """Make `wait` return. Any thread."""

    def close(self) -> None:
        """Close every connection."""


class SocketTransport:
    """TCP.

    Parameters:
        send_buffer, receive_buffer: SO_SNDBUF and SO_RCVBUF in bytes; -1 leaves them to the system.
    """

    def __init__(self, *, send_buffer: int = -1, receive_buffer: int = -1) -> None:
        self.poller = Poller()
        self._send_buffer = send_buffer
        self._receive_buffer = receive_buffer
        self._looked_up: deque[Event] = deque()
        self.wake = self.poller.wake

    def resolve(self, host: str, port: int, handler: Handler, *, canonical: bool = False) -> None:
        """Look up a name; see Transport. An IP address needs no thread; a stuck lookup blocks nothing else.

        Parameters:
            canonical: resolve to the canonical names of the addresses instead.
        """
        if not canonical and (address := _literal(host, port)):
            self._looked_up.append((handler, RESOLVED, [address]))
            return
        # Not an executor: the interpreter would join its threads at exit, and getaddrinfo cannot be interrupted.
        arguments = (host, port, handler, canonical)
        threading.Thread(target=self._look_up, args=arguments, name=f"kclient-dns-{host}", daemon=True).start()

    def _look_up(self, host: str, port: int, handler: Handler, canonical: bool) -> None:
        found: list[Address] | OSError
        try:
            found = _addresses(host, port)
            if canonical:
                names = dict.fromkeys(socket.getnameinfo(a.sockaddr, socket.NI_NAMEREQD)[0] for a in found)
                found = [address._replace(name=name) for name in names for address in _addresses(name, port)]
        except OSError as error:
            found = error
        except UnicodeError as error:
            found = OSError(f"not a host name: {error}")
        self._looked_up.append((handler, RESOLVED, found))
        self.wake()

    def connect(self, address: Address, handler: Handler, *, raw: bool = False) -> Channel:
        """See Transport."""
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._send_buffer != -1:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
            if self._receive_buffer != -1:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
            try:
                sock.connect(address.sockaddr)
            except BlockingIOError:
                pass  # the connection is in progress
            return self.poller.register(sock, handler, raw)
        except BaseException:
            sock.close()
            raise

    def wait(self, timeout: float) -> list[Event]:
        """See Transport."""
        looked_up = self._looked_up
        if looked_up:
            timeout = 0.0
        events = self.poller.wait(timeout)
        while looked_up:
            events.append(looked_up.popleft())
        return events

    def close(self) -> None:
        """See Transport."""
        self.poller.close()


def _literal(host: str, port: int) -> Address | None:
    try:
        kind = ipaddress.ip_address(host)
    except ValueError:
        return None
    if kind.version == 4:
        return Address(socket.AF_INET, (host, port))
    return Address(socket.AF_INET6, (host, port, 0, 0))


def _addresses(host: str, port: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))
