"""FindCoordinator (10), versions 0 to 6: says that there is no coordinator.

Groups, transactions and share groups are not built, so every key gets COORDINATOR_NOT_AVAILABLE with a
text that says so. Unknown kinds of keys are INVALID_REQUEST.
"""

from __future__ import annotations

from kclient.errors import CoordinatorNotAvailableError, InvalidRequestError
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from refbroker.dispatch import Context

KINDS = {0: "consumer groups", 1: "transactions", 2: "share groups"}
FIRST_WITH_SEVERAL_KEYS = 4


def handle(context: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Answer a FindCoordinator request."""
    kind = KINDS.get(request.key_type)
    if kind is None:
        code, text = InvalidRequestError.code, f"There is no coordinator for keys of type {request.key_type}"
    else:
        code, text = CoordinatorNotAvailableError.code, f"This broker has no {kind}"
    if context.version < FIRST_WITH_SEVERAL_KEYS:
        return FindCoordinatorResponse(error_code=code, error_message=text, node_id=-1, port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=text)
            for key in request.coordinator_keys
        ]
    )
