"""Cooperative sticky: the sticky assignor for members that keep their partitions through a rebalance (KIP-429).

Each member says what it owns with its subscription, and goes on reading it. A partition that is to change hands
is given to nobody at first: its owner gives it up after this rebalance and asks for another, in which it goes to who
is to have it. So nothing stops but what moves, and no partition ever has two readers.

The user data are the generation alone, an int32: members of Java before 3.5 do not tell it otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from kclient.assignors.base import COOPERATIVE, EAGER, NO_RACKS, Assignment, Assignor, Member, Racks
from kclient.assignors.sticky import NO_GENERATION, assign_sticky
from kclient.types import TopicPartition

_GENERATION = struct.Struct(">i")


class CooperativeStickyAssignor(Assignor):
    """Keeps what can stay, and lets members go on meanwhile; Kafka's `cooperative-sticky`."""

    name = "cooperative-sticky"
    protocols = (EAGER, COOPERATIVE)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        """See `Assignor`; what is to change hands is given to nobody yet."""
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
        """The generation in which this member last got partitions."""
        return _GENERATION.pack(self._generation)

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """See `Assignor`."""
        self._generation = generation


def _generation_of(member: Member) -> int:
    if member.generation != NO_GENERATION or len(member.user_data) < _GENERATION.size:
        return member.generation
    generation: int = _GENERATION.unpack_from(member.user_data)[0]
    return generation
