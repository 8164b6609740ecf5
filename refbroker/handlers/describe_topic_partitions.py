"""DescribeTopicPartitions (75), version 0: returns topics by partition, in pages (KIP-966).

Topics are in the order of their names, from the cursor on. A page has as many partitions as the client requests, at
most `max.request.partition.size.limit`, and the cursor of the next page. No topics means all topics. A cursor with a
negative partition, or with a topic that was not requested, is INVALID_REQUEST.

Permissions: DESCRIBE on the topic; without names, the response has the topics that the client may describe.

Not implemented: eligible leader replicas, which one node does not have.
"""

from __future__ import annotations

from kclient.errors import InvalidRequestError, InvalidTopicError, UnknownTopicOrPartitionError
from kclient.protocol.acls import AclResourceType
from kclient.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from refbroker.controller.topics import check_name
from refbroker.handlers.answers import INTERNAL_TOPICS, endpoint_of
from refbroker.handlers.context import Context
from refbroker.handlers.services import MetadataServices
from refbroker.metadata.directories import NO_LEADER, offline_replicas
from refbroker.metadata.image import ClusterImage, PartitionState, TopicState
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_TOPIC

Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


def handle(
    context: Context[MetadataServices], request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Answer a DescribeTopicPartitions request."""
    broker = context.broker
    image = broker.image
    names = {topic.name for topic in request.topics} or set(image.topics)
    cursor = request.cursor
    if cursor is not None:
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
            return _refuse(request)
        names = {name for name in names if name >= cursor.topic_name}
    room = min(request.response_partition_limit, broker.config.integer("max.request.partition.size.limit"))
    room = max(room, 1)
    refusals = {name: context.access.refusal(DESCRIBE_TOPIC, name) for name in sorted(names)}
    names = {name for name, refusal in refusals.items() if refusal is None}
    response = DescribeTopicPartitionsResponse()
    for name in sorted(names):
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if room == 0:
            response.next_cursor = _cursor(name, 0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        shown = [number for number in sorted(topic.partitions) if number >= first][:room]
        response.topics.append(_describe(image, context.connection.listener, topic, shown))
        room -= len(shown)
        if shown and shown[-1] + 1 < len(topic.partitions):
            response.next_cursor = _cursor(name, shown[-1] + 1)
            break
    for shown_topic in response.topics:
        shown_topic.topic_authorized_operations = context.access.operations(
            AclResourceType.TOPIC, shown_topic.name or ""
        )
    if request.topics:
        # A client that has named a topic gets the error; otherwise it must not learn that the topic exists.
        response.topics += [
            Topic(name=name, error_code=code_of(refusal)) for name, refusal in refusals.items() if refusal is not None
        ]
    return response


def _cursor(name: str, partition: int) -> DescribeTopicPartitionsResponse.Cursor:
    return DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=partition)


def _refuse(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Return the error for all topics, because the response has no error code of its own."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return DescribeTopicPartitionsResponse(
        topics=[Topic(name=name, error_code=InvalidRequestError.code) for name in names]
    )


def _missing(name: str) -> Topic:
    code = UnknownTopicOrPartitionError.code
    try:
        check_name(name)
    except InvalidTopicError as error:
        code = error.code
    return Topic(
        name=name,
        error_code=code,
        is_internal=name in INTERNAL_TOPICS,
    )


def _describe(image: ClusterImage, listener: str, topic: TopicState, shown: list[int]) -> Topic:
    return Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(image, listener, number, topic.partitions[number]) for number in shown],
    )


def _partition(image: ClusterImage, listener: str, number: int, state: PartitionState) -> Partition:
    return Partition(
        partition_index=number,
        leader_id=NO_LEADER if endpoint_of(image, state.leader, listener) is None else state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=state.eligible_leader_replicas,
        last_known_elr=state.last_known_elr,
        offline_replicas=offline_replicas(image, state, listener),
    )
