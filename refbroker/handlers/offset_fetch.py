"""OffsetFetch (9), versions 1 to 10: returns committed offsets of groups.

A partition without a committed offset has offset -1, also in a group or topic that does not exist; that is no error.
The error of a group is returned for each partition in version 1, for the response in versions 2 to 7, and for the group
from 8 on. With `require_stable` (7), an offset that an open transaction may change is UNSTABLE_OFFSET_COMMIT. Without
topics (null, from 2 on), all committed offsets of the group are returned. In version 9, members of the consumer
protocol can send their id and epoch, which are checked (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH). Version 10 has topic
ids: an unknown id is UNKNOWN_TOPIC_ID, and topics that no longer have an id are omitted when all are requested.

Permissions: DESCRIBE on the group, and on each topic.
"""

from __future__ import annotations

import asyncio

from kclient.errors import KafkaError, UnknownTopicIdError
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from refbroker.coordinators.groups.offset_requests import NO_OFFSET, FetchedGroup, FetchedPartition, FetchedTopic
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.runtime.eventual import all_of, then
from refbroker.security.permissions import DESCRIBE_GROUP, DESCRIBE_TOPIC

FIRST_WITH_GROUP_ERROR = 2
FIRST_WITH_SEVERAL_GROUPS = 8
FIRST_WITH_TOPIC_IDS = 10

RequestGroup = OffsetFetchRequest.OffsetFetchRequestGroup
RequestTopic = OffsetFetchRequest.OffsetFetchRequestTopics


def handle(
    context: Context[GroupServices], request: OffsetFetchRequest
) -> OffsetFetchResponse | asyncio.Future[OffsetFetchResponse]:
    """Answer an OffsetFetch request."""
    stable = request.require_stable
    if context.version >= FIRST_WITH_SEVERAL_GROUPS:
        fetched = [_fetch(context, group, stable) for group in request.groups]
        return then(all_of(fetched), lambda groups: OffsetFetchResponse(groups=groups))
    topics = request.topics
    wanted = (
        None
        if topics is None
        else [RequestTopic(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics]
    )
    return then(_fetch(context, RequestGroup(group_id=request.group_id, topics=wanted), stable), _as_of_one_group)


def _as_of_one_group(group: FetchedGroup) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _fetch(
    context: Context[GroupServices], group: RequestGroup, require_stable: bool
) -> FetchedGroup | asyncio.Future[FetchedGroup]:
    by_id = context.version >= FIRST_WITH_TOPIC_IDS
    refused: list[FetchedTopic] = []
    known = group.topics
    if known is not None:
        if by_id:
            _resolve(context, known)
        errors = [_topic_error(context, topic, by_id) for topic in known]
        refused = [_failed(topic, error) for topic, error in zip(known, errors, strict=True) if error is not None]
        known = [topic for topic, error in zip(known, errors, strict=True) if error is None]
    groups, access = context.broker.groups, context.access

    def ask() -> FetchedGroup:
        refusal = access.refusal(DESCRIBE_GROUP, group.group_id)
        if refusal is not None:
            raise refusal
        fetched = groups.shard(group.group_id).fetch_offsets(
            group.group_id,
            known,
            require_stable=require_stable,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        )
        if group.topics is None:
            fetched.topics = [topic for topic in fetched.topics if access.allows(DESCRIBE_TOPIC, topic.name)]
            if by_id:
                fetched.topics = _with_ids(context, fetched.topics)
        fetched.topics.extend(refused)
        return fetched

    def failed(error: KafkaError) -> FetchedGroup:
        if context.version >= FIRST_WITH_GROUP_ERROR:
            return FetchedGroup(group_id=group.group_id, error_code=code_of(error))
        return FetchedGroup(group_id=group.group_id, topics=[_failed(topic, error) for topic in group.topics or ()])

    return groups.answer(group.group_id, ask, failed)


def _resolve(context: Context[GroupServices], topics: list[RequestTopic]) -> None:
    """Set the names of topics, "" for those with unknown ids."""
    for topic in topics:
        found = context.broker.image.topics_by_id.get(topic.topic_id)
        topic.name = "" if found is None else found.name


def _topic_error(context: Context[GroupServices], topic: RequestTopic, by_id: bool) -> KafkaError | None:
    if by_id and not topic.name:
        return UnknownTopicIdError()
    return context.access.refusal(DESCRIBE_TOPIC, topic.name)


def _with_ids(context: Context[GroupServices], topics: list[FetchedTopic]) -> list[FetchedTopic]:
    """Return the topics with their ids; omit those that no longer exist."""
    image = context.broker.image
    known = [topic for topic in topics if topic.name in image.topics]
    for topic in known:
        topic.topic_id = image.topics[topic.name].topic_id
    return known


def _failed(topic: RequestTopic, error: KafkaError) -> FetchedTopic:
    code = code_of(error)
    return FetchedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            FetchedPartition(partition_index=number, committed_offset=NO_OFFSET, error_code=code)
            for number in topic.partition_indexes
        ],
    )
