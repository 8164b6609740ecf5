"""DeleteTopics (20), versions 1 to 6: deletes topics by name, or from version 6 on by id.

Each topic for itself. Their directories are renamed when the answer comes, and then removed. With
`delete.topic.enable=false` every topic is TOPIC_DELETION_DISABLED.
"""

from __future__ import annotations

from uuid import UUID

from kclient.errors import (
    InvalidRequestError,
    KafkaError,
    TopicDeletionDisabledError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kclient.protocol.messages.records.metadata_log import RemoveTopicRecord
from refbroker.dispatch import Change, Context
from refbroker.handlers.answers import code_of
from refbroker.metadata.image import TopicState

Result = DeleteTopicsResponse.DeletableTopicResult
NO_ID = UUID(int=0)


def handle(context: Context, request: DeleteTopicsRequest) -> Change:
    """Carry out a DeleteTopics request."""
    wanted: list[tuple[str | None, UUID]] = [(name, NO_ID) for name in request.topic_names]
    wanted += [(topic.name, topic.topic_id) for topic in request.topics]
    records: list[Message] = []
    results = []
    doomed: set[UUID] = set()
    for name, topic_id in wanted:
        try:
            topic = _find(context, name, topic_id)
            if topic.topic_id in doomed:
                raise InvalidRequestError("Duplicate topic name or id.")
        except KafkaError as error:
            text = "Neither topic name nor id were specified." if name is None and not topic_id.int else error.message
            results.append(Result(name=name, topic_id=topic_id, error_code=code_of(error), error_message=text))
        else:
            doomed.add(topic.topic_id)
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
            results.append(Result(name=topic.name, topic_id=topic.topic_id))
    response = DeleteTopicsResponse(responses=results)
    return Change(records, lambda: response)


def _find(context: Context, name: str | None, topic_id: UUID) -> TopicState:
    broker = context.broker
    if name is not None and topic_id.int:
        raise InvalidRequestError("You may not specify both topic name and topic id.")
    if not broker.config.boolean("delete.topic.enable"):
        raise TopicDeletionDisabledError
    if name is None and not topic_id.int:
        raise InvalidRequestError
    image = broker.metadata.image
    topic = image.topics_by_id.get(topic_id) if name is None else image.topics.get(name)
    if topic is None:
        if name is None:
            raise UnknownTopicIdError
        raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    return topic
