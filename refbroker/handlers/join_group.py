"""JoinGroup (11), versions 0 to 9: adds a client to a classic group.

The response is sent when the rebalance ends that the request starts or joins. A session timeout outside of
`group.min.session.timeout.ms` and `group.max.session.timeout.ms` is INVALID_SESSION_TIMEOUT. Elsewhere: the rules
(`refbroker.coordinators.groups.classic`).

Permissions: READ on the group.
"""

from __future__ import annotations

import asyncio

from kclient.errors import InvalidGroupIdError, InvalidSessionTimeoutError, KafkaError
from kclient.protocol import Message
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from refbroker.coordinators.groups.classic.requests import Caller
from refbroker.handlers.answers import LaterAnswer, host_of
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import READ_GROUP

FIRST_WITHOUT_PROTOCOL = 7


def handle(context: Context[GroupServices], request: JoinGroupRequest) -> asyncio.Future[Message | None]:
    """Carry out a JoinGroup request."""
    groups, config = context.broker.groups, context.broker.config
    no_protocol = None if context.version >= FIRST_WITHOUT_PROTOCOL else ""
    answer = LaterAnswer()

    def failed(error: KafkaError) -> JoinGroupResponse:
        return JoinGroupResponse(protocol_name=no_protocol, error_code=code_of(error))

    def respond(response: JoinGroupResponse) -> None:
        response.protocol_name = response.protocol_name or no_protocol
        groups.hold(request.group_id, lambda error: answer.give(response if error is None else failed(error)))

    refusal = context.access.refusal(READ_GROUP, request.group_id)
    if refusal is not None:
        respond(JoinGroupResponse(error_code=code_of(refusal)))
        return answer.future
    shortest = config.integer("group.min.session.timeout.ms")
    if not request.group_id:
        respond(JoinGroupResponse(member_id=request.member_id, error_code=InvalidGroupIdError.code))
        return answer.future
    if not shortest <= request.session_timeout_ms <= config.integer("group.max.session.timeout.ms"):
        respond(JoinGroupResponse(member_id=request.member_id, error_code=InvalidSessionTimeoutError.code))
        return answer.future
    caller = Caller(context.version, context.client_id or "", host_of(context.connection.peer))
    try:
        groups.write(request.group_id, lambda shard: shard.protocols.on_join_group(caller, request, respond))
    except KafkaError as error:
        answer.give(failed(error))
    return answer.future
