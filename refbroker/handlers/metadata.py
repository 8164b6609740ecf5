"""Metadata (3), versions 0 to 13: brokers, the controller, topics with their partitions and leaders.

Topics by name, by id (an unknown one is UNKNOWN_TOPIC_ID), or all. A topic that does not exist is created
when the client and `auto.create.topics.enable` allow it, with `num.partitions` and
`default.replication.factor`; as in Apache Kafka, this answer still calls it UNKNOWN_TOPIC_OR_PARTITION, and the
next one has it. A name that no topic can have is INVALID_TOPIC_EXCEPTION. Internal topics are not created this way.
A partition in a data directory that is offline has no leader: LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from uuid import UUID

from kclient.errors import (
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from refbroker.dispatch import Change, Context
from refbroker.handlers.answers import (
    CLUSTER_OPERATIONS,
    INTERNAL_TOPICS,
    NONE,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    code_of,
    endpoint_of,
)
from refbroker.metadata.directories import offline_replicas
from refbroker.metadata.image import ClusterImage, TopicState
from refbroker.metadata.topics import NewTopic, check_name, plan_topic

Topic = MetadataResponse.MetadataResponseTopic


def handle(context: Context, request: MetadataRequest) -> MetadataResponse | Change:
    """Answer a Metadata request; it may create topics."""
    topics = request.topics
    if topics is None or (context.version == 0 and not topics):
        return _respond(context, request, None, {})
    records, errors = _auto_create(context, request)
    answer = _respond(context, request, topics, errors)
    return Change(records, lambda: answer) if records else answer


def _auto_create(context: Context, request: MetadataRequest) -> tuple[list[Message], dict[str, KafkaError]]:
    """The records that create what is missing, and what is answered for it now."""
    broker = context.broker
    allowed = broker.config.auto_create_topics and (context.version < 4 or request.allow_auto_topic_creation)
    records: list[Message] = []
    errors: dict[str, KafkaError] = {}
    for wanted in request.topics or ():
        name = wanted.name
        if name is None or name in broker.metadata.image.topics or name in errors:
            continue
        try:
            check_name(name)
            errors[name] = UnknownTopicOrPartitionError(topic=name)
            if allowed and name not in INTERNAL_TOPICS:
                records += plan_topic(broker, NewTopic(name)).records
        except KafkaError as error:
            errors[name] = error if isinstance(error, InvalidTopicError) else errors.get(name, error)
    return records, errors


def _respond(
    context: Context,
    request: MetadataRequest,
    topics: list[MetadataRequest.MetadataRequestTopic] | None,
    errors: dict[str, KafkaError],
) -> MetadataResponse:
    image = context.broker.metadata.image
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    if topics is None:
        answers = [_describe(image, topic, operations) for topic in image.topics.values()]
    else:
        answers = []
        for wanted in topics:
            found = image.topics.get(wanted.name) if wanted.name else image.topics_by_id.get(wanted.topic_id)
            if found is not None:
                answers.append(_describe(image, found, operations))
            else:
                answers.append(_missing(wanted.name, wanted.topic_id, errors, context.version))
    return MetadataResponse(
        brokers=[_broker(context, node) for node in image.brokers],
        cluster_id=context.broker.cluster_id,
        controller_id=context.broker.node_id,
        topics=answers,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _missing(name: str | None, topic_id: UUID, errors: dict[str, KafkaError], version: int) -> Topic:
    if not name and topic_id.int:
        return Topic(error_code=code_of(UnknownTopicIdError()), name=None if version >= 12 else "", topic_id=topic_id)
    error = errors.get(name or "", UnknownTopicOrPartitionError())
    return Topic(error_code=code_of(error), name=name or "", is_internal=name in INTERNAL_TOPICS)


def _broker(context: Context, node: int) -> MetadataResponse.MetadataResponseBroker:
    image = context.broker.metadata.image
    host, port = endpoint_of(image, node)
    return MetadataResponse.MetadataResponseBroker(node_id=node, host=host, port=port, rack=image.brokers[node].rack)


def _describe(image: ClusterImage, topic: TopicState, operations: int) -> Topic:
    return Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponse.MetadataResponsePartition(
                error_code=NONE if partition.leader in image.brokers else code_of(LeaderNotAvailableError()),
                partition_index=number,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                offline_replicas=offline_replicas(image, partition),
            )
            for number, partition in topic.partitions.items()
        ],
        topic_authorized_operations=operations,
    )
