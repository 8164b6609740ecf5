"""Heartbeat (12), versions 0 to 4: keeps a member in its classic group, and makes it rejoin for a rebalance.

While the partition of the group is loading, there is no error, as in Kafka: the member's session starts after the load.

Permissions: READ on the group.
"""

from __future__ import annotations

import asyncio

from kclient.errors import CoordinatorLoadInProgressError, InvalidGroupIdError, KafkaError
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import READ_GROUP


def handle(
    context: Context[GroupServices], request: HeartbeatRequest
) -> HeartbeatResponse | asyncio.Future[HeartbeatResponse]:
    """Answer a Heartbeat request."""
    refusal = context.access.refusal(READ_GROUP, request.group_id)
    if refusal is not None:
        return HeartbeatResponse(error_code=code_of(refusal))
    if not request.group_id:
        return HeartbeatResponse(error_code=InvalidGroupIdError.code)
    groups = context.broker.groups
    return groups.answer(
        request.group_id,
        lambda: groups.write(request.group_id, lambda shard: shard.protocols.on_heartbeat(request)),
        _failed,
    )


def _failed(error: KafkaError) -> HeartbeatResponse:
    if isinstance(error, CoordinatorLoadInProgressError):
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=code_of(error))
