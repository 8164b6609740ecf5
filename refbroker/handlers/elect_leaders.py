"""ElectLeaders (43), versions 0 to 2: makes the preferred replica the leader, or any replica that is alive (KIP-460).

The preferred replica is the first one; an unclean election may choose one that was not in sync. Each partition has its
own result. No partitions means all; then the response omits partitions that need no election. The response is sent when
the leaders are elected, so `timeout_ms` has no effect.

Permissions: ALTER on the cluster.
"""

from __future__ import annotations

from kclient.errors import ElectionNotNeededError, InvalidRequestError, KafkaError
from kclient.protocol import Message
from kclient.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from refbroker.controller.change import Change
from refbroker.controller.elections import plan_election
from refbroker.controller.partition_changes import Election
from refbroker.handlers.context import Context
from refbroker.handlers.services import ControllerServices
from refbroker.runtime.error_codes import NONE, code_of
from refbroker.security.permissions import ALTER_CLUSTER

Result = ElectLeadersResponse.ReplicaElectionResult
Partition = ElectLeadersResponse.PartitionResult

FIRST_WITH_ERROR_CODE = 1
_ELECTIONS = {Election.PREFERRED.value: Election.PREFERRED, Election.UNCLEAN.value: Election.UNCLEAN}


def handle(context: Context[ControllerServices], request: ElectLeadersRequest) -> ElectLeadersResponse | Change:
    """Carry out an ElectLeaders request."""
    refusal = context.access.refusal(ALTER_CLUSTER)
    if refusal is not None:
        return _refused(context, request, refusal)
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        return _refused(context, request, InvalidRequestError(f"Unknown election type {request.election_type}"))
    image = context.broker.image
    everything = request.topic_partitions is None
    wanted = (
        [(topic.name, list(topic.partitions)) for topic in image.topics.values()]
        if request.topic_partitions is None
        else [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    )
    records: list[Message] = []
    response = ElectLeadersResponse()
    for name, numbers in wanted:
        result = Result(topic=name)
        response.replica_election_results.append(result)
        for number in numbers:
            answer = Partition(partition_id=number, error_message=None)
            try:
                records.append(plan_election(context.broker.controller.cluster, name, number, election))
            except KafkaError as error:
                if everything and isinstance(error, ElectionNotNeededError):
                    continue
                answer.error_code, answer.error_message = code_of(error), error.message
            result.partition_result.append(answer)
    return Change(records, lambda: response)


def _refused(
    context: Context[ControllerServices], request: ElectLeadersRequest, error: KafkaError
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code_of(error) if context.version >= FIRST_WITH_ERROR_CODE else NONE,
        replica_election_results=[
            Result(
                topic=topic.topic,
                partition_result=[
                    Partition(partition_id=number, error_code=code_of(error), error_message=error.message)
                    for number in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )
