"""ConsumerGroupDescribe (69), versions 0 and 1: returns state, epochs, members and assignments of consumer groups
(KIP-848).

A group that does not exist, or is classic, is GROUP_ID_NOT_FOUND. Version 1 returns the protocol of each member. If the
protocol is not enabled (see ConsumerGroupHeartbeat), the error is UNSUPPORTED_VERSION. On request, the response
contains the permitted operations.

Permissions: DESCRIBE on the group, and on the topics that its members read.
"""

from __future__ import annotations

import asyncio

from kclient.errors import InvalidGroupIdError, TopicAuthorizationError, UnsupportedVersionError
from kclient.protocol.acls import AclResourceType
from kclient.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from refbroker.coordinators.groups.administration import DescribedConsumerGroup, describe_consumer_group
from refbroker.coordinators.groups.consumer.settings import assignor_names, is_enabled
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.runtime.eventual import all_of, then
from refbroker.security.permissions import DESCRIBE_GROUP, DESCRIBE_TOPIC


def handle(
    context: Context[GroupServices], request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | asyncio.Future[ConsumerGroupDescribeResponse]:
    """Answer a ConsumerGroupDescribe request."""
    if not is_enabled(context.broker.config, context.broker.image):
        code = UnsupportedVersionError.code
        return ConsumerGroupDescribeResponse(
            groups=[DescribedConsumerGroup(group_id=group_id, error_code=code) for group_id in request.group_ids]
        )
    refusals = {group_id: context.access.refusal(DESCRIBE_GROUP, group_id) for group_id in request.group_ids}
    # As in Kafka, refused groups come first.
    refused = [
        DescribedConsumerGroup(group_id=group_id, error_code=code_of(refusal))
        for group_id in request.group_ids
        if (refusal := refusals[group_id]) is not None
    ]
    described = [_describe(context, group_id) for group_id in request.group_ids if refusals[group_id] is None]
    return then(all_of(described), lambda groups: _response(context, request, [*refused, *groups]))


def _response(
    context: Context[GroupServices], request: ConsumerGroupDescribeRequest, groups: list[DescribedConsumerGroup]
) -> ConsumerGroupDescribeResponse:
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = context.access.operations(AclResourceType.GROUP, group.group_id)
    return ConsumerGroupDescribeResponse(groups=groups)


def _without_hidden_topics(context: Context[GroupServices], group: DescribedConsumerGroup) -> DescribedConsumerGroup:
    """Return the group, or an error in its place if a member has partitions of a topic that the client may not see."""
    topics = {
        partition.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for partition in assignment.topic_partitions
    }
    if all(context.access.allows(DESCRIBE_TOPIC, name) for name in topics):
        return group
    return DescribedConsumerGroup(
        group_id=group.group_id,
        error_code=TopicAuthorizationError.code,
        error_message="The group has described topic(s) that the client is not authorized to describe.",
    )


def _describe(
    context: Context[GroupServices], group_id: str
) -> DescribedConsumerGroup | asyncio.Future[DescribedConsumerGroup]:
    broker = context.broker
    topics = broker.image.topics_by_id

    def ask() -> DescribedConsumerGroup:
        if not group_id:
            raise InvalidGroupIdError
        shard = broker.groups.shard(group_id)
        described = describe_consumer_group(
            shard.groups,
            shard.consumers,
            group_id,
            assignor_names(broker.config)[0],
            lambda topic_id: topics[topic_id].name if topic_id in topics else None,
        )
        return _without_hidden_topics(context, described)

    return broker.groups.answer(
        group_id, ask, lambda error: DescribedConsumerGroup(group_id=group_id, error_code=code_of(error))
    )
