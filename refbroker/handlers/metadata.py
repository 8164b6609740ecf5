"""Metadata (3), versions 0 to 13: returns brokers, the controller, and topics with their partitions and leaders.

Topics are requested by name, by id (an unknown one is UNKNOWN_TOPIC_ID), or all. Each is returned once, even if it
occurs several times; if there are ids, names are ignored. Before version 12, ids and topics without a name are
INVALID_REQUEST. From then on, a topic with neither is INVALID_REQUEST; Apache Kafka fails (UNKNOWN_SERVER_ERROR). A
topic that does not exist is created if the client and `auto.create.topics.enable` permit it, with `num.partitions` and
`default.replication.factor`. As in Apache Kafka, this response still has UNKNOWN_TOPIC_OR_PARTITION for it, and the
next one contains the topic; if it cannot be created, the log says why. An invalid name is INVALID_TOPIC_EXCEPTION.
Unlike in Apache Kafka, internal topics are not created this way. A partition in an offline data directory has no
leader: LEADER_NOT_AVAILABLE.

Brokers are returned with the address of the listener that the client is connected to. Brokers without one are omitted,
and their partitions have no leader: LISTENER_NOT_FOUND, before version 6 LEADER_NOT_AVAILABLE. In version 0 they are no
replicas either: REPLICA_NOT_AVAILABLE, if there is a leader.

Permissions: DESCRIBE on the topic; without names, the response has the topics that the client may describe. CREATE on
the topic or the cluster to create one.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

from kclient.errors import (
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    ListenerNotFoundError,
    ReplicaNotAvailableError,
    TopicAuthorizationError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.acls import AclResourceType
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from refbroker.controller.topics import BROKERS_CHOICE, check_name
from refbroker.coordinators.topic_creation import NewTopic
from refbroker.handlers.answers import INTERNAL_TOPICS, NOT_ASKED, cluster_operations, endpoint_of
from refbroker.handlers.context import Context
from refbroker.handlers.services import TopicServices
from refbroker.metadata.directories import NO_LEADER, offline_replicas
from refbroker.metadata.image import PartitionState, TopicState
from refbroker.runtime.error_codes import NONE, code_of
from refbroker.security.permissions import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition

IDS = 12
"""From this version on, topics may be requested by id."""
LISTENER_ERRORS = 6
"""From this version on, LISTENER_NOT_FOUND tells leaders without this listener from unknown ones."""


def handle(context: Context[TopicServices], request: MetadataRequest) -> MetadataResponse:
    """Answer a Metadata request, which may create topics."""
    image, access = context.broker.image, context.access
    if request.topics is None or (context.version == 0 and not request.topics):
        shown = [topic for topic in image.topics.values() if access.allows(DESCRIBE_TOPIC, topic.name, filters=True)]
        return _respond(context, request, [_describe(context, topic) for topic in shown])
    ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id.int)
    if ids and context.version >= IDS:
        return _respond(context, request, [_by_id(context, topic_id) for topic_id in ids])
    if ids or any(topic.name is None for topic in request.topics):
        return _refuse(request.topics, InvalidRequestError())
    names = list(dict.fromkeys(topic.name for topic in request.topics if topic.name is not None))
    errors = _auto_create(context, request, names)
    return _respond(context, request, [_by_name(context, name, errors) for name in names])


def _auto_create(context: Context[TopicServices], request: MetadataRequest, names: list[str]) -> dict[str, KafkaError]:
    """Request the creation of missing topics; return the error for each topic in this response."""
    broker = context.broker
    allowed = broker.config.auto_create_topics and (context.version < 4 or request.allow_auto_topic_creation)
    missing: list[str] = []
    errors: dict[str, KafkaError] = {}
    may_create_all = context.access.allows(CREATE_CLUSTER, filters=True)
    for name in names:
        refusal = context.access.refusal(DESCRIBE_TOPIC, name)
        if refusal is not None:
            errors[name] = refusal
            continue
        if name in broker.image.topics:
            continue
        try:
            check_name(name)
        except InvalidTopicError as error:
            errors[name] = error
            continue
        errors[name] = UnknownTopicOrPartitionError(topic=name)
        if not allowed:
            continue
        refusal = None if may_create_all else context.access.refusal(CREATE_TOPIC, name)
        if refusal is not None:
            errors[name] = refusal
        if refusal is not None or name in INTERNAL_TOPICS:
            continue
        missing.append(name)
    # If it fails, the client gets the same error as for a topic that is being created, and repeats the request.
    broker.topic_creation.create_topics(
        [NewTopic(name=name, num_partitions=BROKERS_CHOICE, replication_factor=BROKERS_CHOICE) for name in missing],
        partial(context.quota.record_mutations, strict=False),
    )
    return errors


def _respond(context: Context[TopicServices], request: MetadataRequest, topics: list[Topic]) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != TopicAuthorizationError.code and topic.name is not None:
                topic.topic_authorized_operations = context.access.operations(AclResourceType.TOPIC, topic.name)
    return MetadataResponse(
        brokers=_brokers(context),
        cluster_id=context.broker.cluster_id,
        controller_id=context.broker.node_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations(context.access)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _refuse(topics: list[MetadataRequest.MetadataRequestTopic], error: KafkaError) -> MetadataResponse:
    code = code_of(error)
    return MetadataResponse(
        error_code=code,
        topics=[Topic(error_code=code, name=topic.name or "", topic_id=topic.topic_id) for topic in topics],
    )


def _by_id(context: Context[TopicServices], topic_id: UUID) -> Topic:
    topic = context.broker.image.topics_by_id.get(topic_id)
    if topic is None:
        return Topic(error_code=code_of(UnknownTopicIdError()), name=None, topic_id=topic_id)
    refusal = context.access.refusal(DESCRIBE_TOPIC, topic.name)
    if refusal is not None:
        return Topic(error_code=code_of(refusal), name=None, topic_id=topic_id)
    return _describe(context, topic)


def _by_name(context: Context[TopicServices], name: str, errors: dict[str, KafkaError]) -> Topic:
    error = errors.get(name)
    if error is None:
        return _describe(context, context.broker.image.topics[name])
    is_internal = name in INTERNAL_TOPICS and not isinstance(error, TopicAuthorizationError)
    return Topic(error_code=code_of(error), name=name, is_internal=is_internal)


def _brokers(context: Context[TopicServices]) -> list[MetadataResponse.MetadataResponseBroker]:
    """Return the brokers that the client can reach by the listener it is connected to."""
    image, listener = context.broker.image, context.connection.listener
    endpoints = {node: endpoint_of(image, node, listener) for node in image.brokers}
    return [
        MetadataResponse.MetadataResponseBroker(
            node_id=node, host=endpoint[0], port=endpoint[1], rack=image.brokers[node].rack
        )
        for node, endpoint in endpoints.items()
        if endpoint is not None
    ]


def _describe(context: Context[TopicServices], topic: TopicState) -> Topic:
    return Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(context, number, partition) for number, partition in topic.partitions.items()],
    )


def _partition(context: Context[TopicServices], number: int, partition: PartitionState) -> Partition:
    image, listener = context.broker.image, context.connection.listener
    leader, error = partition.leader, NONE
    if endpoint_of(image, leader, listener) is None:
        missing = leader in image.brokers and context.version >= LISTENER_ERRORS
        leader, error = NO_LEADER, ListenerNotFoundError.code if missing else LeaderNotAvailableError.code
    replicas, isr = partition.replicas, partition.isr
    if context.version == 0:
        replicas = [node for node in replicas if endpoint_of(image, node, listener) is not None]
        isr = [node for node in isr if node in replicas]
        if error == NONE and len(replicas) < len(partition.replicas):
            error = ReplicaNotAvailableError.code
    return Partition(
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, partition, listener),
    )
