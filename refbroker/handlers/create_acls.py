"""CreateAcls (30), versions 1 to 3: adds ACLs; each has its own result, and one that exists is not an error.

Without an authorizer, each ACL is SECURITY_DISABLED. An ACL with an UNKNOWN element closes the connection. Elsewhere:
the checks of each ACL (`refbroker.controller.acls`).

Permissions: ALTER on the cluster.
"""

from __future__ import annotations

from kclient.errors import KafkaError, SecurityDisabledError, UnknownServerError
from kclient.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from refbroker.controller.acls import plan_creations
from refbroker.controller.change import Change
from refbroker.handlers.context import Context
from refbroker.handlers.services import AclServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.acls import check_no_unknown
from refbroker.security.permissions import ALTER_CLUSTER

Result = CreateAclsResponse.AclCreationResult


def handle(context: Context[AclServices], request: CreateAclsRequest) -> CreateAclsResponse | Change:
    """Carry out a CreateAcls request.

    Raises:
        ProtocolError: an element of an ACL is UNKNOWN.
    """
    for one in request.creations:
        check_no_unknown(one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
    refusal: KafkaError | None = context.access.refusal(ALTER_CLUSTER)
    authorizer = context.broker.authorizer
    if refusal is not None:
        return _refuse(request, refusal)
    if authorizer is None:
        return _refuse(request, SecurityDisabledError("No Authorizer is configured."))
    try:
        records, errors = plan_creations(authorizer, context.broker.controller.rng, request.creations)
    except KafkaError as error:
        return _refuse(request, error)
    response = CreateAclsResponse(results=[Result() if error is None else _failed(error) for error in errors])
    return Change(records, lambda: response)


def _refuse(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_failed(error)] * len(request.creations))


def _failed(error: KafkaError) -> Result:
    # Kafka gives no reason for an unexpected error.
    message = None if isinstance(error, UnknownServerError) else error.message
    return Result(error_code=code_of(error), error_message=message)
