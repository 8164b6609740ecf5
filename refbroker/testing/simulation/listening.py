"""A broker's listener on the simulated network."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from refbroker.server.listening import Accepted
from refbroker.testing.simulation.network import Endpoint, Network
from refbroker.testing.simulation.streams import StreamTransport


class SimulatedListeners:
    """The simulated network as brokers see it; a `refbroker.server.listening.ListenerFactory`.

    Parameters:
        network: where the ports are.
    """

    def __init__(self, network: Network) -> None:
        self._network = network

    def bind(self, host: str, port: int, settings: Mapping[str, str]) -> SimulatedListener:
        """Take a port; the settings of sockets do not apply."""
        host = host or "127.0.0.1"
        return SimulatedListener(self._network, host, self._network.bind(host, port))


class SimulatedListener:
    """A port of the simulated network; a `refbroker.server.listening.Listener` of the running event loop."""

    def __init__(self, network: Network, host: str, port: int) -> None:
        self.port = port
        self._host = host
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._accept: Callable[[Accepted], None] = Accepted.close
        self._queue: deque[Endpoint] = deque()
        self._is_accepting = False

    def start(self, accept: Callable[[Accepted], None], backlog: int) -> None:
        """See Listener; the queue has no limit."""
        self._accept = accept
        self._network.listen(self._host, self.port, self._arrived)
        self.resume()

    def pause(self) -> None:
        """See Listener."""
        self._is_accepting = False

    def resume(self) -> None:
        """See Listener."""
        self._is_accepting = True
        self._loop.call_soon(self._accept_some)

    def _arrived(self, endpoint: Endpoint) -> None:
        self._queue.append(endpoint)
        self._loop.call_soon(self._accept_some)

    def _accept_some(self) -> None:
        while self._is_accepting and self._queue:
            self._accept(_AcceptedEndpoint(self._loop, self._queue.popleft()))

    async def stop_accepting(self) -> None:
        """See Listener."""
        self.close()
        await asyncio.sleep(0)

    def close(self) -> None:
        """See Listener."""
        self._is_accepting = False
        self._network.release(self._host, self.port)
        while self._queue:
            self._queue.popleft().abort()


class _AcceptedEndpoint:
    """A `refbroker.server.listening.Accepted` of the simulated network. Descriptor 0 is never close to the limit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, endpoint: Endpoint) -> None:
        host, port = endpoint.peer
        self.peer = f"{host}:{port}"
        self.descriptor = 0
        self._loop = loop
        self._endpoint = endpoint

    def serve(self, protocol: asyncio.BaseProtocol) -> None:
        """See Accepted."""
        StreamTransport(self._loop, self._endpoint, protocol)

    def close(self) -> None:
        """See Accepted."""
        self._endpoint.close()
