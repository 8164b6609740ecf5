"""ACLs and the filters that select them.

Source: KIP-11, KIP-290, and Kafka's StandardAcl, ResourcePatternFilter and AccessControlEntryFilter. Elsewhere:
decisions (`refbroker.security.authorizer`), and changes (`refbroker.controller.acls`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kclient.errors import ProtocolError
from kclient.protocol.acls import WILDCARD, AclOperation, AclPermissionType, AclResourceType, PatternType
from kclient.protocol.messages.records.metadata_log import AccessControlEntryRecord


class Pattern(NamedTuple):
    """The resources that an ACL is for: those with this name, or with names that begin with it."""

    resource_type: int
    pattern_type: int
    name: str


class Entry(NamedTuple):
    """Who may do what, or may not, from which host."""

    principal: str
    host: str
    operation: int
    permission: int


class Acl(NamedTuple):
    """A pattern and an entry."""

    pattern: Pattern
    entry: Entry

    @classmethod
    def from_record(cls, record: AccessControlEntryRecord) -> Acl:
        """Return the ACL of a record in the metadata log."""
        return cls(
            Pattern(record.resource_type, record.pattern_type, record.resource_name),
            Entry(record.principal, record.host, record.operation, record.permission_type),
        )

    def __str__(self) -> str:
        # As Kafka's audit log has it.
        (resource_type, pattern_type, name), (principal, host, operation, permission) = self
        return (
            f"StandardAcl(resourceType={AclResourceType(resource_type).name}, resourceName={name}, "
            f"patternType={PatternType(pattern_type).name}, principal={principal}, host={host}, "
            f"operation={AclOperation(operation).name}, permissionType={AclPermissionType(permission).name})"
        )


class AclFilter(NamedTuple):
    """A filter of DescribeAcls or DeleteAcls; None, and ANY of each type, select everything.

    Attributes:
        pattern_type: besides LITERAL, PREFIXED and ANY, which compare the name as it is, MATCH selects all patterns
            that the resource of this name matches.
    """

    resource_type: int
    pattern_type: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @classmethod
    def from_request(cls, fields: Any) -> AclFilter:
        """Return the filter in the fields of a request; numbers that Kafka does not have become UNKNOWN.

        Raises:
            ProtocolError: an element is UNKNOWN in the request already, for which Kafka closes the connection.
        """
        check_no_unknown(
            fields.resource_type_filter, fields.pattern_type_filter, fields.operation, fields.permission_type
        )
        return cls(
            AclResourceType(fields.resource_type_filter),
            PatternType(fields.pattern_type_filter),
            fields.resource_name_filter,
            fields.principal_filter,
            fields.host_filter,
            AclOperation(fields.operation),
            AclPermissionType(fields.permission_type),
        )

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter selects an ACL."""
        return self._matches_pattern(acl.pattern) and self._matches_entry(acl.entry)

    def _matches_pattern(self, pattern: Pattern) -> bool:
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if pattern.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == WILDCARD

    def _matches_entry(self, entry: Entry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermissionType.ANY, entry.permission)
        )


def check_no_unknown(*numbers: int) -> None:
    """Raise if a number in a request stands for UNKNOWN.

    Raises:
        ProtocolError: it does; Kafka closes the connection.
    """
    if AclOperation.UNKNOWN in numbers:
        raise ProtocolError("an ACL or filter in the request has UNKNOWN elements")
