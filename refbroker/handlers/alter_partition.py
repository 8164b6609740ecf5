"""AlterPartition (56), versions 2 and 3: accepts or refuses the in-sync sets that leaders propose (KIP-497).

Elsewhere: the checks and their errors (`refbroker.controller.isr`).

Permissions: CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from kclient.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from refbroker.controller.broker_requests import alter_partition
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import BrokerControlServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import CLUSTER_ACTION


def handle(context: Context[BrokerControlServices], request: AlterPartitionRequest) -> AlterPartitionResponse | Change:
    """Carry out an AlterPartition request."""
    refusal = context.access.refusal(CLUSTER_ACTION)
    if refusal is not None:
        return AlterPartitionResponse(error_code=code_of(refusal))
    return alter_partition(context.broker.controller, request, context.version)
