"""Decides what clients may do: Kafka's StandardAuthorizer.

A super user may do everything. For everybody else, the ACLs decide whose pattern matches the resource and whose entry
matches principal, host and operation: if one of them denies, the operation is denied; otherwise, if one allows, it is
allowed. If no ACL of any principal has a matching pattern, `allow.everyone.if.no.acl.found` decides. In all other cases
the operation is denied.

READ, WRITE, DELETE and ALTER include DESCRIBE, and ALTER_CONFIGS includes DESCRIBE_CONFIGS, in ACLs that allow. So
denying READ does not deny DESCRIBE.

A decision looks up one pattern for the name, one for "*", and one for each length that prefixes have, so its cost does
not grow with the number of ACLs. Kafka's scans all ACLs on matching names (KAFKA-20667).

Source: KIP-11, KIP-290, KIP-679, and Kafka's StandardAuthorizerData and Authorizer. Elsewhere: the ACLs in the metadata
log (`refbroker.controller.acls`), and which permission a request needs (each handler).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol
from uuid import UUID

from kclient.errors import AuthorizationError, ConfigError
from kclient.protocol import Message, request_type
from kclient.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from kclient.protocol.messages.records.metadata_log import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from refbroker.security.acls import Acl, AclFilter, Entry, Pattern
from refbroker.security.permissions import ALL_OPERATIONS, ERRORS, Permission, bits
from refbroker.security.principals import Principal

audit = logging.getLogger("refbroker.authorizer")

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER_USERS_SETTING = "super.users"
DEFAULT_SETTING = "allow.everyone.if.no.acl.found"
SETTINGS = frozenset({SUPER_USERS_SETTING, DEFAULT_SETTING})
"""The settings of the authorizer, which in Kafka are not settings of the broker."""

DECISION_LIMIT = 10_000
"""How many decisions are remembered until the next change of ACLs."""
_LONGEST_REMEMBERED = 500
"""Characters of the name of a resource whose decisions are remembered: clients choose the names that they ask for."""

# The operations whose ACLs allow an operation; those that deny it are for the operation itself or for ALL.
_ALLOWED_BY = {operation: (operation, AclOperation.ALL) for operation in AclOperation} | {
    AclOperation.DESCRIBE: (
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.ALL,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.ALL),
}
_ALL_BITS = {resource_type: bits(operations) for resource_type, operations in ALL_OPERATIONS.items()}
_SUPER_USER, _DEFAULT_ALLOW, _DEFAULT_DENY = "SuperUser", "DefaultAllow", "DefaultDeny"


class Access(Protocol):
    """What the client of a request may do."""

    def allows(self, permission: Permission, name: str = CLUSTER_NAME, *, filters: bool = False) -> bool:
        """Return whether the client has a permission.

        Parameters:
            name: the resource; may be omitted for the cluster.
            filters: whether the client has not named the resource, so that a refusal is not logged.
        """

    def allows_any(self, permission: Permission) -> bool:
        """Return whether the client has a permission for at least one resource of its type."""

    def refusal(self, permission: Permission, name: str = CLUSTER_NAME) -> AuthorizationError | None:
        """Return the error for a client that does not have a permission, None for one that does."""

    def operations(self, resource_type: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the operations on a resource that are allowed, as the bit set of authorizedOperations."""


class FullAccess:
    """The access of every client of a broker without an authorizer."""

    def allows(self, permission: Permission, name: str = CLUSTER_NAME, *, filters: bool = False) -> bool:
        """Return True."""
        return True

    def allows_any(self, permission: Permission) -> bool:
        """Return True."""
        return True

    def refusal(self, permission: Permission, name: str = CLUSTER_NAME) -> None:
        """Return None."""

    def operations(self, resource_type: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """Return all operations."""
        return _ALL_BITS[resource_type]


FULL_ACCESS = FullAccess()


class Authorizer:
    """The ACLs of a cluster, arranged for decisions, and who needs none.

    Parameters:
        super_users: principals that may do everything, as "User:name".
        default: whether everybody may use resources without any ACL.

    Attributes:
        lookups: how many patterns and entries the decisions have looked up, for tests.
    """

    def __init__(self, super_users: Iterable[str] = (), *, default: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._default = default
        self._acls: dict[UUID, Acl] = {}
        self._entries: dict[Pattern, set[Entry]] = {}
        self._patterns: dict[tuple[int, Entry], set[Pattern]] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}
        self._decisions: dict[tuple[str, str, AclOperation, AclResourceType, str], tuple[bool, str | Acl]] = {}
        self.lookups = 0

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Authorizer | None:
        """Return the authorizer of a broker, None if its settings name none.

        Raises:
            ConfigError: the settings name another authorizer than Kafka's, or a value is invalid.
        """
        name = settings.get("authorizer.class.name", "")
        if not name:
            return None
        if name != STANDARD_AUTHORIZER:
            raise ConfigError(
                f"authorizer.class.name={name}: this broker has only {STANDARD_AUTHORIZER}, and runs no Java classes."
            )
        default = settings.get(DEFAULT_SETTING, "false").strip().lower()
        if default not in ("true", "false"):
            raise ConfigError(f"{DEFAULT_SETTING}={default} is neither true nor false")
        super_users = [user for user in map(str.strip, settings.get(SUPER_USERS_SETTING, "").split(";")) if user]
        for user in super_users:
            if ":" not in user:
                raise ConfigError(f"{SUPER_USERS_SETTING}: {user} is not a principal, such as User:{user}")
        return cls(super_users, default=default == "true")

    # ACLs

    def has(self, acl: Acl) -> bool:
        """Return whether there is such an ACL."""
        return acl.entry in self._entries.get(acl.pattern, ())

    def follow(self, records: Iterable[Message]) -> None:
        """Apply the ACLs among the records of a change of the metadata."""
        for record in records:
            if isinstance(record, AccessControlEntryRecord):
                self.add(record.id, Acl.from_record(record))
            elif isinstance(record, RemoveAccessControlEntryRecord):
                self.remove(record.id)

    def add(self, acl_id: UUID, acl: Acl) -> None:
        """Add an ACL."""
        self._acls[acl_id] = acl
        pattern = acl.pattern
        entries = self._entries.get(pattern)
        if entries is None:
            entries = self._entries[pattern] = set()
            if pattern.pattern_type == PatternType.PREFIXED:
                self._prefix_lengths.setdefault(pattern.resource_type, Counter())[len(pattern.name)] += 1
        entries.add(acl.entry)
        self._patterns.setdefault((pattern.resource_type, acl.entry), set()).add(pattern)
        self._decisions.clear()

    def remove(self, acl_id: UUID) -> None:
        """Remove an ACL, if it exists."""
        acl = self._acls.pop(acl_id, None)
        if acl is None:
            return
        pattern = acl.pattern
        entries, patterns = self._entries[pattern], self._patterns[pattern.resource_type, acl.entry]
        entries.discard(acl.entry)
        patterns.discard(pattern)
        if not patterns:
            del self._patterns[pattern.resource_type, acl.entry]
        if not entries:
            del self._entries[pattern]
            if pattern.pattern_type == PatternType.PREFIXED:
                lengths = self._prefix_lengths[pattern.resource_type]
                lengths -= Counter([len(pattern.name)])
        self._decisions.clear()

    def select(self, wanted: AclFilter) -> Iterator[tuple[UUID, Acl]]:
        """Yield the ACLs that a filter selects, with their ids."""
        return ((acl_id, acl) for acl_id, acl in self._acls.items() if wanted.matches(acl))

    # Decisions

    def access(self, principal: Principal, host: str, api_key: int) -> Access:
        """Return what a client may do.

        Parameters:
            principal: who the client is.
            host: its address, as Java writes it.
            api_key: the API of its request, for the audit log.
        """
        return ClientAccess(self, str(principal), host, api_key)

    def decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> tuple[bool, str | Acl]:
        """Return whether an operation is allowed, and the rule that decided."""
        if principal in self._super_users:
            return True, _SUPER_USER
        key = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._find(principal, host, operation, resource_type, name)
            if len(name) <= _LONGEST_REMEMBERED:
                if len(self._decisions) >= DECISION_LIMIT:
                    self._decisions.clear()
                self._decisions[key] = decision
        return decision

    def _find(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> tuple[bool, str | Acl]:
        patterns = self._matching(resource_type, name)
        for permission, operations in (
            (AclPermissionType.DENY, (operation, AclOperation.ALL)),
            (AclPermissionType.ALLOW, _ALLOWED_BY[operation]),
        ):
            entries = _entries(principal, host, operations, permission)
            for pattern in patterns:
                entry = self._first(pattern, entries)
                if entry is not None:
                    return permission == AclPermissionType.ALLOW, Acl(pattern, entry)
        if not patterns and self._default:
            return True, _DEFAULT_ALLOW
        return False, _DEFAULT_DENY

    def _matching(self, resource_type: AclResourceType, name: str) -> list[Pattern]:
        """Return the patterns of ACLs that match a resource."""
        candidates = [Pattern(resource_type, PatternType.LITERAL, each) for each in dict.fromkeys((name, WILDCARD))]
        candidates += [
            Pattern(resource_type, PatternType.PREFIXED, name[:length])
            for length in self._prefix_lengths.get(resource_type, ())
            if length <= len(name)
        ]
        self.lookups += len(candidates)
        return [pattern for pattern in candidates if pattern in self._entries]

    def _first(self, pattern: Pattern, entries: Iterable[Entry]) -> Entry | None:
        """Return the first of the entries that an ACL with this pattern has."""
        existing = self._entries[pattern]
        for entry in entries:
            self.lookups += 1
            if entry in existing:
                return entry
        return None

    def decide_any(self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Return whether an operation is allowed on at least one resource of a type, as `authorizeByResourceType`."""
        # So that super users and the default for resources without ACLs count.
        if self.decide(principal, host, operation, resource_type, "hardcode")[0]:
            return True
        denied, allowed = (
            set().union(
                *(
                    self._patterns.get((resource_type, entry), ())
                    for entry in _entries(principal, host, (operation, AclOperation.ALL), permission)
                )
            )
            for permission in (AclPermissionType.DENY, AclPermissionType.ALLOW)
        )
        everything = Pattern(resource_type, PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        return everything in allowed or any(
            pattern.pattern_type == PatternType.PREFIXED or pattern not in denied
            for pattern in allowed
            if not any(
                Pattern(resource_type, PatternType.PREFIXED, pattern.name[:end]) in denied
                for end in range(1, len(pattern.name) + 1)
            )
        )


def _entries(
    principal: str, host: str, operations: tuple[AclOperation, ...], permission: AclPermissionType
) -> list[Entry]:
    """Return the entries that apply to a client, of which there is a fixed number."""
    return [
        Entry(who, where, operation, permission)
        for who in (principal, WILDCARD_PRINCIPAL)
        for where in (host, WILDCARD)
        for operation in operations
    ]


class ClientAccess:
    """What one client may do, with an entry in the audit log for each decision.

    Parameters:
        authorizer: decides.
        principal, host: who the client is, and where.
        api_key: the API of the request.
    """

    __slots__ = ("_api_key", "_authorizer", "_host", "_principal")

    def __init__(self, authorizer: Authorizer, principal: str, host: str, api_key: int) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._api_key = api_key

    def allows(self, permission: Permission, name: str = CLUSTER_NAME, *, filters: bool = False) -> bool:
        """Return whether the client has a permission; see `Access`."""
        allowed, rule = self._authorizer.decide(self._principal, self._host, *permission, name)
        if allowed:
            self._log(logging.DEBUG, "Allowed", permission, name, rule)
        elif not filters:
            self._log(logging.INFO, "Denied", permission, name, rule)
        return allowed

    def allows_any(self, permission: Permission) -> bool:
        """Return whether the client has a permission for any resource."""
        return self._authorizer.decide_any(self._principal, self._host, *permission)

    def refusal(self, permission: Permission, name: str = CLUSTER_NAME) -> AuthorizationError | None:
        """Return the error for a client without a permission."""
        if self.allows(permission, name):
            return None
        operation, resource_type = permission
        what = "the cluster" if resource_type is AclResourceType.CLUSTER else f"{resource_type.name} {name}"
        return ERRORS[resource_type](f"{self._principal} has no ACL for {operation.name} on {what}.")

    def operations(self, resource_type: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the allowed operations on a resource; asking is not logged."""
        decide = self._authorizer.decide
        return bits(
            tuple(
                operation
                for operation in ALL_OPERATIONS[resource_type]
                if decide(self._principal, self._host, operation, resource_type, name)[0]
            )
        )

    def _log(self, level: int, result: str, permission: Permission, name: str, rule: str | Acl) -> None:
        if audit.isEnabledFor(level):
            operation, resource_type = permission
            audit.log(
                level,
                "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s with "
                "resourceRefCount = 1 based on rule %s",
                self._principal,
                result,
                operation.name,
                self._host,
                _TYPE_NAMES[resource_type],
                name,
                request_type(self._api_key).__name__.removesuffix("Request"),
                rule if isinstance(rule, str) else f"MatchingAcl(acl={rule})",
            )


_TYPE_NAMES = {each: "".join(part.title() for part in each.name.split("_")) for each in AclResourceType}
"""The names of types of resources in the audit log: "Topic", "TransactionalId"."""
