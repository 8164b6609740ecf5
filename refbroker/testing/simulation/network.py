"""A simulated TCP network: listeners by address, and connections that carry bytes with delays.

The seed decides how long bytes take, in which pieces they arrive, and how many a sender can hand over at once. Bytes of
one direction of a connection keep their order; nothing else does. Not implemented: lost packets below TCP, and name
lookups.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import NamedTuple

from refbroker.testing.simulation.scheduler import Simulation

WINDOW = 262_144
"""Bytes on their way or not read yet that one direction of a connection holds."""
LEAST_ROOM = WINDOW // 4
"""A sender waits until this many bytes of the window are free, as in TCP, so that pieces do not become ever smaller."""
_FIRST_PORT = 20_000


class Conduct(NamedTuple):
    """How the network behaves.

    Attributes:
        delay: seconds that bytes take, at least and at most.
        slow: how likely (0 to 1) bytes take `slow_delay` instead.
        slow_delay: seconds, at least and at most.
        split: how likely bytes that are sent together arrive in pieces.
        short: how likely a sender can hand over only a part at once.
        cut: how likely a connection is reset while bytes are sent.
    """

    delay: tuple[float, float] = (0.00005, 0.002)
    slow: float = 0.02
    slow_delay: tuple[float, float] = (0.005, 0.05)
    split: float = 0.2
    short: float = 0.05
    cut: float = 0.0


class Endpoint:
    """One end of a connection, with the calls of a non-blocking socket.

    Attributes:
        address, peer: host and port of this end and of the other one.
        on_change: called when reading or writing may have become possible, or the connection was made or has ended.
    """

    def __init__(self, network: Network, address: tuple[str, int], peer: tuple[str, int]) -> None:
        self.address = address
        self.peer = peer
        self.on_change: Callable[[], None] = _nothing
        self.is_connected = False
        self.error: OSError | None = None
        self.is_closed = False
        self._network = network
        self._other: Endpoint | None = None
        self._arrived = bytearray()
        self._has_ended = False
        self._unread_by_peer = 0
        self._last_arrival = 0.0

    @property
    def is_readable(self) -> bool:
        """Whether `receive` has bytes, the end of the stream or an error to give."""
        return bool(self._arrived) or self._has_ended or self.error is not None

    @property
    def is_writable(self) -> bool:
        """Whether `send` takes bytes, or has an error to give."""
        return self.error is not None or (self.is_connected and self._has_room)

    @property
    def _has_room(self) -> bool:
        return WINDOW - self._unread_by_peer >= LEAST_ROOM

    def receive(self, limit: int) -> bytes:
        """Take bytes that have arrived; empty at the end of the stream.

        Raises:
            BlockingIOError: no bytes have arrived yet.
            OSError: the connection was reset.
        """
        if self._arrived:
            data = bytes(self._arrived[:limit])
            del self._arrived[:limit]
            if self._other is not None:
                self._other._read_by_peer(len(data))
            return data
        if self.error is not None:
            raise self.error
        if self._has_ended:
            return b""
        raise BlockingIOError

    def send(self, data: bytes | memoryview) -> int:
        """Hand over bytes and return how many were taken.

        Raises:
            BlockingIOError: none can be taken now.
            OSError: the connection was reset, or the peer has closed it.
        """
        if self.error is not None:
            raise self.error
        if not self.is_connected or not self._has_room:
            raise BlockingIOError
        network = self._network
        taken = min(len(data), WINDOW - self._unread_by_peer)
        if taken > 1 and network.happens(network.conduct.short):
            taken = network.random.randrange(1, taken)
        if network.happens(network.conduct.cut):
            self.reset()
            raise ConnectionResetError("the simulated network has cut the connection")
        self._unread_by_peer += taken
        for piece in network.pieces(bytes(data[:taken])):
            self._carry(lambda other, piece=piece: other._take(piece))  # type: ignore[misc]
        return taken

    def finish(self) -> None:
        """Send nothing more: the peer reads what was sent, and then the end of the stream. Reading continues."""
        self._carry(Endpoint._end)

    def close(self) -> None:
        """Close in order: the peer reads what was sent, and then the end of the stream."""
        if self.is_closed:
            return
        self.is_closed = True
        unread = bool(self._arrived)
        self.on_change = _nothing
        if unread:
            # As TCP does: what arrives at a closed socket is answered by a reset.
            self._carry(lambda other: other._fail(ConnectionResetError("the peer reset the connection")))
        else:
            self.finish()

    def abort(self) -> None:
        """Close at once: the peer reads no more of what was sent."""
        if not self.is_closed:
            self.is_closed = True
            self.on_change = _nothing
            self._carry(lambda other: other._fail(ConnectionResetError("the peer reset the connection")))

    def reset(self) -> None:
        """Break the connection for both ends."""
        self._carry(lambda other: other._fail(ConnectionResetError("the simulated network has cut the connection")))
        self._fail(ConnectionResetError("the simulated network has cut the connection"))

    def _carry(self, action: Callable[[Endpoint], None]) -> None:
        """Do something at the other end once what was sent before has arrived there."""
        network, other = self._network, self._other
        if other is None:
            return
        self._last_arrival = max(self._last_arrival, network.simulation.now + network.delay())
        network.simulation.at(self._last_arrival, lambda: action(other))

    def _connected(self) -> None:
        self.is_connected = True
        self.on_change()

    def _take(self, data: bytes) -> None:
        if self.is_closed:
            # The sender learns that the peer no longer reads.
            self._carry(lambda other: other._fail(ConnectionResetError("the peer reset the connection")))
        elif self.error is None:
            self._arrived += data
            self.on_change()

    def _end(self) -> None:
        self._has_ended = True
        self.on_change()

    def _fail(self, error: OSError) -> None:
        if self.error is None and not self.is_closed:
            self.error = error
            self.on_change()

    def _read_by_peer(self, count: int) -> None:
        was_full = not self._has_room
        self._unread_by_peer -= count
        if was_full and self._has_room and not self.is_closed:
            self.on_change()


class Network:
    """The network of one simulation.

    Parameters:
        simulation: whose clock and seed decide.
        conduct: how it behaves; may be replaced while it runs.
    """

    def __init__(self, simulation: Simulation, conduct: Conduct = Conduct()) -> None:  # noqa: B008 - it is immutable
        self.simulation = simulation
        self.random: random.Random = simulation.random
        self.conduct = conduct
        self._ports = itertools.count(_FIRST_PORT)
        self._listeners: dict[tuple[str, int], Callable[[Endpoint], None]] = {}
        self._bound: set[tuple[str, int]] = set()

    def bind(self, host: str, port: int) -> int:
        """Take a port, without accepting yet; 0 picks a free one.

        Raises:
            OSError: the port is taken.
        """
        chosen = port or next(self._ports)
        if (host, chosen) in self._bound:
            raise OSError(98, f"could not listen on {host}:{chosen}: Address already in use")
        self._bound.add((host, chosen))
        return chosen

    def listen(self, host: str, port: int, accept: Callable[[Endpoint], None]) -> None:
        """Give new connections of a bound port to a function."""
        self._listeners[host, port] = accept

    def release(self, host: str, port: int) -> None:
        """Accept no more connections, and give the port back."""
        self._bound.discard((host, port))
        self._listeners.pop((host, port), None)

    def connect(self, host: str, port: int) -> Endpoint:
        """Begin a connection; the end that is returned becomes connected, or fails, after a while."""
        near = Endpoint(self, ("127.0.0.1", next(self._ports)), (host, port))
        self.simulation.later(self.delay(), lambda: self._accept(near))
        return near

    def _accept(self, near: Endpoint) -> None:
        accept = self._listeners.get(near.peer)
        if near.is_closed:
            return
        if accept is None:
            near._fail(ConnectionRefusedError(111, "Connection refused"))
            return
        far = Endpoint(self, near.peer, near.address)
        near._other, far._other = far, near
        far.is_connected = True
        far._carry(Endpoint._connected)
        accept(far)

    def happens(self, chance: float) -> bool:
        """Return whether something of this probability happens now."""
        return chance > 0 and self.random.random() < chance

    def delay(self) -> float:
        """Return the seconds that the next bytes take."""
        conduct = self.conduct
        return self.random.uniform(*(conduct.slow_delay if self.happens(conduct.slow) else conduct.delay))

    def pieces(self, data: bytes) -> list[bytes]:
        """Return bytes in the pieces in which they arrive."""
        if len(data) < 2 or not self.happens(self.conduct.split):
            return [data]
        cuts = sorted({self.random.randrange(1, len(data)) for _ in range(self.random.randint(1, 3))})
        return [data[start:end] for start, end in itertools.pairwise([0, *cuts, len(data)])]


def _nothing() -> None:
    """Change nothing."""
