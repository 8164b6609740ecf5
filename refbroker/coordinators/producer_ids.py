"""Gives producers their ids, from blocks that the controller assigns to this broker (KIP-730).

The next block is requested when a tenth of the current one is left. The rest of a block is lost at a restart; an id is
never given twice. Source: Kafka's RPCProducerIdManager.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from kclient.errors import CoordinatorLoadInProgressError, KafkaError, raise_for_code
from kclient.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from refbroker.metadata.image import ClusterImage
from refbroker.peers.controller_client import ControllerClient, when_done

logger = logging.getLogger(__name__)

PREFETCH = 0.9
"""The part of a block after which the next one is requested."""


class ProducerIds:
    """The producer ids of this broker.

    Parameters:
        controller: assigns blocks.
        image: the state of the cluster.
        node_id: the id of this broker.
    """

    def __init__(self, controller: ControllerClient, image: ClusterImage, node_id: int) -> None:
        self._controller = controller
        self._image = image
        self._node_id = node_id
        self._current = iter(range(0))
        self._following: range | None = None
        self._prefetch_at = -1
        self._is_requested = False

    def next(self) -> int:
        """Return an unused producer id.

        Raises:
            CoordinatorLoadInProgressError: the controller has not assigned the next block yet.
        """
        given = next(self._current, None)
        if given is None:
            self._request()
            given = self._begin_block()
        if given == self._prefetch_at:
            self._request()
        return given

    def _begin_block(self) -> int:
        """Take the following block, and return its first id."""
        block, self._following = self._following, None
        if block is None:
            raise CoordinatorLoadInProgressError("the controller has not assigned the next block of producer ids yet")
        self._current = iter(block)
        self._prefetch_at = block.start + int(len(block) * PREFETCH)
        return next(self._current)

    def _request(self) -> None:
        registered = self._image.brokers.get(self._node_id)
        if self._is_requested or self._following is not None or registered is None:
            return
        self._is_requested = True
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=registered.broker_epoch)
        when_done(self._controller.ask(request), self._receive)

    def _receive(self, answer: asyncio.Future[Any]) -> None:
        self._is_requested = False
        try:
            response = answer.result()
            raise_for_code(response.error_code)
        except KafkaError as error:
            logger.error("the controller did not assign a block of producer ids: %s", error)
            return
        first = response.producer_id_start
        self._following = range(first, first + response.producer_id_len)
