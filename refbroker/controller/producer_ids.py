"""AllocateProducerIds: the next block of producer ids for a broker (KIP-730).

A block is in the metadata log before an id of it is used. Source: Kafka's ProducerIdControlManager. Elsewhere: how a
broker gives the ids of its block to producers.
"""

from __future__ import annotations

from kclient.errors import BrokerError, StaleBrokerEpochError, UnknownServerError
from kclient.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kclient.protocol.messages.records.metadata_log import ProducerIdsRecord
from refbroker.controller.change import Change
from refbroker.controller.controller import Controller

BLOCK_SIZE = 1000
_LAST_ID = 2**63 - 1


def allocate_producer_ids(controller: Controller, request: AllocateProducerIdsRequest) -> Change:
    """Return the change that an AllocateProducerIds request makes."""
    image = controller.image
    broker, first = image.brokers.get(request.broker_id), image.next_producer_id
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return _refuse(StaleBrokerEpochError)
    if first > _LAST_ID - BLOCK_SIZE:
        return _refuse(UnknownServerError)
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return Change([record], lambda: response)


def _refuse(error: type[BrokerError]) -> Change:
    response = AllocateProducerIdsResponse(error_code=error.code)
    return Change([], lambda: response)
