"""AlterPartitionReassignments (45), versions 0 and 1: moves partitions to other brokers, or cancels moves (KIP-455).

Each partition has its own result. On one node, a move to this broker completes immediately, other brokers are
INVALID_REPLICA_ASSIGNMENT, and there is nothing to cancel (NO_REASSIGNMENT_IN_PROGRESS). Partitions of a cluster that
had more nodes may have replicas to move. Version 1 can keep the number of replicas (KIP-860).

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
from refbroker.handlers.context import Context
from refbroker.handlers.services import ControllerServices
from refbroker.metadata.image import TOPIC_RESOURCE
from refbroker.controller.partition_changes import plan_cancellation, plan_move
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import ALTER_CLUSTER
from refbroker.settings.effective import topic_texts

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
    image = context.broker.image
    if wanted.replicas is not None:
        return plan_move(image, name, wanted.partition_index, wanted.replicas, may_change_count=may_change_count)
    values = topic_texts(image.config(TOPIC_RESOURCE, name), context.broker.config.layers)
    unclean = values["unclean.leader.election.enable"] == "true"
    return plan_cancellation(image, name, wanted.partition_index, may_elect_unclean=unclean)
