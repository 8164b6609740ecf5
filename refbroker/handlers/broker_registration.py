"""BrokerRegistration (62), versions 0 to 4: registers a broker with the controller, at each start (KIP-631).

A broker that registers again in the same incarnation amends its registration and keeps its epoch. The checks and their
order are in `refbroker.controller.brokers`.

Permissions: CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from refbroker.controller.broker_requests import register_broker
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import BrokerControlServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import CLUSTER_ACTION


def handle(
    context: Context[BrokerControlServices], request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse | Change:
    """Carry out a BrokerRegistration request."""
    refusal = context.access.refusal(CLUSTER_ACTION)
    if refusal is not None:
        return BrokerRegistrationResponse(error_code=code_of(refusal))
    return register_broker(context.broker.controller, request, context.version)
