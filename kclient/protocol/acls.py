"""The numbers that ACLs are made of, on the wire and in the metadata log (KIP-11, KIP-290).

Names and numbers are those of Java's AclOperation, AclPermissionType, ResourceType and PatternType. Elsewhere: the
rules by which ACLs allow or deny an operation (`refbroker.security`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class _AclNumber(IntEnum):
    """A number of which later versions of Kafka may have more values; those are UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)


class AclOperation(_AclNumber):
    """An operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    """In filters: every operation."""
    ALL = 2
    """In ACLs: the ACL covers every operation."""
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(_AclNumber):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    """In filters: both."""
    DENY = 2
    ALLOW = 3


class AclResourceType(_AclNumber):
    """What an ACL protects."""

    UNKNOWN = 0
    ANY = 1
    """In filters: every type."""
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_AclNumber):
    """How the resource name of an ACL is compared with the names of resources."""

    UNKNOWN = 0
    ANY = 1
    """In filters: every pattern type with this very name."""
    MATCH = 2
    """In filters: every pattern that matches this name, prefixes and "*" included."""
    LITERAL = 3
    """The same name, or any name if it is "*"."""
    PREFIXED = 4
    """Every name that begins with it."""


CLUSTER_NAME = "kafka-cluster"
"""The only resource name of the type CLUSTER."""
WILDCARD = "*"
"""A literal resource name that matches all names, and a host that matches all hosts."""
WILDCARD_PRINCIPAL = "User:*"
"""The principal of an ACL for everybody."""
