"""ConsumerGroupHeartbeat (68), versions 0 and 1: adds a client to a consumer group and keeps it there (KIP-848).

Version 1 adds regular expressions, and the client chooses its member id. Without the finalized feature `group.version`,
or without `consumer` in `group.coordinator.rebalance.protocols`, the error is UNSUPPORTED_VERSION. Elsewhere: the rules
(`refbroker.coordinators.groups.consumer`).

Permissions: READ on the group, and DESCRIBE on each topic that is named; a regular expression matches only
topics that the client may describe.
"""

from __future__ import annotations

import asyncio

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
from refbroker.security.permissions import DESCRIBE_TOPIC, READ_GROUP


def handle(
    context: Context[GroupServices], request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | asyncio.Future[ConsumerGroupHeartbeatResponse]:
    """Carry out a ConsumerGroupHeartbeat request."""
    broker = context.broker
    if not is_enabled(broker.config, broker.image):
        return ConsumerGroupHeartbeatResponse(error_code=UnsupportedVersionError.code)
    refusal = context.access.refusal(READ_GROUP, request.group_id) or next(
        filter(None, [context.access.refusal(DESCRIBE_TOPIC, name) for name in request.subscribed_topic_names or ()]),
        None,
    )
    if refusal is not None:
        return _failed(refusal)
    caller = Caller(
        context.version,
        context.client_id or "",
        host_of(context.connection.peer),
        lambda topic: context.access.allows(DESCRIBE_TOPIC, topic, filters=True),
    )

    def ask() -> ConsumerGroupHeartbeatResponse:
        check_request(request, context.version, assignor_names(broker.config))
        return broker.groups.write(
            request.group_id, lambda shard: shard.protocols.on_consumer_group_heartbeat(caller, request)
        )

    return broker.groups.answer(request.group_id, ask, _failed)


def _failed(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code_of(error), error_message=error.message)
