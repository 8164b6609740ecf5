"""CreateAcls (30), versions 1 to 3: returns SECURITY_DISABLED for each ACL, as Kafka without an authorizer."""

from __future__ import annotations

from kclient.errors import SecurityDisabledError
from kclient.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from refbroker.handlers.context import Context


def handle(context: Context[object], request: CreateAclsRequest) -> CreateAclsResponse:
    """Answer a CreateAcls request."""
    refused = CreateAclsResponse.AclCreationResult(
        error_code=SecurityDisabledError.code, error_message="No Authorizer is configured."
    )
    return CreateAclsResponse(results=[refused] * len(request.creations))
