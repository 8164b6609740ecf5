"""A broker's listener on the simulated network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

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

    async def start(self, make_protocol: Callable[[], asyncio.BaseProtocol], backlog: int) -> None:
        """See Listener."""

        def accept(endpoint: Endpoint) -> None:
            StreamTransport(self._loop, endpoint, make_protocol())

        self._network.listen(self._host, self.port, accept)

    async def stop_accepting(self) -> None:
        """See Listener."""
        self.close()
        await asyncio.sleep(0)

    def close(self) -> None:
        """See Listener."""
        self._network.release(self._host, self.port)
