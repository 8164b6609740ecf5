"""Other nodes that answer by a script, for the parts of a broker that connect to them; and a loop without real time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from kclient.protocol import Message, request_type
from kclient.protocol.frames import decode_request_header, encode_response
from kclient.protocol.headers import RequestHeader
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from refbroker.peers.network import Peer
from refbroker.testing.simulation.loop import SimulatedLoop
from refbroker.testing.simulation.network import Network
from refbroker.testing.simulation.scheduler import Simulation

T = TypeVar("T")


class Hangup(Exception):
    """Raised by a script to close the connection instead of answering."""


class Later(NamedTuple):
    """A response that takes some seconds."""

    seconds: float
    response: Message


Script = Callable[[Peer, Any, int], Message | bytes | Later | None]
"""Returns the response to a request of a version, raw bytes instead, or None for no response."""


def simulated(main: Coroutine[Any, Any, T], seed: int = 1) -> T:
    """Run a coroutine on a loop whose time passes only while nothing can run."""
    simulation = Simulation(seed)
    loop = SimulatedLoop(simulation, Network(simulation), "test")
    simulation.add(loop)
    task = loop.create_task(main)
    try:
        simulation.run_until(task.done)
        return task.result()
    finally:
        for left in asyncio.all_tasks(loop):
            left.cancel()
        simulation.run_until(lambda: not asyncio.all_tasks(loop))
        simulation.remove(loop)
        loop.close()


class ScriptedPeers:
    """Nodes that a script plays; a `refbroker.peers.network.Connector`.

    ApiVersions is answered with `versions`; without them, the script answers it.

    Attributes:
        asked: the requests so far, with the node of each.
        connections: how often a connection was made.
        unreachable: the ports at which no node listens.
        silent: the ports that accept no connection and refuse none.
    """

    def __init__(self, script: Script, versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.script = script
        self.versions = versions
        self.asked: list[tuple[Peer, Message]] = []
        self.connections = 0
        self.unreachable: set[int] = set()
        self.silent: set[int] = set()
        self.open: list[_ScriptedTransport] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def connect(self, peer: Peer, protocol: asyncio.Protocol) -> None:
        """See Connector."""
        if peer.port in self.silent:
            await asyncio.get_running_loop().create_future()
        if peer.port in self.unreachable:
            raise ConnectionRefusedError(111, "Connection refused")
        self.connections += 1
        transport = _ScriptedTransport(self, peer, protocol)
        self.open.append(transport)
        protocol.connection_made(transport)

    async def have_been_asked(self, count: int) -> None:
        """Wait until this many requests have arrived."""
        if len(self.asked) < count:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((count, waiter))
            await waiter

    def answer(self, peer: Peer, request: Message, version: int) -> Message | bytes | Later | None:
        if isinstance(request, ApiVersionsRequest) and self.versions is not None:
            keys = [
                ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.versions.items()
            ]
            return ApiVersionsResponse(api_keys=keys)
        self.asked.append((peer, request))
        for count, waiter in self._waiting:
            if len(self.asked) >= count and not waiter.done():
                waiter.set_result(None)
        return self.script(peer, request, version)


class _ScriptedTransport(asyncio.Transport):
    """This node's end of a connection to a scripted node."""

    def __init__(self, peers: ScriptedPeers, peer: Peer, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._peers = peers
        self._peer = peer
        self._protocol = protocol
        self._unread = bytearray()
        self._loop = asyncio.get_running_loop()
        self.is_closed = False

    def write(self, data: Any) -> None:
        self._unread += data
        while len(self._unread) >= 4:
            end = 4 + int.from_bytes(self._unread[:4], "big")
            if len(self._unread) < end:
                return
            frame = bytes(self._unread[4:end])
            del self._unread[:end]
            self._loop.call_soon(self._answer, frame)

    def _answer(self, frame: bytes) -> None:
        if self.is_closed:
            return
        header, body = decode_request_header(frame)
        version = header.request_api_version
        request, _ = request_type(header.request_api_key).decode_prefix(body, version)
        try:
            answer = self._peers.answer(self._peer, request, version)
        except Hangup:
            self.lose()
            return
        if isinstance(answer, Later):
            self._loop.call_later(answer.seconds, self._respond, answer.response, header)
        elif isinstance(answer, Message):
            self._respond(answer, header)
        elif answer is not None:
            self._protocol.data_received(answer)

    def _respond(self, answer: Message, header: RequestHeader) -> None:
        if not self.is_closed:
            parts = encode_response(answer, header.request_api_version, header.correlation_id)
            self._protocol.data_received(b"".join(parts))

    def lose(self) -> None:
        """End the connection as the node does."""
        if not self.is_closed:
            self.is_closed = True
            self._protocol.connection_lost(None)

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    close = abort

    def is_closing(self) -> bool:
        return self.is_closed
