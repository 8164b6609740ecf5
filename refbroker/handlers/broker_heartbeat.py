"""BrokerHeartbeat (63), versions 0 to 2: keeps a broker alive, and fences, unfences or shuts it down (KIP-631).

Elsewhere: what follows from a heartbeat (`refbroker.controller.heartbeats`), and from one that does not come.

Permissions: CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from refbroker.controller.broker_requests import heartbeat
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import BrokerControlServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import CLUSTER_ACTION


def handle(
    context: Context[BrokerControlServices], request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse | Change:
    """Carry out a BrokerHeartbeat request."""
    refusal = context.access.refusal(CLUSTER_ACTION)
    if refusal is not None:
        return BrokerHeartbeatResponse(error_code=code_of(refusal))
    return heartbeat(context.broker.controller, request)
