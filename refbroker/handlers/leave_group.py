"""LeaveGroup (13), versions 0 to 5: removes members from a classic group.

From version 3 on, it removes several members, each with its own error, and static ones also by instance id alone.
Before, it removes one, whose error is that of the response.

Permissions: READ on the group.
"""

from __future__ import annotations

import asyncio

from kclient.errors import InvalidGroupIdError, KafkaError, UnknownMemberIdError
from kclient.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.runtime.eventual import then
from refbroker.security.permissions import READ_GROUP

FIRST_WITH_SEVERAL_MEMBERS = 3


def handle(
    context: Context[GroupServices], request: LeaveGroupRequest
) -> LeaveGroupResponse | asyncio.Future[LeaveGroupResponse]:
    """Carry out a LeaveGroup request."""
    refusal = context.access.refusal(READ_GROUP, request.group_id)
    if refusal is not None:
        return LeaveGroupResponse(error_code=code_of(refusal))
    if context.version >= FIRST_WITH_SEVERAL_MEMBERS:
        return _leave(context, request)
    identity = LeaveGroupRequest.MemberIdentity(member_id=request.member_id)
    left = _leave(context, LeaveGroupRequest(group_id=request.group_id, members=[identity]))
    return then(left, _as_of_one_member)


def _as_of_one_member(response: LeaveGroupResponse) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=response.error_code or response.members[0].error_code)


def _leave(
    context: Context[GroupServices], request: LeaveGroupRequest
) -> LeaveGroupResponse | asyncio.Future[LeaveGroupResponse]:
    if not request.group_id:
        return LeaveGroupResponse(error_code=InvalidGroupIdError.code)
    groups = context.broker.groups
    return groups.answer(
        request.group_id,
        lambda: groups.write(request.group_id, lambda shard: shard.protocols.on_leave_group(request)),
        lambda error: _failed(request, error),
    )


def _failed(request: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    if not isinstance(error, UnknownMemberIdError):
        return LeaveGroupResponse(error_code=code_of(error))
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponse.MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=code_of(error),
            )
            for member in request.members
        ]
    )
