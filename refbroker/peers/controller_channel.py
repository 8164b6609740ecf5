"""Requests to the active controller, wherever it is: finds it, and repeats a request until it answers.

A controller that is not the active one says NOT_CONTROLLER; then, and after a lost connection, the request is repeated
until its deadline. As in Kafka, a controller may therefore carry out a request twice, and report the second time that
the change was made before. Elsewhere: what is known of the quorum (`quorum`), one connection (`channel`). Source:
Kafka's NodeToControllerRequestThread.
"""

from __future__ import annotations

import asyncio
import logging
import random
from functools import cache
from typing import Any, NamedTuple

from kclient.errors import (
    BrokerConnectionError,
    DisconnectedError,
    KafkaError,
    NotControllerError,
    ProtocolError,
    RequestTimedOutError,
)
from kclient.protocol import Message
from refbroker.metrics.requests import ErrorFinder, error_finder
from refbroker.peers.channel import Channel, ChannelSettings
from refbroker.peers.network import Connector, Peer
from refbroker.peers.quorum import ControllerQuorum
from refbroker.peers.security import PeerSecurity

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.05
"""The pause before the next controller is asked, unless a leader becomes known before."""
FORWARDING_SECONDS = 60.0
"""How long a forwarded request is repeated, as in Kafka."""
_LEAST_SECONDS = 0.001
"""Less time than this is not worth another attempt."""
_RETRIED = (BrokerConnectionError, DisconnectedError, RequestTimedOutError, ProtocolError)
_find_errors = cache(error_finder)


class PeerNetwork(NamedTuple):
    """What channels to other nodes are made of.

    Attributes:
        security: how to connect.
        connector: the network.
        settings: how channels behave.
        rng: chooses the moments at which connecting is repeated.
    """

    security: PeerSecurity
    connector: Connector
    settings: ChannelSettings
    rng: random.Random

    def channel(self, peer: Peer) -> Channel:
        """Return a new channel to a node."""
        return Channel(peer, self.security, self.connector, self.settings, self.rng)


class ControllerChannel:
    """Requests of one kind to the active controller; a `ControllerClient`.

    Each kind has connections of its own, as in Kafka, so that a heartbeat never waits behind a slow request.

    Parameters:
        quorum: the controllers as this node knows them.
        network: what channels are made of.
        deadline: seconds for which a request is repeated.
        what: the kind of requests, for the log.
    """

    def __init__(self, quorum: ControllerQuorum, network: PeerNetwork, deadline: float, what: str) -> None:
        self._quorum = quorum
        self._network = network
        self._deadline = deadline
        self._what = what
        self._channels: dict[tuple[str, int], Channel] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._problems: dict[Peer, type[KafkaError]] = {}

    def ask(self, request: Message) -> asyncio.Future[Any]:
        """Send a request to the active controller; return a future of the response.

        The future fails with RequestTimedOutError when the deadline has passed, and with the errors of a login or an
        unsupported version at once.
        """
        task = asyncio.get_running_loop().create_task(self._carry_out(request), name=f"{self._what} to the controller")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Cancel the requests, and close the connections."""
        for task in list(self._tasks):
            task.cancel()
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    async def _carry_out(self, request: Message) -> Any:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._deadline
        find_errors = _find_errors(type(request).response_type)
        last: KafkaError = NotControllerError("no controller is known to be active")
        while (left := ends - loop.time()) > _LEAST_SECONDS:
            peer = self._quorum.next()
            try:
                channel = self._channel_to(peer)
                response = await channel.ask(request, timeout=min(left, self._network.settings.request_timeout))
            except _RETRIED as error:
                if isinstance(error, ProtocolError) and error.broker is None:
                    # The request cannot be encoded, whichever controller it is for.
                    raise
                # An attempt that the deadline cut short says less than the one before.
                if not isinstance(error, RequestTimedOutError) or isinstance(last, NotControllerError):
                    last = error
            else:
                if not _says_not_controller(response, find_errors):
                    self._problems.pop(peer, None)
                    return response
                last = NotControllerError(broker=channel.name)
            self._note(peer, last)
            self._quorum.forget(peer)
            await self._pause(min(RETRY_SECONDS, ends - loop.time()))
        name = request.message_name.removesuffix("Request")
        raise RequestTimedOutError(
            f"the active controller did not answer within {self._deadline:g} s; the last attempt: {last.message}",
            broker=last.broker,
            api=name,
        )

    def _channel_to(self, peer: Peer) -> Channel:
        key = peer.host, peer.port
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = self._network.channel(peer)
        return channel

    def _note(self, peer: Peer, problem: KafkaError) -> None:
        """Log a problem with a controller, unless it is the previous one again."""
        if self._problems.get(peer) is not type(problem):
            self._problems[peer] = type(problem)
            logger.info("%s: looking for the active controller: %s", self._what, problem)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0 and self._quorum.leader is None:
            await asyncio.wait([self._quorum.changed()], timeout=seconds)


def _says_not_controller(response: Message, find_errors: ErrorFinder | None) -> bool:
    if find_errors is None:
        return False
    errors: dict[int, int] = {}
    find_errors(response, errors)
    return NotControllerError.code in errors
