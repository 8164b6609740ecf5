"""ACLs: create, describe and delete them (KIP-11, KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kclient.admin.arguments import instance, optional, several, text
from kclient.admin.core import AdminCore, Outcomes
from kclient.errors import KafkaError, error_from_code, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.acls import WILDCARD, AclOperation, AclPermissionType, AclResourceType, PatternType
from kclient.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kclient.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kclient.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


class AclBinding(msgspec.Struct, frozen=True):
    """An ACL: one permission of one principal on the resources that a pattern matches.

    Parameters:
        resource_type: the type of the resources.
        resource_name: the name of the resource, or with PREFIXED the first characters of the names. The LITERAL name
            "*" matches all names; the only resource of the type CLUSTER is "kafka-cluster".
        principal: the type and the name of the principal, such as "User:anne"; "User:*" is everybody.
        operation: the operation that is allowed or denied.
        permission_type: ALLOW or DENY; a DENY overrides every ALLOW.
        pattern_type: LITERAL or PREFIXED.
        host: the IP address from which the principal connects; "*" is any address.
    """

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW
    pattern_type: PatternType = PatternType.LITERAL
    host: str = WILDCARD

    def __post_init__(self) -> None:
        instance(self.resource_type, AclResourceType, "AclBinding(resource_type=)")
        text(self.resource_name, "AclBinding(resource_name=)")
        text(self.principal, "AclBinding(principal=)")
        instance(self.operation, AclOperation, "AclBinding(operation=)")
        instance(self.permission_type, AclPermissionType, "AclBinding(permission_type=)")
        instance(self.pattern_type, PatternType, "AclBinding(pattern_type=)")
        text(self.host, "AclBinding(host=)")

    def __str__(self) -> str:
        prefix = "prefix " if self.pattern_type is PatternType.PREFIXED else ""
        return (
            f"{self.permission_type.name} {self.principal} {self.operation.name} on "
            f"{self.resource_type.name} {prefix}{self.resource_name} from {self.host}"
        )


class AclBindingFilter(msgspec.Struct, frozen=True):
    """A filter that selects ACLs; every field has a default that selects all of them.

    Parameters:
        resource_type: the type of the resources.
        resource_name: the name in the pattern.
        principal: the principal, such as "User:anne".
        operation: the operation.
        permission_type: ALLOW or DENY.
        pattern_type: LITERAL or PREFIXED select patterns with exactly this name. MATCH selects all patterns that match
            a resource with this name: literal ones, prefixes and "*".
        host: the IP address.
    """

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY
    pattern_type: PatternType = PatternType.ANY
    host: str | None = None

    def __post_init__(self) -> None:
        instance(self.resource_type, AclResourceType, "AclBindingFilter(resource_type=)")
        optional(self.resource_name, str, "AclBindingFilter(resource_name=)")
        optional(self.principal, str, "AclBindingFilter(principal=)")
        instance(self.operation, AclOperation, "AclBindingFilter(operation=)")
        instance(self.permission_type, AclPermissionType, "AclBindingFilter(permission_type=)")
        instance(self.pattern_type, PatternType, "AclBindingFilter(pattern_type=)")
        optional(self.host, str, "AclBindingFilter(host=)")


def create_acls(
    core: AdminCore, bindings: AclBinding | Iterable[AclBinding], deadline: Deadline
) -> Operation[dict[AclBinding, None]]:
    def attempt(pending: list[AclBinding]) -> Operation[Outcomes[AclBinding, None]]:
        request = CreateAclsRequest(
            creations=[
                CreateAclsRequest.AclCreation(
                    resource_type=binding.resource_type,
                    resource_name=binding.resource_name,
                    resource_pattern_type=binding.pattern_type,
                    principal=binding.principal,
                    host=binding.host,
                    operation=binding.operation,
                    permission_type=binding.permission_type,
                )
                for binding in pending
            ]
        )
        answer: CreateAclsResponse = yield from core.request_until_answered(
            ANY_NODE, CreateAclsRequest, lambda version: request, deadline
        )
        return {
            binding: error_from_code(result.error_code, result.error_message) if result.error_code else None
            for binding, result in zip(pending, answer.results)
        }

    return (yield from core.keyed(several(bindings, AclBinding, deadline.name), attempt, deadline))


def describe_acls(core: AdminCore, wanted: AclBindingFilter | None, deadline: Deadline) -> Operation[list[AclBinding]]:
    fields = _fields(optional(wanted, AclBindingFilter, deadline.name) or AclBindingFilter())

    def attempt() -> Operation[list[AclBinding]]:
        answer: DescribeAclsResponse = yield from core.request(
            ANY_NODE, DescribeAclsRequest, lambda version: DescribeAclsRequest(**fields), deadline
        )
        raise_for_code(answer.error_code, answer.error_message)
        return [_binding(resource, acl) for resource in answer.resources for acl in resource.acls]

    return (yield from core.retry(attempt, deadline))


def delete_acls(
    core: AdminCore, filters: AclBindingFilter | Iterable[AclBindingFilter], deadline: Deadline
) -> Operation[dict[AclBindingFilter, list[AclBinding]]]:
    def attempt(pending: list[AclBindingFilter]) -> Operation[Outcomes[AclBindingFilter, list[AclBinding]]]:
        request = DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**_fields(each)) for each in pending])
        answer: DeleteAclsResponse = yield from core.request_until_answered(
            ANY_NODE, DeleteAclsRequest, lambda version: request, deadline
        )
        return {each: _deleted(result) for each, result in zip(pending, answer.filter_results)}

    return (yield from core.keyed(several(filters, AclBindingFilter, deadline.name), attempt, deadline))


def _deleted(result: DeleteAclsResponse.DeleteAclsFilterResult) -> list[AclBinding] | KafkaError:
    if result.error_code:
        return error_from_code(result.error_code, result.error_message)
    for acl in result.matching_acls:
        if acl.error_code:
            return error_from_code(acl.error_code, acl.error_message)
    return [_binding(acl, acl) for acl in result.matching_acls]


def _fields(wanted: AclBindingFilter) -> dict[str, Any]:
    """Return the fields that a filter has in the requests."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission_type,
    }


def _binding(
    pattern: DescribeAclsResponse.DescribeAclsResource | DeleteAclsResponse.DeleteAclsMatchingAcl,
    entry: DescribeAclsResponse.AclDescription | DeleteAclsResponse.DeleteAclsMatchingAcl,
) -> AclBinding:
    return AclBinding(
        AclResourceType(pattern.resource_type),
        pattern.resource_name,
        entry.principal,
        AclOperation(entry.operation),
        AclPermissionType(entry.permission_type),
        PatternType(pattern.pattern_type),
        entry.host,
    )
