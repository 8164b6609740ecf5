"""OffsetDelete (47), version 0: deletes committed offsets of a group (KIP-496).

A topic to which a member of the group subscribes is GROUP_SUBSCRIBED_TO_TOPIC, one that does not exist
UNKNOWN_TOPIC_OR_PARTITION. An offset that was not committed is no error. A group that does not exist is
GROUP_ID_NOT_FOUND, and one whose members are not consumers NON_EMPTY_GROUP; these errors are for the whole request.

Permissions: DELETE on the group, and READ on each topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kclient.errors import InvalidGroupIdError, KafkaError, UnknownTopicOrPartitionError
from kclient.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DELETE_GROUP, READ_TOPIC

RequestTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic
RequestPartition = OffsetDeleteRequest.OffsetDeleteRequestPartition
ResponseTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic
ResponsePartition = OffsetDeleteResponse.OffsetDeleteResponsePartition


def handle(
    context: Context[GroupServices], request: OffsetDeleteRequest
) -> OffsetDeleteResponse | asyncio.Future[OffsetDeleteResponse]:
    """Carry out an OffsetDelete request."""
    refusal = context.access.refusal(DELETE_GROUP, request.group_id)
    if refusal is not None:
        return OffsetDeleteResponse(error_code=code_of(refusal))
    if not request.group_id:
        return OffsetDeleteResponse(error_code=InvalidGroupIdError.code)
    answers: dict[str, ResponseTopic] = {}
    known: list[RequestTopic] = []
    topics = context.broker.image.topics
    for topic in request.topics:
        refusal = context.access.refusal(READ_TOPIC, topic.name)
        if refusal is not None:
            _refuse(answers, topic.name, topic.partitions, refusal)
            continue
        partitions = topics[topic.name].partitions if topic.name in topics else {}
        found = [one for one in topic.partitions if one.partition_index in partitions]
        missing = [one for one in topic.partitions if one.partition_index not in partitions]
        if found:
            known.append(RequestTopic(name=topic.name, partitions=found))
        if missing:
            _refuse(answers, topic.name, missing, UnknownTopicOrPartitionError())
    groups = context.broker.groups

    def ask() -> OffsetDeleteResponse:
        deleted = groups.write(
            request.group_id,
            lambda shard: shard.delete_offsets(OffsetDeleteRequest(group_id=request.group_id, topics=known)),
        )
        for answered in deleted.topics:
            _add(answers, answered.name, answered.partitions)
        return OffsetDeleteResponse(topics=list(answers.values()))

    return groups.answer(request.group_id, ask, lambda error: OffsetDeleteResponse(error_code=code_of(error)))


def _refuse(
    answers: dict[str, ResponseTopic], name: str, partitions: Iterable[RequestPartition], error: KafkaError
) -> None:
    code = code_of(error)
    _add(answers, name, [ResponsePartition(partition_index=one.partition_index, error_code=code) for one in partitions])


def _add(answers: dict[str, ResponseTopic], name: str, partitions: Iterable[ResponsePartition]) -> None:
    answers.setdefault(name, ResponseTopic(name=name)).partitions.extend(partitions)
