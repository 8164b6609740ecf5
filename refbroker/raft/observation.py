"""The task that observes the metadata log: sends what the observer asks for, and gives it the responses.

One request is in flight at a time. Timeouts and pauses use the time of the event loop. Elsewhere: what to ask, and what
a response means (`observer`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from kclient.errors import KafkaError, KafkaStorageError
from refbroker.peers.channel import Channel
from refbroker.peers.controller_channel import PeerNetwork
from refbroker.peers.network import Peer
from refbroker.raft.observer import Observer

logger = logging.getLogger(__name__)


class Observation:
    """Keeps the local metadata log up to date.

    Parameters:
        observer: decides what is asked.
        network: what channels to controllers are made of.
        on_fatal: called if the disk of the metadata log has failed.
    """

    def __init__(self, observer: Observer, network: PeerNetwork, on_fatal: Callable[[KafkaStorageError], None]) -> None:
        self._observer = observer
        self._network = network
        self._on_fatal = on_fatal
        self._channel: Channel | None = None
        self._task: asyncio.Task[None] | None = None
        self._problems: dict[Peer, type[KafkaError]] = {}

    def start(self) -> None:
        """Begin to fetch."""
        self._task = asyncio.create_task(self._run(), name="refbroker metadata observer")

    async def stop(self) -> None:
        """Stop fetching, and close the connection."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    async def _run(self) -> None:
        while True:
            peer, request = self._observer.request()
            try:
                response = await self._channel_to(peer).ask(request)
            except KafkaError as error:
                self._note(peer, error)
                pause_ms = self._observer.on_failure(peer)
            else:
                self._problems.pop(peer, None)
                try:
                    pause_ms = self._observer.on_response(peer, response)
                except KafkaStorageError as error:
                    self._on_fatal(error)
                    return
            if pause_ms:
                await asyncio.sleep(pause_ms / 1000)

    def _channel_to(self, peer: Peer) -> Channel:
        if self._channel is None or self._channel.peer != peer:
            if self._channel is not None:
                self._channel.close()
            self._channel = self._network.channel(peer)
        return self._channel

    def _note(self, peer: Peer, problem: KafkaError) -> None:
        """Log why no metadata arrives, unless it is the previous reason again."""
        if self._problems.get(peer) is not type(problem):
            self._problems[peer] = type(problem)
            logger.warning("no metadata from the controller %s: %s", peer, problem)
