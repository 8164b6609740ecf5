"""DescribeUserScramCredentials (50), version 0: returns mechanisms and iterations of users' credentials (KIP-554).

Without users in the request the response has all of them. Keys and salts are never returned.

Permissions: DESCRIBE on the cluster.
"""

from __future__ import annotations

from collections import Counter

from kclient.errors import DuplicateResourceError, ResourceNotFoundError
from kclient.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from refbroker.handlers.context import Context
from refbroker.handlers.services import MetadataServices
from refbroker.metadata.image import ClusterImage
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_CLUSTER

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


def handle(
    context: Context[MetadataServices], request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer a DescribeUserScramCredentials request."""
    refusal = context.access.refusal(DESCRIBE_CLUSTER)
    if refusal is not None:
        refused = Result(error_code=code_of(refusal), error_message=refusal.message)
        return DescribeUserScramCredentialsResponse(
            error_code=code_of(refusal),
            error_message=refusal.message,
            results=[refused] * len(request.users or ()),
        )
    image = context.broker.image
    counts = Counter(user.name for user in request.users or ()) or Counter({user for _, user in image.scram})
    return DescribeUserScramCredentialsResponse(
        results=[_describe(image, user, count) for user, count in counts.items()]
    )


def _describe(image: ClusterImage, user: str, count: int) -> Result:
    if count > 1:
        return Result(
            user=user,
            error_code=DuplicateResourceError.code,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
        )
    found = [
        DescribeUserScramCredentialsResponse.CredentialInfo(mechanism=mechanism, iterations=record.iterations)
        for (mechanism, name), record in sorted(image.scram.items())
        if name == user
    ]
    if found:
        return Result(user=user, credential_infos=found)
    return Result(
        user=user,
        error_code=ResourceNotFoundError.code,
        error_message=f"Attempt to describe a user credential that does not exist: {user}",
    )
