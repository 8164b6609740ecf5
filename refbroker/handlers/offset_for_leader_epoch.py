"""OffsetForLeaderEpoch (23), versions 2 to 4: where the records of a leader epoch end.

The answer is the largest epoch up to the one asked for that has records, and the offset after its last
one; the end of the log for the current epoch; -1 for both when nothing is known of so old an epoch.
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

Result = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(context: Context[PartitionServices], request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Answer an OffsetForLeaderEpoch request."""
    topics = []
    for topic in request.topics:
        results = [_find(context, topic.topic, one) for one in topic.partitions]
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
