"""DeleteRecords (21), versions 0 to 2: advances the log start offset of partitions; -1 stands for the high watermark.

A partition of an internal topic is INVALID_TOPIC_EXCEPTION, one of a topic that is only compacted POLICY_VIOLATION, and
an offset beyond the high watermark OFFSET_OUT_OF_RANGE. If a partition occurs twice, the last one counts. With a single
replica, there is nothing to wait for.

Permissions: DELETE on the topic.
"""

from __future__ import annotations

from kclient.errors import InvalidTopicError, KafkaError, PolicyViolationError
from kclient.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from refbroker.handlers.answers import INTERNAL_TOPICS
from refbroker.handlers.context import Context
from refbroker.handlers.services import PartitionServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DELETE_TOPIC

Result = DeleteRecordsResponse.DeleteRecordsPartitionResult


def handle(context: Context[PartitionServices], request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Carry out a DeleteRecords request."""
    # If a partition occurs twice, in one entry of its topic or in two, the last one counts, as in Kafka.
    wanted: dict[str, dict[int, DeleteRecordsRequest.DeleteRecordsPartition]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update((one.partition_index, one) for one in topic.partitions)
    topics = []
    for name, partitions in wanted.items():
        refusal = context.access.refusal(DELETE_TOPIC, name)
        results = [_delete(context, name, one, refusal) for one in partitions.values()]
        topics.append(DeleteRecordsResponse.DeleteRecordsTopicResult(name=name, partitions=results))
    return DeleteRecordsResponse(topics=topics)


def _delete(
    context: Context[PartitionServices],
    topic: str,
    wanted: DeleteRecordsRequest.DeleteRecordsPartition,
    refusal: KafkaError | None,
) -> Result:
    index = wanted.partition_index
    try:
        if refusal is not None:
            raise refusal
        log = context.broker.partitions.find(topic, index).log
        if topic in INTERNAL_TOPICS:
            raise InvalidTopicError(f"Cannot delete records of internal topic {topic}")
        if "delete" not in log.config.cleanup_policy:
            raise PolicyViolationError(
                f"Records of partition {topic}-{index} can not be deleted due to the configured policy"
            )
        return Result(partition_index=index, low_watermark=log.delete_records(wanted.offset))
    except KafkaError as error:
        return Result(partition_index=index, low_watermark=-1, error_code=code_of(error))
