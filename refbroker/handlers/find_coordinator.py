"""FindCoordinator (10), versions 0 to 6: names the broker that coordinates a group.

`__consumer_offsets` is made for the first who asks, so that the answer has a broker at once; Apache Kafka answers
COORDINATOR_NOT_AVAILABLE meanwhile. So does this one while the group's partition has no leader, and for transactions
and share groups, which are not built. Unknown kinds of keys, and share groups before version 6, are INVALID_REQUEST.
"""

from __future__ import annotations

from typing import NamedTuple

from kclient.errors import CoordinatorNotAvailableError, InvalidRequestError
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from refbroker.coordinators.groups.coordinator import OFFSETS_TOPIC
from refbroker.dispatch import Context
from refbroker.handlers.answers import NONE, endpoint_of

GROUP, TRANSACTION, SHARE = range(3)
FIRST_WITH_SEVERAL_KEYS = 4
FIRST_WITH_SHARE_GROUPS = 6


class Found(NamedTuple):
    """A coordinator, or why there is none."""

    error_code: int
    error_message: str
    node_id: int = -1
    host: str = ""
    port: int = -1


def handle(context: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Answer a FindCoordinator request."""
    if context.version < FIRST_WITH_SEVERAL_KEYS:
        found = _find(context, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            # Kafka gives success a text in these versions, and none in the later ones.
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


def _find(context: Context, key_type: int, key: str) -> Found:
    share_groups = context.version >= FIRST_WITH_SHARE_GROUPS
    if key_type not in (GROUP, TRANSACTION, SHARE) or (key_type == SHARE and not share_groups):
        return Found(InvalidRequestError.code, f"There is no coordinator for keys of type {key_type}")
    if key_type != GROUP:
        kind = "transactions" if key_type == TRANSACTION else "share groups"
        return Found(CoordinatorNotAvailableError.code, f"This broker has no {kind}")
    broker = context.broker
    if not broker.groups.topic.ensure():
        return Found(CoordinatorNotAvailableError.code, f"{OFFSETS_TOPIC} could not be created")
    partition = broker.groups.topic.partition_for(key)
    state = broker.partitions.state(OFFSETS_TOPIC, partition)
    if state is None or state.leader not in broker.metadata.image.brokers:
        return Found(CoordinatorNotAvailableError.code, f"{OFFSETS_TOPIC}-{partition} has no leader")
    host, port = endpoint_of(broker.metadata.image, state.leader)
    return Found(NONE, "", state.leader, host, port)
