"""The permissions that requests need: an operation on a type of resource.

Elsewhere: whether a client has them (`refbroker.security.authorizer`).
"""

from __future__ import annotations

from typing import NamedTuple

from kclient.errors import (
    AuthorizationError,
    ClusterAuthorizationError,
    DelegationTokenAuthorizationError,
    GroupAuthorizationError,
    TopicAuthorizationError,
    TransactionalIdAuthorizationError,
)
from kclient.protocol.acls import AclOperation, AclResourceType


class Permission(NamedTuple):
    """An operation on resources of a type."""

    operation: AclOperation
    resource_type: AclResourceType


READ_TOPIC = Permission(AclOperation.READ, AclResourceType.TOPIC)
WRITE_TOPIC = Permission(AclOperation.WRITE, AclResourceType.TOPIC)
CREATE_TOPIC = Permission(AclOperation.CREATE, AclResourceType.TOPIC)
DELETE_TOPIC = Permission(AclOperation.DELETE, AclResourceType.TOPIC)
ALTER_TOPIC = Permission(AclOperation.ALTER, AclResourceType.TOPIC)
DESCRIBE_TOPIC = Permission(AclOperation.DESCRIBE, AclResourceType.TOPIC)
DESCRIBE_TOPIC_CONFIGS = Permission(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC)
ALTER_TOPIC_CONFIGS = Permission(AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC)

READ_GROUP = Permission(AclOperation.READ, AclResourceType.GROUP)
DELETE_GROUP = Permission(AclOperation.DELETE, AclResourceType.GROUP)
DESCRIBE_GROUP = Permission(AclOperation.DESCRIBE, AclResourceType.GROUP)
DESCRIBE_GROUP_CONFIGS = Permission(AclOperation.DESCRIBE_CONFIGS, AclResourceType.GROUP)
ALTER_GROUP_CONFIGS = Permission(AclOperation.ALTER_CONFIGS, AclResourceType.GROUP)

CREATE_CLUSTER = Permission(AclOperation.CREATE, AclResourceType.CLUSTER)
DELETE_CLUSTER = Permission(AclOperation.DELETE, AclResourceType.CLUSTER)
ALTER_CLUSTER = Permission(AclOperation.ALTER, AclResourceType.CLUSTER)
DESCRIBE_CLUSTER = Permission(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
CLUSTER_ACTION = Permission(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS = Permission(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER)
ALTER_CLUSTER_CONFIGS = Permission(AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER)
IDEMPOTENT_WRITE = Permission(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER)

WRITE_TRANSACTIONAL_ID = Permission(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID = Permission(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID)

DESCRIBE_DELEGATION_TOKEN = Permission(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN)
CREATE_TOKENS_OF_USER = Permission(AclOperation.CREATE_TOKENS, AclResourceType.USER)
DESCRIBE_TOKENS_OF_USER = Permission(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER)

ALL_OPERATIONS = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
}
"""The operations that authorizedOperations reports, for each type of resource."""

ERRORS: dict[AclResourceType, type[AuthorizationError]] = {
    AclResourceType.TOPIC: TopicAuthorizationError,
    AclResourceType.GROUP: GroupAuthorizationError,
    AclResourceType.CLUSTER: ClusterAuthorizationError,
    AclResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationError,
    AclResourceType.DELEGATION_TOKEN: DelegationTokenAuthorizationError,
    AclResourceType.USER: DelegationTokenAuthorizationError,
}
"""The error for a client without a permission, by the type of the resource."""


def bits(operations: tuple[AclOperation, ...]) -> int:
    """Return operations as the bit set of authorizedOperations."""
    return sum(1 << operation for operation in operations)
