"""FindCoordinator (10), versions 0 to 6: returns the broker that coordinates a group or a transactional id.

The first request creates `__consumer_offsets` or `__transaction_state`, and gets its response when the topic exists;
Apache Kafka returns COORDINATOR_NOT_AVAILABLE in the meantime. This broker returns that error while the partition of
the key has no leader, and for share groups, which are not implemented. Unknown types of keys, and share groups before
version 6, are INVALID_REQUEST.

Permissions: DESCRIBE on the group, or on the transactional id; CLUSTER_ACTION for share groups.
"""

from __future__ import annotations

from typing import NamedTuple

from kclient.errors import CoordinatorNotAvailableError, InvalidRequestError
from kclient.protocol.acls import CLUSTER_NAME
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from refbroker.handlers.answers import endpoint_of
from refbroker.handlers.context import Context
from refbroker.handlers.services import CoordinatorServices
from refbroker.runtime.error_codes import NONE, code_of
from refbroker.security.permissions import CLUSTER_ACTION, DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID

GROUP, TRANSACTION, SHARE = range(3)
_PERMISSIONS = {GROUP: DESCRIBE_GROUP, TRANSACTION: DESCRIBE_TRANSACTIONAL_ID, SHARE: CLUSTER_ACTION}
FIRST_WITH_SEVERAL_KEYS = 4
FIRST_WITH_SHARE_GROUPS = 6


class Found(NamedTuple):
    """A coordinator, or the reason why it is unknown."""

    error_code: int
    error_message: str
    node_id: int = -1
    host: str = ""
    port: int = -1


def handle(context: Context[CoordinatorServices], request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Answer a FindCoordinator request."""
    if context.version < FIRST_WITH_SEVERAL_KEYS:
        found = _find(context, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            # In these versions, Kafka sends a message on success; in later ones it does not.
            error_message=found.error_message or "NONE",
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(key=key, **_find(context, request.key_type, key)._asdict())
            for key in request.coordinator_keys
        ]
    )


def _find(context: Context[CoordinatorServices], key_type: int, key: str) -> Found:
    share_groups = context.version >= FIRST_WITH_SHARE_GROUPS
    if key_type not in (GROUP, TRANSACTION, SHARE) or (key_type == SHARE and not share_groups):
        return Found(InvalidRequestError.code, f"There is no coordinator for keys of type {key_type}")
    refusal = context.access.refusal(_PERMISSIONS[key_type], CLUSTER_NAME if key_type == SHARE else key)
    if refusal is not None:
        return Found(code_of(refusal), refusal.message)
    if key_type == SHARE:
        return Found(CoordinatorNotAvailableError.code, "This broker has no share groups")
    broker = context.broker
    topic = broker.groups.topic if key_type == GROUP else broker.transactions.topic
    if not topic.ensure():
        return Found(CoordinatorNotAvailableError.code, f"{topic.name} could not be created")
    partition = topic.partition_for(key)
    state = broker.image.partition(topic.name, partition)
    leader = -1 if state is None else state.leader
    endpoint = endpoint_of(broker.image, leader, context.connection.listener)
    if endpoint is None:
        return Found(CoordinatorNotAvailableError.code, f"{topic.name}-{partition} has no leader on this listener")
    return Found(NONE, "", leader, *endpoint)
