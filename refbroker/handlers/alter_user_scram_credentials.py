"""AlterUserScramCredentials (51), version 0: sets and deletes users' credentials for SCRAM (KIP-554).

The client sends the salted password, and the broker stores two keys that are computed from it. A user may appear once;
the changes of other users take effect even if one is refused.

Permissions: ALTER on the cluster.
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.protocol import Message
from kclient.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from refbroker.controller.change import Change
from refbroker.controller.scram import plan_changes
from refbroker.handlers.context import Context
from refbroker.handlers.services import MetadataServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import ALTER_CLUSTER

Result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult


def handle(
    context: Context[MetadataServices], request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse | Change:
    """Carry out an AlterUserScramCredentials request."""
    refusal = context.access.refusal(ALTER_CLUSTER)
    if refusal is not None:
        return _refused(request, refusal)
    records: list[Message] = []
    results = []
    for user, planned in plan_changes(context.broker.image, request.deletions, request.upsertions).items():
        if isinstance(planned, KafkaError):
            results.append(Result(user=user, error_code=code_of(planned), error_message=planned.message))
        else:
            records += planned
            results.append(Result(user=user, error_message=None))
    response = AlterUserScramCredentialsResponse(results=results)
    return Change(records, lambda: response)


def _refused(request: AlterUserScramCredentialsRequest, error: KafkaError) -> AlterUserScramCredentialsResponse:
    users = {one.name for one in request.deletions} | {one.name for one in request.upsertions}
    return AlterUserScramCredentialsResponse(
        results=[Result(user=user, error_code=code_of(error), error_message=error.message) for user in sorted(users)]
    )
