"""DescribeAcls (29), versions 1 to 3: returns SECURITY_DISABLED, as Kafka without an authorizer."""

from __future__ import annotations

from kclient.errors import SecurityDisabledError
from kclient.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from refbroker.handlers.context import Context


def handle(context: Context[object], request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Answer a DescribeAcls request."""
    return DescribeAclsResponse(
        error_code=SecurityDisabledError.code, error_message="No Authorizer is configured on the broker"
    )
