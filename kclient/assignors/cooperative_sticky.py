"""Cooperative sticky: the sticky assignor for members that keep their partitions through a rebalance (KIP-429).

Each member's subscription contains its partitions, which it keeps reading. A partition that is to move is first
assigned to no member: its owner gives it up after this rebalance and requests another one, in which the new owner
receives it. So only moved partitions pause, and no partition ever has two readers.

The user data are the generation alone, an int32: Java clients before 3.5 send it only there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from kclient.assignors.base import COOPERATIVE, EAGER, NO_RACKS, Assignment, Assignor, Member, Racks
from kclient.assignors.sticky import NO_GENERATION, assign_sticky
from kclient.types import TopicPartition

_GENERATION = struct.Struct(">i")


class CooperativeStickyAssignor(Assignor):
    """Keeps what can stay, and lets members read in the meantime; Kafka's `cooperative-sticky`."""

    name = "cooperative-sticky"
    protocols = (EAGER, COOPERATIVE)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        """Assign; see `Assignor`. Partitions that are to move are assigned to no member yet."""
        claims = {member_id: (member.owned, _generation_of(member)) for member_id, member in members.items()}
        assignment = assign_sticky(partitions, members, claims, racks)
        claimed = {partition for member in members.values() for partition in member.owned}
        return {
            member_id: [
                partition for partition in given if partition not in claimed or partition in members[member_id].owned
            ]
            for member_id, given in assignment.items()
        }

    def user_data(self, topics: Iterable[str]) -> bytes:
        """Return the generation of this member's last assignment."""
        return _GENERATION.pack(self._generation)

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """See `Assignor`."""
        self._generation = generation


def _generation_of(member: Member) -> int:
    if member.generation != NO_GENERATION or len(member.user_data) < _GENERATION.size:
        return member.generation
    generation: int = _GENERATION.unpack_from(member.user_data)[0]
    return generation
