"""UnregisterBroker (64), version 0: removes a broker that will not come back from the cluster (KIP-631).

The replicas on it stay assigned to it until they are reassigned. If the broker is alive, its heartbeats fail from now
on with STALE_BROKER_EPOCH.

Permissions: ALTER on the cluster.
"""

from __future__ import annotations

from kclient.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from refbroker.controller.broker_requests import unregister_broker
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import BrokerControlServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import ALTER_CLUSTER


def handle(
    context: Context[BrokerControlServices], request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse | Change:
    """Carry out an UnregisterBroker request."""
    refusal = context.access.refusal(ALTER_CLUSTER)
    if refusal is not None:
        return UnregisterBrokerResponse(error_code=code_of(refusal), error_message=refusal.message)
    return unregister_broker(context.broker.controller, request)
