"""ConsumerGroupDescribe (69), versions 0 and 1: returns state, epochs, members and assignments of consumer groups
(KIP-848).

A group that does not exist, or is classic, is GROUP_ID_NOT_FOUND. Version 1 returns the protocol of each member. If the
protocol is not enabled (see ConsumerGroupHeartbeat), the error is UNSUPPORTED_VERSION. On request, the response
contains the permitted operations; without an authorizer, that is all of them.
"""

from __future__ import annotations

from kclient.errors import InvalidGroupIdError, KafkaError, UnsupportedVersionError
from kclient.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from refbroker.coordinators.groups.administration import DescribedConsumerGroup, describe_consumer_group
from refbroker.coordinators.groups.consumer.settings import assignor_names, is_enabled
from refbroker.handlers.answers import GROUP_OPERATIONS
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of


def handle(context: Context[GroupServices], request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Answer a ConsumerGroupDescribe request."""
    if not is_enabled(context.broker.config, context.broker.image):
        code = UnsupportedVersionError.code
        return ConsumerGroupDescribeResponse(
            groups=[DescribedConsumerGroup(group_id=group_id, error_code=code) for group_id in request.group_ids]
        )
    groups = [_describe(context, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(context: Context[GroupServices], group_id: str) -> DescribedConsumerGroup:
    broker = context.broker
    if not group_id:
        return DescribedConsumerGroup(group_id=group_id, error_code=InvalidGroupIdError.code)
    try:
        shard = broker.groups.shard(group_id)
    except KafkaError as error:
        return DescribedConsumerGroup(group_id=group_id, error_code=code_of(error))

    topics = broker.image.topics_by_id
    return describe_consumer_group(
        shard.groups,
        shard.consumers,
        group_id,
        assignor_names(broker.config)[0],
        lambda topic_id: topics[topic_id].name if topic_id in topics else None,
    )
