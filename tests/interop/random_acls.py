"""The resources of two brokers that must decide alike, and random ACLs for them."""

from __future__ import annotations

import random

from kclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from kclient.protocol.messages.create_acls import CreateAclsRequest

TOPICS = ("app.bills", "app.orders", "web.hits")
"""The topics that exist."""
MISSING = ("app.none", "other")
GROUPS = ("app.group", "web.group")
LIVE_GROUP = "web.live"
"""The group that has a member, which is subscribed to the topics that exist."""
TRANSACTIONAL_IDS = ("app.writer", "web.writer")
USERS = ("alice", "bob")
CLUSTER = "kafka-cluster"
OWNERS = ("User:alice", "User:bob", "User:carol")
"""The owners of delegation tokens, one for each."""
TOKENS = tuple(f"token of {owner}" for owner in OWNERS)
"""What stands for the ids of these tokens, which brokers choose."""

_NAMES = {
    AclResourceType.TOPIC: (*TOPICS, *MISSING),
    AclResourceType.GROUP: (*GROUPS, LIVE_GROUP),
    AclResourceType.CLUSTER: (CLUSTER,),
    AclResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_IDS,
    AclResourceType.DELEGATION_TOKEN: TOKENS,
    AclResourceType.USER: OWNERS,
}
_PREFIXES = ("app", "app.", "web", "o")
_USER_PREFIXES = ("User:", "User:a", "Us", "b")
_OPERATIONS = {
    AclResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    AclResourceType.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    AclResourceType.CLUSTER: "CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS "
    "IDEMPOTENT_WRITE ALL",
    AclResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE ALL",
    AclResourceType.DELEGATION_TOKEN: "DESCRIBE ALL",
    AclResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS ALL",
}


def random_acls(rng: random.Random) -> list[CreateAclsRequest.AclCreation]:
    """Return ACLs for single operations, and now and then one for everything of a type, so that much is allowed."""
    acls = [_random_acl(rng) for _ in range(rng.randint(0, 25))]
    acls += [
        CreateAclsRequest.AclCreation(
            resource_type=resource_type,
            resource_name=CLUSTER if resource_type is AclResourceType.CLUSTER else "*",
            resource_pattern_type=PatternType.LITERAL,
            principal=f"User:{rng.choice(USERS)}",
            host="*",
            operation=AclOperation.ALL,
            permission_type=AclPermissionType.ALLOW,
        )
        for resource_type in _NAMES
        if rng.random() < 0.4
    ]
    return acls


def _random_acl(rng: random.Random) -> CreateAclsRequest.AclCreation:
    resource_type = rng.choice(list(_NAMES))
    pattern, name = PatternType.LITERAL, rng.choice((*_NAMES[resource_type], "*"))
    if resource_type is AclResourceType.CLUSTER:
        name = CLUSTER
    elif rng.random() < 0.3:
        prefixes = _USER_PREFIXES if resource_type is AclResourceType.USER else _PREFIXES
        pattern, name = PatternType.PREFIXED, rng.choice(prefixes)
    operation = AclOperation[rng.choice(_OPERATIONS[resource_type].split())]
    denies = rng.random() < 0.25
    return CreateAclsRequest.AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=rng.choice([*(f"User:{user}" for user in USERS), "User:*"]),
        host=rng.choice(["*", "*", "127.0.0.1", "10.0.0.1"]),
        operation=operation,
        permission_type=AclPermissionType.DENY if denies else AclPermissionType.ALLOW,
    )
