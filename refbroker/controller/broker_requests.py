"""The requests that brokers send to the active controller, as changes of the metadata with their responses.

A request that is refused is a change without records, whose response has the error. Handlers call these functions for
requests of other nodes, and `direct` for those of the same node. Elsewhere: what is decided (`brokers`, `heartbeats`,
`isr`, `directory_assignments`), AllocateProducerIds (`producer_ids`), who may send such requests (the handlers).
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kclient.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kclient.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from refbroker.controller import brokers
from refbroker.controller.active import ActiveController
from refbroker.controller.change import Change
from refbroker.controller.directory_assignments import plan_assignment
from refbroker.controller.heartbeats import plan_heartbeat
from refbroker.controller.isr import plan_alter_partition
from refbroker.runtime.error_codes import code_of


def register_broker(
    controller: ActiveController,
    request: BrokerRegistrationRequest,
    version: int = BrokerRegistrationRequest.max_version,
) -> Change:
    """Return the change that a BrokerRegistration request makes.

    Parameters:
        version: of the request.
    """
    try:
        records, epoch = brokers.plan_registration(
            controller.cluster,
            controller.liveness,
            request,
            version=version,
            cluster_id=controller.cluster_id,
            kraft_version=controller.voters.kraft_version,
            broker_epoch=controller.end_offset,
            now_ms=controller.now_ms,
        )
    except KafkaError as error:
        code = code_of(error)
        return Change([], lambda: BrokerRegistrationResponse(error_code=code))
    return Change(records, lambda: BrokerRegistrationResponse(broker_epoch=epoch))


def heartbeat(controller: ActiveController, request: BrokerHeartbeatRequest) -> Change:
    """Return the change that a BrokerHeartbeat request makes."""
    try:
        plan = plan_heartbeat(controller.cluster, controller.liveness, request, controller.now_ms)
    except KafkaError as error:
        code = code_of(error)
        return Change([], lambda: BrokerHeartbeatResponse(error_code=code))

    def respond() -> BrokerHeartbeatResponse:
        plan.settle(controller.end_offset - 1)
        return plan.response

    return Change(plan.records, respond)


def alter_partition(
    controller: ActiveController, request: AlterPartitionRequest, version: int = AlterPartitionRequest.max_version
) -> Change:
    """Return the change that an AlterPartition request makes.

    Parameters:
        version: of the request.
    """
    try:
        plan = plan_alter_partition(controller.cluster, request, version)
    except KafkaError as error:
        code = code_of(error)
        return Change([], lambda: AlterPartitionResponse(error_code=code))
    return Change(plan.records, lambda: plan.response)


def assign_replicas_to_dirs(controller: ActiveController, request: AssignReplicasToDirsRequest) -> Change:
    """Return the change that an AssignReplicasToDirs request makes."""
    try:
        plan = plan_assignment(controller.cluster, request)
    except KafkaError as error:
        code = code_of(error)
        return Change([], lambda: AssignReplicasToDirsResponse(error_code=code))
    return Change(plan.records, lambda: plan.response)


def unregister_broker(controller: ActiveController, request: UnregisterBrokerRequest) -> Change:
    """Return the change that an UnregisterBroker request makes."""
    try:
        records = brokers.unregister(controller.cluster, request.broker_id)
    except KafkaError as error:
        refused = UnregisterBrokerResponse(error_code=code_of(error), error_message=error.message)
        return Change([], lambda: refused)
    return Change(records, UnregisterBrokerResponse)
