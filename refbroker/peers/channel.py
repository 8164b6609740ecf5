"""The channel to another node: connects when it is used, logs in, and asks with a timeout.

After a failure to connect, the next attempt waits, longer each time. A session that the other node limits (KIP-368) is
renewed by a new connection while no request is in flight. Timeouts and waits use the time of the event loop.

Elsewhere: the bytes of a connection (`connection`), which node is asked (`controller_channel`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from kclient.errors import (
    BrokerConnectionError,
    DisconnectedError,
    KafkaError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from refbroker.peers.connection import PeerConnection
from refbroker.peers.login import log_in
from refbroker.peers.network import Connector, Peer
from refbroker.peers.security import PeerSecurity

LARGEST_RESPONSE = 104_857_600
"""Bytes; Kafka's default of `socket.request.max.bytes`."""
_WINDOW = (0.85, 0.95)
"""The part of a session's lifetime after which to log in again, as in the Java client."""


class ChannelSettings(NamedTuple):
    """How channels behave.

    Attributes:
        client_id: the client id in the headers of requests.
        request_timeout: seconds that a response may take, and connecting with the login.
        backoff, max_backoff: seconds before connecting again, after the first failure and at most.
        finds_versions: whether ApiVersions is the first request even without SASL. Kafka asks controllers, but not the
            brokers that it replicates from.
        largest_response: bytes.
    """

    client_id: str
    request_timeout: float = 30.0
    backoff: float = 0.05
    max_backoff: float = 1.0
    finds_versions: bool = True
    largest_response: int = LARGEST_RESPONSE


class Channel:
    """A channel to one node.

    Parameters:
        peer: the node.
        security: how to connect to it.
        connector: the network.
        settings: how the channel behaves.
        rng: chooses the moments at which connecting is repeated and sessions are renewed.
    """

    def __init__(
        self, peer: Peer, security: PeerSecurity, connector: Connector, settings: ChannelSettings, rng: random.Random
    ) -> None:
        self.peer = peer
        self._security = security
        self._connector = connector
        self._settings = settings
        self._rng = rng
        self._connection: PeerConnection | None = None
        self._connecting: asyncio.Task[PeerConnection] | None = None
        self._versions: Mapping[int, tuple[int, int]] | None = None
        self._failures = 0
        self._connect_at = 0.0
        self._renew_at: float | None = None
        self._is_closed = False

    @property
    def name(self) -> str:
        """The node and the way to it, for errors."""
        return f"{self.peer} ({self._security.description})"

    async def ask(self, request: Message, *, timeout: float | None = None, version: int | None = None) -> Any:
        """Send a request, and return the response.

        Parameters:
            timeout: seconds; by default those of the settings. After it, the connection is closed.
            version: of the request; by default the latest that both nodes have.

        Raises:
            BrokerConnectionError, DisconnectedError: the node cannot be reached, or the connection was lost.
            RequestTimedOutError: there was no response in time; the node may have carried the request out.
            UnsupportedVersionError: the node has no version of the request that this one has.
            SaslAuthenticationError, UnsupportedSaslMechanismError, SslAuthenticationError: the node refuses this one,
                or cannot be trusted.
            ProtocolError: the response is malformed.
        """
        limit = self._settings.request_timeout if timeout is None else timeout
        connection: PeerConnection | None = None
        try:
            async with asyncio.timeout(limit):
                connection = await self._connected()
                return await self._send(connection, request, version)
        except TimeoutError:
            error = RequestTimedOutError(
                f"no response to {_api(request)} within {limit:g} s", broker=self.name, api=_api(request)
            )
            if connection is not None:
                connection.close(DisconnectedError("a request before timed out", broker=self.name))
            raise error from None

    def version_of(self, request: type[Message]) -> int:
        """Return the latest version of a request that both nodes have.

        Raises:
            UnsupportedVersionError: the two nodes have no version in common.
        """
        if self._versions is None:
            return request.max_version
        name = request.message_name.removesuffix("Request")
        low, high = self._versions.get(request.api_key, (0, -1))
        version = min(high, request.max_version)
        if version < max(low, request.min_version):
            theirs = f"versions {low} to {high}" if high >= low else "no version"
            raise UnsupportedVersionError(
                f"the node accepts {theirs} of {name}, this one would use {request.min_version} to "
                f"{request.max_version}",
                broker=self.name,
                api=name,
            )
        return version

    def close(self) -> None:
        """Close the connection; requests without a response fail, and so do later ones."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()

    def disconnect(self) -> None:
        """Close the connection, if there is one; the next request connects again."""
        if self._connection is not None:
            self._connection.close()

    async def _send(self, connection: PeerConnection, request: Message, version: int | None) -> Message:
        chosen = self.version_of(type(request)) if version is None else version
        return await connection.ask(request, chosen)

    async def _connected(self) -> PeerConnection:
        """Return an open connection; one attempt serves all requests that wait for it."""
        if self._is_closed:
            raise DisconnectedError("this node is closing its connections", broker=self.name)
        connection = self._connection
        if connection is not None and not connection.in_flight and self._session_ends():
            connection.close()
            connection = None
        if connection is not None and connection.is_open:
            return connection
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.create_task(self._connect(), name=f"connect to {self.peer}")
            self._connecting.add_done_callback(_retrieve)
        # A request that times out must not cancel the attempt that others wait for.
        try:
            return await asyncio.shield(self._connecting)
        except asyncio.CancelledError:
            if self._is_closed:
                raise DisconnectedError("this node is closing its connections", broker=self.name) from None
            raise

    def _session_ends(self) -> bool:
        return self._renew_at is not None and asyncio.get_running_loop().time() >= self._renew_at

    async def _connect(self) -> PeerConnection:
        loop = asyncio.get_running_loop()
        if (wait := self._connect_at - loop.time()) > 0:
            await asyncio.sleep(wait)
        settings, security = self._settings, self._security
        tls = None if security.tls is None else (security.tls.current(), self.peer.host.rstrip("."))
        connection = PeerConnection(self.name, settings.client_id, settings.largest_response, tls, self._lost)
        try:
            async with asyncio.timeout(settings.request_timeout):
                try:
                    await self._connector.connect(self.peer, connection)
                except OSError as error:
                    raise self._unreachable(error.strerror or error) from error
                await connection.ready
                await self._begin(connection)
        except BaseException as raised:
            self._failures += 1
            longest = min(settings.backoff * 2.0 ** (self._failures - 1), settings.max_backoff)
            self._connect_at = loop.time() + longest * self._rng.uniform(0.8, 1.2)
            if isinstance(raised, TimeoutError):
                late = self._unreachable(f"no connection within {settings.request_timeout:g} s")
                connection.close(late)
                raise late from None
            connection.close(raised if isinstance(raised, KafkaError) else None)
            raise
        self._failures = 0
        self._connection = connection
        return connection

    async def _begin(self, connection: PeerConnection) -> None:
        """Find the versions of the node, and log in."""
        self._versions, self._renew_at = None, None
        login = self._security.login
        if self._settings.finds_versions or login is not None:
            # Version 0 is what every node understands.
            found: Any = await connection.ask(ApiVersionsRequest(), 0)
            if found.error_code:
                raise UnsupportedVersionError(f"ApiVersions failed with error {found.error_code}", broker=self.name)
            self._versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in found.api_keys}
        if login is not None:
            lifetime_ms = await log_in(
                lambda request: self._send(connection, request, None), login, self.peer.host, self.name
            )
            if lifetime_ms > 0:
                share = self._rng.uniform(*_WINDOW)
                self._renew_at = asyncio.get_running_loop().time() + lifetime_ms / 1000 * share

    def _unreachable(self, reason: object) -> BrokerConnectionError:
        return BrokerConnectionError(
            self.peer.host,
            self.peer.port,
            reason,
            advice="check that the node runs, and that this one can reach its listener",
            broker=self.name,
        )

    def _lost(self, connection: PeerConnection) -> None:
        if self._connection is connection:
            self._connection = None


def _retrieve(task: asyncio.Task[PeerConnection]) -> None:
    # The requests that waited for the connection may have timed out before it failed.
    if not task.cancelled():
        task.exception()


def _api(request: Message) -> str:
    return request.message_name.removesuffix("Request")
