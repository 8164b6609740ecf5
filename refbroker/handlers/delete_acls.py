"""DeleteAcls (31), versions 1 to 3: returns SECURITY_DISABLED for each filter, as Kafka without an authorizer."""

from __future__ import annotations

from kclient.errors import SecurityDisabledError
from kclient.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from refbroker.handlers.context import Context


def handle(context: Context[object], request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Answer a DeleteAcls request."""
    refused = DeleteAclsResponse.DeleteAclsFilterResult(
        error_code=SecurityDisabledError.code, error_message="No Authorizer is configured."
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
