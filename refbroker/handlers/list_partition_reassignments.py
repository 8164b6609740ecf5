"""ListPartitionReassignments (46), version 0: returns the moves of partitions in progress (KIP-455).

No topics means all. Topics and partitions that do not exist or are not being moved are omitted; there are no errors. On
one node, moves complete immediately, so the response is empty unless partitions come from a cluster of several nodes.

Permissions: DESCRIBE on the cluster.
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from refbroker.controller.reassignments import is_reassigning
from refbroker.handlers.context import Context
from refbroker.handlers.services import MetadataServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_CLUSTER

Topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
Partition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


def handle(
    context: Context[MetadataServices], request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer a ListPartitionReassignments request."""
    refusal = context.access.refusal(DESCRIBE_CLUSTER)
    if refusal is not None:
        return _refused(request, refusal)
    topics = context.broker.image.topics
    wanted = (
        [(name, list(topic.partitions)) for name, topic in topics.items()]
        if request.topics is None
        else [(topic.name, topic.partition_indexes) for topic in request.topics]
    )
    response = ListPartitionReassignmentsResponse(error_message=None)
    for name, numbers in wanted:
        partitions = topics[name].partitions if name in topics else {}
        moving = [
            partitions[number] for number in numbers if number in partitions and is_reassigning(partitions[number])
        ]
        if moving:
            response.topics.append(
                Topic(
                    name=name,
                    partitions=[
                        Partition(
                            partition_index=state.partition_id,
                            replicas=state.replicas,
                            adding_replicas=state.adding_replicas,
                            removing_replicas=state.removing_replicas,
                        )
                        for state in moving
                    ],
                )
            )
    return response


def _refused(request: ListPartitionReassignmentsRequest, error: KafkaError) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=code_of(error),
        error_message=error.message,
        topics=[
            Topic(
                name=topic.name,
                partitions=[Partition(partition_index=number) for number in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ],
    )
