"""SyncGroup (14), versions 0 to 5: distributes the assignment of a classic group.

The leader sends it, and the others wait for it; the responses are sent when it is stored. From version 5 on, a member
sends the protocol of the group; if it is missing or different, the member gets INCONSISTENT_GROUP_PROTOCOL.

Permissions: READ on the group.
"""

from __future__ import annotations

import asyncio

from kclient.errors import InconsistentGroupProtocolError, InvalidGroupIdError, KafkaError
from kclient.protocol import Message
from kclient.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from refbroker.handlers.answers import LaterAnswer
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import READ_GROUP

FIRST_WITH_PROTOCOL = 5


def handle(
    context: Context[GroupServices], request: SyncGroupRequest
) -> asyncio.Future[Message | None] | SyncGroupResponse:
    """Carry out a SyncGroup request."""
    if context.version >= FIRST_WITH_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=InconsistentGroupProtocolError.code)
    refusal = context.access.refusal(READ_GROUP, request.group_id)
    if refusal is not None:
        return SyncGroupResponse(error_code=code_of(refusal))
    if not request.group_id:
        return SyncGroupResponse(error_code=InvalidGroupIdError.code)
    answer, groups = LaterAnswer(), context.broker.groups

    def respond(response: SyncGroupResponse) -> None:
        groups.hold(request.group_id, lambda error: answer.give(response if error is None else _failed(error)))

    try:
        groups.write(request.group_id, lambda shard: shard.protocols.on_sync_group(request, respond))
    except KafkaError as error:
        answer.give(_failed(error))
    return answer.future


def _failed(error: KafkaError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code_of(error))
