"""DeleteTopics (20), versions 1 to 6: deletes topics by name, or from version 6 on by id.

Each topic has its own result. When the response is sent, the directories are renamed; they are removed later. A topic
that occurs twice, also once by name and once by id, is not deleted: INVALID_REQUEST. With `delete.topic.enable=false`,
every topic is TOPIC_DELETION_DISABLED, before version 3 INVALID_REQUEST.

Permissions: DELETE on the topic or the cluster. A topic that the client may not describe is
TOPIC_AUTHORIZATION_FAILED whether it exists or not.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from kclient.errors import (
    InvalidRequestError,
    KafkaError,
    ThrottlingQuotaExceededError,
    TopicAuthorizationError,
    TopicDeletionDisabledError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kclient.protocol.messages.records.metadata_log import RemoveTopicRecord
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import ControllerServices
from refbroker.metadata.image import ClusterImage, TopicState
from refbroker.runtime.error_codes import code_of
from refbroker.security.authorizer import Access
from refbroker.security.permissions import DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC

Result = DeleteTopicsResponse.DeletableTopicResult
NO_ID = UUID(int=0)
FIRST_WITH_DISABLED_ERROR = 3
FIRST_WITH_STRICT_QUOTA = 5


def handle(context: Context[ControllerServices], request: DeleteTopicsRequest) -> DeleteTopicsResponse | Change:
    """Carry out a DeleteTopics request."""
    wanted: list[tuple[str | None, UUID]] = [(name, NO_ID) for name in request.topic_names]
    wanted += [(topic.name, topic.topic_id) for topic in request.topics]
    if not context.broker.config.boolean("delete.topic.enable"):
        return _refuse(context, wanted)
    counts = Counter(wanted)
    image = context.broker.image
    # A name that is itself refused, as a duplicate or beside an id, does not make the id of that topic a duplicate.
    by_name = {
        image.topics[name].topic_id
        for (name, topic_id), count in counts.items()
        if name in image.topics and not topic_id.int and count == 1
    }
    by_id = {topic_id for name, topic_id in counts if name is None}
    rights = _Rights(context.access)
    records: list[Message] = []
    results = []
    for (name, topic_id), count in counts.items():
        try:
            topic = _find(image, name, topic_id, count, rights)
        except KafkaError as error:
            shown = error.topic if isinstance(error, TopicAuthorizationError) else name
            results.append(_failed(shown, topic_id, error))
            continue
        if topic.topic_id not in by_name & by_id:
            try:
                context.quota.record_mutations(len(topic.partitions), strict=context.version >= FIRST_WITH_STRICT_QUOTA)
            except ThrottlingQuotaExceededError as error:
                results.append(_failed(topic.name, topic.topic_id, error))
                continue
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
            results.append(Result(name=topic.name, topic_id=topic.topic_id))
        elif name is not None:
            twice = InvalidRequestError("The provided topic name maps to an ID that was already supplied.")
            results.append(_failed(name, topic.topic_id, twice))
    response = DeleteTopicsResponse(responses=results)
    return Change(records, lambda: response)


def _refuse(context: Context[ControllerServices], wanted: list[tuple[str | None, UUID]]) -> DeleteTopicsResponse:
    error = TopicDeletionDisabledError if context.version >= FIRST_WITH_DISABLED_ERROR else InvalidRequestError
    return DeleteTopicsResponse(
        responses=[Result(name=name, topic_id=topic_id, error_code=error.code) for name, topic_id in wanted]
    )


def _failed(name: str | None, topic_id: UUID, error: KafkaError) -> Result:
    return Result(name=name, topic_id=topic_id, error_code=code_of(error), error_message=error.message)


class _Rights:
    """What a client may see and delete: all topics with DELETE on the cluster."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._has_all = access.allows(DELETE_CLUSTER, filters=True)

    def may_see(self, name: str) -> bool:
        """Return whether the client may know that a topic exists."""
        return self._has_all or self._access.allows(DESCRIBE_TOPIC, name)

    def check_deletable(self, name: str, shown: str | None) -> None:
        """Raise if the client may not delete a topic.

        Raises:
            TopicAuthorizationError: it may not.
        """
        if not self._has_all and not self._access.allows(DELETE_TOPIC, name):
            raise TopicAuthorizationError(topic=shown)


def _find(image: ClusterImage, name: str | None, topic_id: UUID, count: int, rights: _Rights) -> TopicState:
    if name is not None and topic_id.int:
        raise InvalidRequestError("You may not specify both topic name and topic id.")
    if name is None and not topic_id.int:
        raise InvalidRequestError("Neither topic name nor id were specified.")
    if count > 1:
        raise InvalidRequestError(f"Duplicate topic {'id' if name is None else 'name'}.")
    if name is None:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicIdError("This server does not host this topic ID.")
        rights.check_deletable(topic.name, topic.name if rights.may_see(topic.name) else None)
        return topic
    if not rights.may_see(name):
        raise TopicAuthorizationError(topic=name)
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    rights.check_deletable(name, name)
    return topic
