"""AssignReplicasToDirs (73), version 0: records in which data directories the replicas of a broker are (KIP-858).

Elsewhere: the checks and their errors (`refbroker.controller.directory_assignments`).

Permissions: CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from kclient.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from refbroker.controller.broker_requests import assign_replicas_to_dirs
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import BrokerControlServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import CLUSTER_ACTION


def handle(
    context: Context[BrokerControlServices], request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse | Change:
    """Carry out an AssignReplicasToDirs request."""
    refusal = context.access.refusal(CLUSTER_ACTION)
    if refusal is not None:
        return AssignReplicasToDirsResponse(error_code=code_of(refusal))
    return assign_replicas_to_dirs(context.broker.controller, request)
