"""DeleteAcls (31), versions 1 to 3: removes the ACLs that filters select, and returns them.

Without an authorizer, each filter is SECURITY_DISABLED. A filter with an UNKNOWN element closes the connection.

Permissions: ALTER on the cluster.
"""

from __future__ import annotations

from kclient.errors import KafkaError, SecurityDisabledError
from kclient.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from refbroker.controller.acls import plan_deletions
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import AclServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.acls import Acl, AclFilter
from refbroker.security.permissions import ALTER_CLUSTER

Result = DeleteAclsResponse.DeleteAclsFilterResult


def handle(context: Context[AclServices], request: DeleteAclsRequest) -> DeleteAclsResponse | Change:
    """Carry out a DeleteAcls request.

    Raises:
        ProtocolError: an element of a filter is UNKNOWN.
    """
    filters = [AclFilter.from_request(one) for one in request.filters]
    refusal = context.access.refusal(ALTER_CLUSTER)
    authorizer = context.broker.authorizer
    if refusal is not None:
        return _refuse(request, refusal)
    if authorizer is None:
        return _refuse(request, SecurityDisabledError("No Authorizer is configured."))
    try:
        records, results = plan_deletions(authorizer, filters)
    except KafkaError as error:
        return _refuse(request, error)
    response = DeleteAclsResponse(filter_results=[_result(result) for result in results])
    return Change(records, lambda: response)


def _refuse(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_result(error)] * len(request.filters))


def _result(result: list[Acl] | KafkaError) -> Result:
    if isinstance(result, KafkaError):
        return Result(error_code=code_of(result), error_message=result.message)
    return Result(error_message=None, matching_acls=[_matching(acl) for acl in result])


def _matching(acl: Acl) -> DeleteAclsResponse.DeleteAclsMatchingAcl:
    return DeleteAclsResponse.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        pattern_type=acl.pattern.pattern_type,
        principal=acl.entry.principal,
        host=acl.entry.host,
        operation=acl.entry.operation,
        permission_type=acl.entry.permission,
    )
