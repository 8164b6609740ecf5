"""InitProducerId (22), versions 0 to 5: ids for idempotent producers.

Each call without a transactional id gives a new id at epoch 0 (a producer that asks with its old id, to
go on after an error as KIP-360 has it, gets a new one too, as in Kafka). With a transactional id the
answer is COORDINATOR_NOT_AVAILABLE: this broker has no transaction coordinator. An empty one is
INVALID_REQUEST.
"""

from __future__ import annotations

from kclient.errors import CoordinatorNotAvailableError, InvalidRequestError
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from refbroker.dispatch import Context


def handle(context: Context, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Carry out an InitProducerId request."""
    if request.transactional_id is not None:
        kind = CoordinatorNotAvailableError if request.transactional_id else InvalidRequestError
        return InitProducerIdResponse(error_code=kind.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=context.broker.producer_ids.next(), producer_epoch=0)
