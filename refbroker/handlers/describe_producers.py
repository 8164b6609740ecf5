"""DescribeProducers (61), version 0: returns the producers that a partition knows, and their open transactions
(KIP-664).

These are the idempotent and transactional producers whose sequence numbers the log keeps. Each partition has its own
result; as in Kafka, errors have no message, except for a topic that does not exist.

Permissions: READ on the topic.
"""

from __future__ import annotations

from kclient.errors import InvalidTopicError, KafkaError, UnknownTopicOrPartitionError
from kclient.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from refbroker.controller.topics import check_name
from refbroker.handlers.context import Context
from refbroker.handlers.services import PartitionServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import READ_TOPIC

Topic = DescribeProducersResponse.TopicResponse
Partition = DescribeProducersResponse.PartitionResponse
Producer = DescribeProducersResponse.ProducerState


def handle(context: Context[PartitionServices], request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Answer a DescribeProducers request."""
    response = DescribeProducersResponse()
    for topic in request.topics:
        error = _topic_error(context, topic.name)
        answer = Topic(name=topic.name)
        response.topics.append(answer)
        for number in topic.partition_indexes:
            if error is None:
                answer.partitions.append(_describe(context, topic.name, number))
            else:
                answer.partitions.append(
                    Partition(partition_index=number, error_code=code_of(error), error_message=error.message)
                )
    return response


def _topic_error(context: Context[PartitionServices], name: str) -> KafkaError | None:
    try:
        check_name(name)
    except InvalidTopicError as error:
        return error
    refusal = context.access.refusal(READ_TOPIC, name)
    if refusal is not None:
        return refusal
    if name not in context.broker.image.topics:
        return UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    return None


def _describe(context: Context[PartitionServices], name: str, number: int) -> Partition:
    try:
        log = context.broker.partitions.find(name, number).log
    except KafkaError as error:
        return Partition(partition_index=number, error_code=code_of(error))
    return Partition(
        partition_index=number,
        active_producers=[
            Producer(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_txn_first_offset,
            )
            for entry in log.producers()
        ],
    )
