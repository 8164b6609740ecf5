"""What an assignor is told of a group."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]
"""The partitions of a member, by topic; topics without any are left out."""

NOTHING_ASSIGNED: Assignment = MappingProxyType({})


class MemberSpec(NamedTuple):
    """What an assignor is told of a member.

    Attributes:
        topics: it is subscribed to, those that exist.
        assigned: what it was to have until now.
        instance_id: of a static member.
    """

    topics: Set[UUID]
    assigned: Assignment = NOTHING_ASSIGNED
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """What an assignor is told of a group.

    Attributes:
        members: by id.
        partitions: how many each of the topics has that a member is subscribed to.
    """

    members: Mapping[str, MemberSpec]
    partitions: Mapping[UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
        return all(member.topics == self.partitions.keys() for member in self.members.values())
