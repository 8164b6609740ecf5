"""DescribeAcls (29), versions 1 to 3: returns the ACLs that a filter selects.

Without an authorizer, SECURITY_DISABLED. A filter with an unknown number closes the connection.

Permissions: DESCRIBE on the cluster.
"""

from __future__ import annotations

from kclient.errors import KafkaError, SecurityDisabledError
from kclient.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import AclServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.acls import AclFilter, Entry, Pattern
from refbroker.security.permissions import DESCRIBE_CLUSTER

Resource = DescribeAclsResponse.DescribeAclsResource


def handle(context: Context[AclServices], request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Answer a DescribeAcls request.

    Raises:
        ProtocolError: an element of the filter is UNKNOWN.
    """
    wanted = AclFilter.from_request(request)
    refusal = context.access.refusal(DESCRIBE_CLUSTER)
    authorizer = context.broker.authorizer
    if refusal is not None:
        return _refuse(refusal)
    if authorizer is None:
        return _refuse(SecurityDisabledError("No Authorizer is configured on the broker"))
    entries: dict[Pattern, list[Entry]] = {}
    for _, acl in authorizer.select(wanted):
        entries.setdefault(acl.pattern, []).append(acl.entry)
    return DescribeAclsResponse(resources=[_resource(*each) for each in entries.items()])


def _refuse(error: KafkaError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code_of(error), error_message=error.message)


def _resource(pattern: Pattern, entries: list[Entry]) -> Resource:
    return Resource(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=[
            DescribeAclsResponse.AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for entry in entries
        ],
    )
