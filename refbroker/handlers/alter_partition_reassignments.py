"""AlterPartitionReassignments (45), versions 0 and 1: reassigns partitions to brokers, or cancels that (KIP-455).

Each partition has its own result. The response is sent when the reassignment has begun; it is complete when the new
replicas are in sync. Version 1 can keep the number of replicas (KIP-860). Elsewhere: the stages and the checks
(`refbroker.controller.reassignments`).

Permissions: ALTER on the cluster.
"""

from __future__ import annotations

from kclient.errors import KafkaError, NoReassignmentInProgressError
from kclient.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.controller.change import Change
from refbroker.controller.reassignments import plan_cancellation, plan_reassignment
from refbroker.handlers.context import Context
from refbroker.handlers.services import ControllerServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import ALTER_CLUSTER

Wanted = AlterPartitionReassignmentsRequest.ReassignablePartition
Result = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
Partition = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse


def handle(
    context: Context[ControllerServices], request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse | Change:
    """Carry out an AlterPartitionReassignments request."""
    refusal = context.access.refusal(ALTER_CLUSTER)
    if refusal is not None:
        return _refused(request, refusal)
    if not request.topics:
        return AlterPartitionReassignmentsResponse()
    may_change_count = request.allow_replication_factor_change
    records: list[PartitionChangeRecord] = []
    response = AlterPartitionReassignmentsResponse(allow_replication_factor_change=may_change_count, error_message=None)
    for topic in request.topics:
        result = Result(name=topic.name)
        response.responses.append(result)
        for wanted in topic.partitions:
            answer = Partition(partition_index=wanted.partition_index, error_message=None)
            try:
                record = _plan(context, topic.name, wanted, may_change_count=may_change_count)
            except NoReassignmentInProgressError as error:
                # Kafka sends no message with this error.
                answer.error_code = error.code
            except KafkaError as error:
                answer.error_code, answer.error_message = code_of(error), error.message
            else:
                records += [] if record is None else [record]
            result.partitions.append(answer)
    return Change(records, lambda: response)


def _refused(request: AlterPartitionReassignmentsRequest, error: KafkaError) -> AlterPartitionReassignmentsResponse:
    code = code_of(error)
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=error.message,
        responses=[
            Result(
                name=topic.name,
                partitions=[
                    Partition(partition_index=one.partition_index, error_code=code, error_message=error.message)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _plan(
    context: Context[ControllerServices], name: str, wanted: Wanted, *, may_change_count: bool
) -> PartitionChangeRecord | None:
    cluster, number = context.broker.controller.cluster, wanted.partition_index
    if wanted.replicas is None:
        return plan_cancellation(cluster, name, number)
    return plan_reassignment(cluster, name, number, wanted.replicas, may_change_count=may_change_count)
