"""OffsetCommit (8), versions 2 to 10: stores offsets of a group.

The response is sent when the offsets are stored. Each partition has its own result: one that does not exist is
UNKNOWN_TOPIC_OR_PARTITION, an unknown topic id UNKNOWN_TOPIC_ID, metadata longer than `offset.metadata.max.bytes`
OFFSET_METADATA_TOO_LARGE. An error of the member or the coordinator is returned for each partition that exists.
Versions 2 to 4 have a retention time; version 10 has topic ids. Elsewhere: the rules for committers
(`refbroker.coordinators.groups.offset_requests`).

Permissions: READ on the group, without which all partitions are GROUP_AUTHORIZATION_FAILED, and READ on each topic.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from kclient.errors import KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError
from kclient.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import READ_GROUP, READ_TOPIC

FIRST_WITH_TOPIC_IDS = 10

RequestTopic = OffsetCommitRequest.OffsetCommitRequestTopic
ResponseTopic = OffsetCommitResponse.OffsetCommitResponseTopic
ResponsePartition = OffsetCommitResponse.OffsetCommitResponsePartition


def handle(
    context: Context[GroupServices], request: OffsetCommitRequest
) -> OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]:
    """Carry out an OffsetCommit request."""
    refused = _Answer()
    refusal = context.access.refusal(READ_GROUP, request.group_id)
    if refusal is not None:
        for topic in request.topics:
            refused.add(topic, topic, refusal)
        return OffsetCommitResponse(topics=refused.topics)
    accepted = [found for found in (_check_topic(context, topic, refused) for topic in request.topics) if found]
    if not accepted:
        return OffsetCommitResponse(topics=refused.topics)
    request.topics = accepted
    # Commits are frequent, so the partition of the group is computed once.
    runtime = context.broker.groups.runtime
    partition = context.broker.groups.topic.partition_for(request.group_id)

    def ask() -> OffsetCommitResponse:
        stored = runtime.write(partition, lambda shard: shard.commit_offsets(request, context.version))
        return OffsetCommitResponse(topics=refused.merged(stored)) if refused.topics else stored

    def failed(error: KafkaError) -> OffsetCommitResponse:
        for topic in accepted:
            refused.add(topic, topic, error)
        return OffsetCommitResponse(topics=refused.topics)

    return runtime.answer(partition, ask, failed)


def _check_topic(context: Context[GroupServices], topic: RequestTopic, refused: _Answer) -> RequestTopic | None:
    """Return the topic with name and id and the partitions that exist, None if none does."""
    image = context.broker.image
    if context.version >= FIRST_WITH_TOPIC_IDS:
        found = image.topics_by_id.get(topic.topic_id)
        missing: KafkaError = UnknownTopicIdError()
    else:
        found = image.topics.get(topic.name)
        missing = UnknownTopicOrPartitionError()
    error: KafkaError | None = missing if found is None else None
    if found is not None or context.version < FIRST_WITH_TOPIC_IDS:
        # Without a permission, a client must not learn whether a name exists.
        error = context.access.refusal(READ_TOPIC, topic.name if found is None else found.name) or error
    if found is None or error is not None:
        refused.add(topic, topic, error or missing)
        return None
    named = RequestTopic(name=found.name, topic_id=found.topic_id)
    unknown = RequestTopic()
    for partition in topic.partitions:
        known = partition.partition_index in found.partitions
        (named if known else unknown).partitions.append(partition)
    if unknown.partitions:
        refused.add(named, unknown, UnknownTopicOrPartitionError())
    return named if named.partitions else None


class _Answer:
    """The topics of a response, each once even if partitions of it were refused."""

    def __init__(self) -> None:
        self.topics: list[ResponseTopic] = []
        self._by_name: dict[tuple[str, UUID], ResponseTopic] = {}

    def add(self, topic: RequestTopic, partitions: RequestTopic, error: KafkaError) -> None:
        """Add the same error for all these partitions."""
        answer = self._topic(topic.name, topic.topic_id)
        for partition in partitions.partitions:
            one = ResponsePartition(partition_index=partition.partition_index, error_code=code_of(error))
            answer.partitions.append(one)

    def merged(self, stored: OffsetCommitResponse) -> list[ResponseTopic]:
        """Return the topics together with those in the response of the coordinator."""
        merged = {
            key: ResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=list(topic.partitions))
            for key, topic in self._by_name.items()
        }
        for topic in stored.topics:
            known = merged.setdefault(
                (topic.name, topic.topic_id), ResponseTopic(name=topic.name, topic_id=topic.topic_id)
            )
            known.partitions.extend(topic.partitions)
        return list(merged.values())

    def _topic(self, name: str, topic_id: UUID) -> ResponseTopic:
        topic = self._by_name.get((name, topic_id))
        if topic is None:
            topic = self._by_name[name, topic_id] = ResponseTopic(name=name, topic_id=topic_id)
            self.topics.append(topic)
        return topic
