"""The input of an assignor: the specification of a group and of its members."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]
"""The partitions of a member by topic id; topics without partitions do not appear."""

NOTHING_ASSIGNED: Assignment = MappingProxyType({})


class MemberSpec(NamedTuple):
    """The input of an assignor for a member.

    Attributes:
        topics: the existing topics that the member is subscribed to.
        assigned: the member's present target assignment.
        instance_id: the group instance id; None for a dynamic member.
    """

    topics: Set[UUID]
    assigned: Assignment = NOTHING_ASSIGNED
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """The input of an assignor for a group.

    Attributes:
        members: the members by id.
        partitions: the number of partitions of each subscribed topic.
    """

    members: Mapping[str, MemberSpec]
    partitions: Mapping[UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
        return all(member.topics == self.partitions.keys() for member in self.members.values())
