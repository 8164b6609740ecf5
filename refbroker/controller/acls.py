"""Changes of the ACLs in the metadata log.

Checks and messages are Kafka's. Elsewhere: decisions by ACLs (`refbroker.security.authorizer`). Source: KIP-140,
KIP-290, KIP-801, and Kafka's AclApis and AclControlManager.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from uuid import UUID

from kclient.errors import InvalidRequestError, KafkaError, PolicyViolationError, UnknownServerError
from kclient.protocol import Message
from kclient.protocol.acls import CLUSTER_NAME, AclOperation, AclPermissionType, AclResourceType, PatternType
from kclient.protocol.messages.create_acls import CreateAclsRequest
from kclient.protocol.messages.records.metadata_log import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from refbroker.log.checkpoints import random_uuid
from refbroker.security.acls import Acl, AclFilter
from refbroker.security.authorizer import Authorizer

MOST_CHANGES = 10_000
"""How many ACLs one request may add or remove."""

Creation = CreateAclsRequest.AclCreation


def plan_creations(
    authorizer: Authorizer, rng: random.Random, creations: Sequence[Creation]
) -> tuple[list[Message], list[KafkaError | None]]:
    """Return the records that add ACLs, and the error of each creation; one that exists is no error.

    Raises:
        UnknownServerError: an ACL has an element that only filters have; Kafka fails in this way, too.
        PolicyViolationError: the request would add more than 10,000 ACLs.
    """
    for creation in creations:
        _check_no_filter(creation)
    added: set[Acl] = set()
    records: list[Message] = []
    errors: list[KafkaError | None] = []
    for creation in creations:
        error = _check(creation)
        errors.append(error)
        if error is not None:
            continue
        record = _record(rng, creation)
        acl = Acl.from_record(record)
        if acl not in added and not authorizer.has(acl):
            added.add(acl)
            records.append(record)
    if len(records) > MOST_CHANGES:
        raise PolicyViolationError("Unable to perform excessively large batch operation.")
    return records, errors


def _check_no_filter(creation: Creation) -> None:
    """Raise if an element of an ACL is ANY or MATCH, which stand in filters only."""
    types = (creation.resource_type, creation.operation, creation.permission_type)
    if AclOperation.ANY in types or creation.resource_pattern_type in (PatternType.ANY, PatternType.MATCH):
        raise UnknownServerError


def _check(creation: Creation) -> KafkaError | None:
    """Return why an ACL cannot be created."""
    if creation.resource_type == AclResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return InvalidRequestError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        return InvalidRequestError("Invalid empty resource name")
    for what, enum, number in (
        ("resourceType", AclResourceType, creation.resource_type),
        ("patternType", PatternType, creation.resource_pattern_type),
        ("operation", AclOperation, creation.operation),
        ("permissionType", AclPermissionType, creation.permission_type),
    ):
        if enum(number).name == "UNKNOWN":
            return InvalidRequestError(f"Invalid {what} UNKNOWN")
    if ":" not in creation.principal:
        return InvalidRequestError(
            f"Could not parse principal from `{creation.principal}` (no colon is present separating the principal "
            "type from the principal name)"
        )
    return None


def _record(rng: random.Random, creation: Creation) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=random_uuid(rng),
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def plan_deletions(
    authorizer: Authorizer, filters: Iterable[AclFilter]
) -> tuple[list[Message], list[list[Acl] | KafkaError]]:
    """Return the records that remove ACLs, and for each filter the ACLs that it selects or its error.

    Raises:
        InvalidRequestError: the request would remove more than 10,000 ACLs.
    """
    removed: dict[UUID, Message] = {}
    results: list[list[Acl] | KafkaError] = []
    for wanted in filters:
        error = _check_filter(wanted)
        if error is not None:
            results.append(error)
            continue
        selected = dict(authorizer.select(wanted))
        removed |= {acl_id: RemoveAccessControlEntryRecord(id=acl_id) for acl_id in selected}
        if len(removed) > MOST_CHANGES:
            raise InvalidRequestError(f"Cannot remove more than {MOST_CHANGES} acls in a single delete operation.")
        results.append(list(selected.values()))
    return list(removed.values()), results


def _check_filter(wanted: AclFilter) -> KafkaError | None:
    if not wanted.resource_type or not wanted.pattern_type:
        return InvalidRequestError("Unknown patternFilter.")
    if not wanted.operation or not wanted.permission:
        return InvalidRequestError("Unknown entryFilter.")
    return None
