"""ConsumerGroupHeartbeat (68), versions 0 and 1: makes and keeps a client a member of a consumer group (KIP-848).

Version 1 adds regular expressions, and has the client choose its member's id. Without the finalized feature
`group.version`, or with `consumer` left out of `group.coordinator.rebalance.protocols`, it is UNSUPPORTED_VERSION.
`refbroker.coordinators.groups.consumer` has the rules.
"""

from __future__ import annotations

from kclient.errors import KafkaError, UnsupportedVersionError
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from refbroker.coordinators.groups.classic.requests import Caller
from refbroker.coordinators.groups.consumer.heartbeats import check_request
from refbroker.coordinators.groups.consumer.settings import assignor_names, is_enabled
from refbroker.handlers.answers import host_of
from refbroker.handlers.context import Context
from refbroker.handlers.services import GroupServices
from refbroker.runtime.error_codes import code_of


def handle(context: Context[GroupServices], request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Carry out a ConsumerGroupHeartbeat request."""
    broker = context.broker
    if not is_enabled(broker.config, broker.image):
        return ConsumerGroupHeartbeatResponse(error_code=UnsupportedVersionError.code)
    caller = Caller(context.version, context.client_id or "", host_of(context.connection.peer))
    try:
        check_request(request, context.version, assignor_names(broker.config))
        return broker.groups.write(
            request.group_id, lambda shard: shard.protocols.on_consumer_group_heartbeat(caller, request)
        )
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=code_of(error), error_message=error.message)
