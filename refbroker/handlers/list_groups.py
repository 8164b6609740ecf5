"""ListGroups (16), versions 0 to 5: the groups that this broker coordinates.

From version 4 on those in some states only, from 5 on those of some types; names that mean nothing find nothing. While
a partition of `__consumer_offsets` is being loaded the answer is COORDINATOR_LOAD_IN_PROGRESS, and no groups.
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from refbroker.coordinators.groups.administration import list_groups
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of


def handle(context: Context[GroupServices], request: ListGroupsRequest) -> ListGroupsResponse:
    """Answer a ListGroups request."""
    try:
        shards = context.broker.groups.runtime.shards()
    except KafkaError as error:
        return ListGroupsResponse(error_code=code_of(error))
    return ListGroupsResponse(
        groups=[
            group
            for shard in shards
            for group in list_groups(shard.every_group(), request.states_filter, request.types_filter)
        ]
    )
