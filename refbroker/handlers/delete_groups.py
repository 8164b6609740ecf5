"""DeleteGroups (42), versions 0 to 2: deletes groups without members, and their committed offsets.

Each group has its own result; one with members is NON_EMPTY_GROUP, one that does not exist GROUP_ID_NOT_FOUND.

Permissions: DELETE on the group.
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import NONE, code_of
from refbroker.security.permissions import DELETE_GROUP


def handle(context: Context[GroupServices], request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Carry out a DeleteGroups request."""
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=_delete(context, group_id))
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )


def _delete(context: Context[GroupServices], group_id: str) -> int:
    refusal = context.access.refusal(DELETE_GROUP, group_id)
    if refusal is not None:
        return code_of(refusal)
    try:
        context.broker.groups.write(group_id, lambda shard: shard.delete_group(group_id))
    except KafkaError as error:
        return code_of(error)
    return NONE
