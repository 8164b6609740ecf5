"""Round robin: all partitions in one sequence, assigned to the members in turn.

A member that does not subscribe to a partition's topic is skipped. With equal subscriptions the members' counts differ
by one at most; with unequal ones the result can be unbalanced, and most partitions move when a member leaves:
`StickyAssignor` avoids both.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from kclient.assignors.base import NO_RACKS, Assignment, Assignor, Member, Racks, in_order
from kclient.types import TopicPartition


class RoundRobinAssignor(Assignor):
    """Assigns the partitions of all topics in turn, in order of topic and number; Kafka's `roundrobin`."""

    name = "roundrobin"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        """See `Assignor`; racks do not matter."""
        assignment: Assignment = {member_id: [] for member_id in members}
        subscriptions = {member_id: frozenset(member.topics) for member_id, member in members.items()}
        wanted = frozenset().union(*subscriptions.values()) if subscriptions else frozenset()
        turns = cycle(in_order(members))
        for topic in sorted(wanted & partitions.keys()):
            for number in range(partitions[topic]):
                owner = next(member_id for member_id in turns if topic in subscriptions[member_id])
                assignment[owner].append(TopicPartition(topic, number))
        return assignment
