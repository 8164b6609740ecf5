"""OffsetForLeaderEpoch (23), versions 2 to 4: returns the end offset of a leader epoch.

The response has the largest epoch with records up to the requested one, and the offset after its last record. For the
current epoch, that is the log end offset; for an epoch older than all known ones, both are -1.

Permissions: CLUSTER_ACTION on the cluster, or DESCRIBE on the topic.
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from refbroker.handlers.context import Context
from refbroker.handlers.services import PartitionServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import CLUSTER_ACTION, DESCRIBE_TOPIC

Result = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(context: Context[PartitionServices], request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Answer an OffsetForLeaderEpoch request."""
    topics = []
    access = context.access
    is_broker = access.allows(CLUSTER_ACTION, filters=True)
    for topic in request.topics:
        refusal = None if is_broker else access.refusal(DESCRIBE_TOPIC, topic.topic)
        results = [
            _find(context, topic.topic, one)
            if refusal is None
            else Result(partition=one.partition, error_code=code_of(refusal))
            for one in topic.partitions
        ]
        topics.append(OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=results))
    return OffsetForLeaderEpochResponse(topics=topics)


def _find(
    context: Context[PartitionServices], topic: str, wanted: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> Result:
    try:
        found = context.broker.partitions.find(topic, wanted.partition, wanted.current_leader_epoch)
    except KafkaError as error:
        return Result(partition=wanted.partition, error_code=code_of(error))
    epoch, end_offset = found.end_offset_for_epoch(wanted.leader_epoch)
    return Result(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
