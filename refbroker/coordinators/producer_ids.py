"""Assigns producer ids, from blocks that are recorded in the metadata log before their ids are used.

The rest of a block is lost at a restart; an id is never assigned twice.
"""

from __future__ import annotations

from kclient.protocol.messages.records.metadata_log import ProducerIdsRecord
from refbroker.controller.active import ActiveController

BLOCK_SIZE = 1000


class ProducerIds:
    """The producer ids of this broker.

    Parameters:
        controller: records blocks.
        node_id: the id of this broker.
    """

    def __init__(self, controller: ActiveController, node_id: int) -> None:
        self._controller = controller
        self._node_id = node_id
        self._next = 0
        self._end = 0

    def next(self) -> int:
        """Return an unused producer id.

        Raises:
            KafkaStorageError: a new block could not be recorded.
        """
        if self._next == self._end:
            image = self._controller.image
            first = image.next_producer_id
            record = ProducerIdsRecord(
                broker_id=self._node_id,
                broker_epoch=image.brokers[self._node_id].broker_epoch,
                next_producer_id=first + BLOCK_SIZE,
            )
            self._controller.append([record])
            self._next, self._end = first, first + BLOCK_SIZE
        given = self._next
        self._next += 1
        return given
