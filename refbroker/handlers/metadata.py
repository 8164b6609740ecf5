"""Metadata (3), versions 0 to 13: returns brokers, the controller, and topics with their partitions and leaders.

Topics are requested by name, by id (an unknown one is UNKNOWN_TOPIC_ID), or all. Each is returned once, even if it
occurs several times; if there are ids, names are ignored. Before version 12, ids and topics without a name are
INVALID_REQUEST. From then on, a topic with neither is INVALID_REQUEST; Apache Kafka fails (UNKNOWN_SERVER_ERROR). A
topic that does not exist is created if the client and `auto.create.topics.enable` permit it, with `num.partitions` and
`default.replication.factor`. As in Apache Kafka, this response still has UNKNOWN_TOPIC_OR_PARTITION for it, and the
next one contains the topic; if it cannot be created, the log says why. An invalid name is INVALID_TOPIC_EXCEPTION.
Unlike in Apache Kafka, internal topics are not created this way. A partition in an offline data directory has no
leader: LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

import logging
from uuid import UUID

from kclient.errors import (
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from refbroker.handlers.answers import CLUSTER_OPERATIONS, INTERNAL_TOPICS, NOT_ASKED, TOPIC_OPERATIONS, endpoint_of
from refbroker.handlers.context import Change, Context
from refbroker.handlers.services import ControllerServices
from refbroker.metadata.directories import offline_replicas
from refbroker.metadata.image import ClusterImage, TopicState
from refbroker.metadata.topics import NewTopic, check_name, plan_topic
from refbroker.runtime.error_codes import NONE, code_of

logger = logging.getLogger(__name__)

Topic = MetadataResponse.MetadataResponseTopic

#: From this version on, topics may be requested by id.
IDS = 12


def handle(context: Context[ControllerServices], request: MetadataRequest) -> MetadataResponse | Change:
    """Answer a Metadata request, which may create topics."""
    image, operations = context.broker.image, _operations(request)
    if request.topics is None or (context.version == 0 and not request.topics):
        return _respond(context, request, [_describe(image, topic, operations) for topic in image.topics.values()])
    ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id.int)
    if ids and context.version >= IDS:
        return _respond(context, request, [_by_id(image, topic_id, operations) for topic_id in ids])
    if ids or any(topic.name is None for topic in request.topics):
        return _refuse(request.topics, InvalidRequestError())
    names = list(dict.fromkeys(topic.name for topic in request.topics if topic.name is not None))
    records, errors = _auto_create(context, request, names)
    answer = _respond(context, request, [_by_name(image, name, errors, operations) for name in names])
    return Change(records, lambda: answer) if records else answer


def _auto_create(
    context: Context[ControllerServices], request: MetadataRequest, names: list[str]
) -> tuple[list[Message], dict[str, KafkaError]]:
    """Return the records that create missing topics, and the error for each in this response."""
    broker = context.broker
    allowed = broker.config.auto_create_topics and (context.version < 4 or request.allow_auto_topic_creation)
    records: list[Message] = []
    errors: dict[str, KafkaError] = {}
    room = None
    for name in names:
        if name in broker.image.topics:
            continue
        try:
            check_name(name)
        except InvalidTopicError as error:
            errors[name] = error
            continue
        errors[name] = UnknownTopicOrPartitionError(topic=name)
        if not allowed or name in INTERNAL_TOPICS:
            continue
        if room is None:
            room = broker.controller.room_for_files()
        try:
            records += plan_topic(broker.controller, NewTopic(name), room=room - len(records)).records
        except KafkaError as error:
            # The client gets the same error as for a topic that is being created, and repeats the request.
            logger.warning("cannot create topic %s, which a client has asked for: %s", name, error)
    return records, errors


def _respond(context: Context[ControllerServices], request: MetadataRequest, topics: list[Topic]) -> MetadataResponse:
    return MetadataResponse(
        brokers=[_broker(context, node) for node in context.broker.image.brokers],
        cluster_id=context.broker.cluster_id,
        controller_id=context.broker.node_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _refuse(topics: list[MetadataRequest.MetadataRequestTopic], error: KafkaError) -> MetadataResponse:
    code = code_of(error)
    return MetadataResponse(
        error_code=code,
        topics=[Topic(error_code=code, name=topic.name or "", topic_id=topic.topic_id) for topic in topics],
    )


def _operations(request: MetadataRequest) -> int:
    return TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED


def _by_id(image: ClusterImage, topic_id: UUID, operations: int) -> Topic:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return Topic(error_code=code_of(UnknownTopicIdError()), name=None, topic_id=topic_id)
    return _describe(image, topic, operations)


def _by_name(image: ClusterImage, name: str, errors: dict[str, KafkaError], operations: int) -> Topic:
    topic = image.topics.get(name)
    if topic is not None:
        return _describe(image, topic, operations)
    return Topic(
        error_code=code_of(errors[name]),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )


def _broker(context: Context[ControllerServices], node: int) -> MetadataResponse.MetadataResponseBroker:
    image = context.broker.image
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
