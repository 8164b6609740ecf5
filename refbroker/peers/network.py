"""The network as this node connects through it: sockets, or the simulated network of tests.

Both are the event loop's own: a simulated loop connects through its simulated network. A test provides another
`Connector` to cut a node off from some of the others. Elsewhere: listening (`refbroker.server.listening`, with the
simulated `refbroker.testing.simulation.listening`), and what a connection carries (`channel`).
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol


class Peer(NamedTuple):
    """Another node, or an address at which one is expected.

    Attributes:
        node_id: the node's id; -1 while only the address is known.
        host, port: where it listens.
    """

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        known = f"node {self.node_id}" if self.node_id >= 0 else "the node"
        return f"{known} at {host}:{self.port}"


class Connector(Protocol):
    """Connects to other nodes."""

    async def connect(self, peer: Peer, protocol: asyncio.Protocol) -> None:
        """Connect a protocol to a node.

        Raises:
            OSError: the node cannot be reached.
        """


class LoopConnector:
    """Connects through the running event loop."""

    async def connect(self, peer: Peer, protocol: asyncio.Protocol) -> None:
        """See Connector."""
        await asyncio.get_running_loop().create_connection(lambda: protocol, peer.host, peer.port)
