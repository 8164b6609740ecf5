"""The network of a simulated client: the client's own framing (`kclient.net.io`) on simulated connections.

Only the sockets and the selector are replaced, so that partial writes, frames in pieces and errors of the connection
take the path that they take on TCP.
"""

from __future__ import annotations

import errno
import selectors
from collections import deque
from collections.abc import Callable
from typing import Any

from kclient.net.events import RESOLVED, Event, Handler
from kclient.net.io import Channel, Poller
from kclient.net.transport import Address
from refbroker.testing.simulation.network import Endpoint, Network

_INET = 2


class SimulatedSocket:
    """What `Channel` uses of a non-blocking socket."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def sendmsg(self, parts: list[Any]) -> int:
        return self.endpoint.send(b"".join(parts))

    def recv_into(self, buffer: memoryview) -> int:
        data = self.endpoint.receive(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def recv(self, size: int) -> bytes:
        return self.endpoint.receive(size)

    def getsockopt(self, level: int, option: int) -> int:
        error = self.endpoint.error
        return 0 if error is None else error.errno or errno.ECONNRESET

    def close(self) -> None:
        self.endpoint.close()


class SimulatedSelector:
    """What `Poller` uses of a selector; never waits.

    Parameters:
        on_ready: called when a registered socket may have become ready.
    """

    def __init__(self, on_ready: Callable[[], None]) -> None:
        self._on_ready = on_ready
        self._keys: dict[SimulatedSocket, selectors.SelectorKey] = {}

    def register(self, sock: Any, interest: int, data: Any = None) -> None:
        self._keys[sock] = selectors.SelectorKey(sock, -1, interest, data)
        sock.endpoint.on_change = self._on_ready
        if _ready(sock.endpoint) & interest:
            self._on_ready()

    def modify(self, sock: Any, interest: int, data: Any = None) -> None:
        self.register(sock, interest, data)

    def unregister(self, sock: Any) -> None:
        del self._keys[sock]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = [(key, key.events & _ready(sock.endpoint)) for sock, key in self._keys.items()]
        return [(key, mask) for key, mask in found if mask]

    def close(self) -> None:
        self._keys.clear()

    def describe(self) -> str:
        return ", ".join(f"{sock.endpoint.peer[0]}:{sock.endpoint.peer[1]}" for sock in self._keys) or "none"


class SimulatedTransport:
    """A `kclient.net.transport.Transport` on the simulated network.

    Attributes:
        on_events: called when `wait` may have events to return.
    """

    def __init__(self, network: Network) -> None:
        self.on_events: Callable[[], None] = lambda: None
        self._network = network
        self._selector = SimulatedSelector(self._has_events)
        self._poller = Poller(self._selector)
        self._looked_up: deque[Event] = deque()

    def resolve(self, host: str, port: int, handler: Handler, *, canonical: bool = False) -> None:
        """See Transport; every name has one address, which is itself."""

        def found() -> None:
            self._looked_up.append((handler, RESOLVED, [Address(_INET, (host, port))]))
            self.on_events()

        self._network.simulation.later(self._network.delay(), found)

    def connect(self, address: Address, handler: Handler, *, raw: bool = False) -> Channel:
        """See Transport."""
        sock: Any = SimulatedSocket(self._network.connect(*address.sockaddr[:2]))
        return self._poller.register(sock, handler, raw)

    @property
    def is_ready(self) -> bool:
        """Whether a socket is still ready, as when a turn read one of two frames; `on_events` reports only changes."""
        return bool(self._selector.select())

    def wait(self, timeout: float) -> list[Event]:
        """See Transport; does not wait."""
        events = self._poller.wait(0.0)
        while self._looked_up:
            events.append(self._looked_up.popleft())
        return events

    def wake(self) -> None:
        """See Transport; nothing sleeps in `wait`, but a turn may be due."""
        self.on_events()

    def close(self) -> None:
        """See Transport."""
        self._poller.close()

    def _has_events(self) -> None:
        self.on_events()

    def describe(self) -> str:
        """Return the connections, for the message of a deadlock."""
        return self._selector.describe()


def _ready(endpoint: Endpoint) -> int:
    readable = selectors.EVENT_READ if endpoint.is_readable else 0
    return readable | (selectors.EVENT_WRITE if endpoint.is_writable else 0)
