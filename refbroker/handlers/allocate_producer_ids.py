"""AllocateProducerIds (67), version 0: gives a broker a block of producer ids (KIP-730).

Permissions: CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from kclient.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from refbroker.controller.change import Change
from refbroker.controller.producer_ids import allocate_producer_ids
from refbroker.handlers.context import Context
from refbroker.handlers.services import BrokerControlServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import CLUSTER_ACTION


def handle(
    context: Context[BrokerControlServices], request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse | Change:
    """Carry out an AllocateProducerIds request."""
    refusal = context.access.refusal(CLUSTER_ACTION)
    if refusal is not None:
        return AllocateProducerIdsResponse(error_code=code_of(refusal))
    return allocate_producer_ids(context.broker.controller, request)
