"""ListGroups (16), versions 0 to 5: returns the groups that this broker coordinates.

From version 4 on, groups can be filtered by state, from 5 on by type; unknown names match nothing. While a partition of
`__consumer_offsets` is loading, the response is COORDINATOR_LOAD_IN_PROGRESS without groups.

Permissions: DESCRIBE on the cluster for all groups; otherwise the response has those that the client may describe.
"""

from __future__ import annotations

import asyncio

from kclient.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from refbroker.coordinators.groups.administration import list_groups
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_CLUSTER, DESCRIBE_GROUP


def handle(
    context: Context[GroupServices], request: ListGroupsRequest
) -> ListGroupsResponse | asyncio.Future[ListGroupsResponse]:
    """Answer a ListGroups request."""
    return context.broker.groups.runtime.answer_of_all(
        lambda: _list(context, request), lambda error: ListGroupsResponse(error_code=code_of(error))
    )


def _list(context: Context[GroupServices], request: ListGroupsRequest) -> ListGroupsResponse:
    shards, access = context.broker.groups.runtime.shards(), context.access
    sees_all = access.allows(DESCRIBE_CLUSTER, filters=True)
    return ListGroupsResponse(
        groups=[
            group
            for shard in shards
            for group in list_groups(shard.every_group(), request.states_filter, request.types_filter)
            if sees_all or access.allows(DESCRIBE_GROUP, group.group_id, filters=True)
        ]
    )
