"""DeleteGroups (42), versions 0 to 2: deletes groups without members, and their committed offsets.

Each group has its own result; one with members is NON_EMPTY_GROUP, one that does not exist GROUP_ID_NOT_FOUND.

Permissions: DELETE on the group.
"""

from __future__ import annotations

import asyncio

from kclient.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.runtime.eventual import all_of, then
from refbroker.security.permissions import DELETE_GROUP

Result = DeleteGroupsResponse.DeletableGroupResult


def handle(
    context: Context[GroupServices], request: DeleteGroupsRequest
) -> DeleteGroupsResponse | asyncio.Future[DeleteGroupsResponse]:
    """Carry out a DeleteGroups request."""
    results = [_delete(context, group_id) for group_id in dict.fromkeys(request.groups_names)]
    return then(all_of(results), lambda all_results: DeleteGroupsResponse(results=all_results))


def _delete(context: Context[GroupServices], group_id: str) -> Result | asyncio.Future[Result]:
    groups = context.broker.groups

    def ask() -> Result:
        refusal = context.access.refusal(DELETE_GROUP, group_id)
        if refusal is not None:
            raise refusal
        groups.write(group_id, lambda shard: shard.delete_group(group_id))
        return Result(group_id=group_id)

    return groups.answer(group_id, ask, lambda error: Result(group_id=group_id, error_code=code_of(error)))
