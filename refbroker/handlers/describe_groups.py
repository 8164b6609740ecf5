"""DescribeGroups (15), versions 0 to 6: returns state, protocol and members of classic groups.

A group that does not exist is GROUP_ID_NOT_FOUND from version 6 on; before, it has the state Dead and no error.
Metadata and assignments of members are returned while the group is stable. From version 3 on, the response contains the
permitted operations on request.

Permissions: DESCRIBE on the group.
"""

from __future__ import annotations

import asyncio

from kclient.protocol.acls import AclResourceType
from kclient.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from refbroker.coordinators.groups.administration import DescribedGroup, describe_group
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.runtime.eventual import all_of, then
from refbroker.security.permissions import DESCRIBE_GROUP

FIRST_WITH_OPERATIONS = 3


def handle(
    context: Context[GroupServices], request: DescribeGroupsRequest
) -> DescribeGroupsResponse | asyncio.Future[DescribeGroupsResponse]:
    """Answer a DescribeGroups request."""
    refusals = {group_id: context.access.refusal(DESCRIBE_GROUP, group_id) for group_id in request.groups}
    # As in Kafka, refused groups come first.
    refused = [
        DescribedGroup(group_id=group_id, error_code=code_of(refusal))
        for group_id in request.groups
        if (refusal := refusals[group_id]) is not None
    ]
    described = [_describe(context, group_id) for group_id in request.groups if refusals[group_id] is None]
    return then(all_of(described), lambda groups: _response(context, request, [*refused, *groups]))


def _response(
    context: Context[GroupServices], request: DescribeGroupsRequest, groups: list[DescribedGroup]
) -> DescribeGroupsResponse:
    if context.version >= FIRST_WITH_OPERATIONS and request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = context.access.operations(AclResourceType.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=groups)


def _describe(context: Context[GroupServices], group_id: str) -> DescribedGroup | asyncio.Future[DescribedGroup]:
    groups = context.broker.groups

    def ask() -> DescribedGroup:
        shard = groups.shard(group_id)
        return describe_group(shard.groups, shard.consumers, group_id, context.version)

    return groups.answer(group_id, ask, lambda error: DescribedGroup(group_id=group_id, error_code=code_of(error)))
