"""The assignor `uniform` for members with different subscriptions.

1. Members keep their partitions of subscribed topics.
2. Unassigned partitions go to the subscribers of their topic with the fewest partitions, topics with the most
   partitions per subscriber first.
3. Topic by topic, partitions move from the subscribers with the most to those with the fewest until these differ by at
   most one. This repeats until nothing moves, at most 16 times. With overlapping but different subscriptions the result
   is close to balanced, but not always balanced.

The order among members with equally many partitions is Kafka's, because a Kafka broker may have coordinated the group
before: see `Ranking`.
"""

from __future__ import annotations

from fractions import Fraction
from uuid import UUID

from refbroker.coordinators.groups.assignors.ranking import Ranking
from refbroker.coordinators.groups.assignors.spec import Assignment, GroupSpec

MOST_ROUNDS = 16

_LONG_BITS = 64
_LONG_SIGN = 1 << (_LONG_BITS - 1)


class HeterogeneousAssignment:
    """Computes an assignment.

    Parameters:
        group: the members and topics of the group.
    """

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._subscribers: dict[UUID, list[str]] = {topic: [] for topic in group.partitions}
        self._sizes: dict[str, int] = {}
        self._owners: dict[UUID, list[str | None]] = {
            topic: [None] * count for topic, count in group.partitions.items()
        }
        for member_id in sorted(group.members):
            member = group.members[member_id]
            self._sizes[member_id] = 0
            for topic in member.topics:
                self._subscribers[topic].append(member_id)
            for topic, partitions in member.assigned.items():
                if topic in member.topics:
                    self._sizes[member_id] += len(partitions)
                    for partition in partitions:
                        self._owners[topic][partition] = member_id

    def build(self) -> dict[str, Assignment]:
        """Return the assignment of each member."""
        topics = sorted((topic for topic in self._owners if self._subscribers[topic]), key=self._order)
        for topic in topics:
            self._give_out(topic)
        self._balance([topic for topic in topics if len(self._subscribers[topic]) > 1])
        built: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in self._group.members}
        for topic, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner is not None:
                    built[owner].setdefault(topic, set()).add(partition)
        return {
            member_id: {topic: frozenset(partitions) for topic, partitions in topics_of.items()}
            for member_id, topics_of in built.items()
        }

    def _order(self, topic: UUID) -> tuple[Fraction, int, int, int]:
        count = len(self._subscribers[topic])
        # Kafka compares an id as two signed numbers.
        high, low = topic.int >> _LONG_BITS, topic.int & (2 * _LONG_SIGN - 1)
        return -Fraction(self._group.partitions[topic], count), count, high ^ _LONG_SIGN, low ^ _LONG_SIGN

    def _give_out(self, topic: UUID) -> None:
        """Assign unassigned partitions to the subscribers with the fewest partitions."""
        ranking = Ranking(self._subscribers[topic], self._sizes)
        for partition, owner in enumerate(self._owners[topic]):
            if owner is None:
                receiver = ranking.next_receiver()
                self._owners[topic][partition] = receiver
                self._sizes[receiver] += 1

    def _balance(self, topics: list[UUID]) -> None:
        for _ in range(MOST_ROUNDS):
            # Moves of the next topic may have unbalanced a topic again.
            moved = sum(self._balance_topic(topic) for topic in topics)
            if not moved:
                return

    def _balance_topic(self, topic: UUID) -> bool:
        """Move partitions of a topic between its subscribers; return False if none had to move."""
        ranking = Ranking(self._subscribers[topic], self._sizes)
        if ranking.spread <= 1:
            return False
        # A member does not give away a partition that it has just received.
        owned: dict[str, list[int]] = {member_id: [] for member_id in self._subscribers[topic]}
        for partition, owner in enumerate(self._owners[topic]):
            if owner is not None:
                owned[owner].append(partition)
        moved = False
        while True:
            giver = ranking.next_giver()
            while giver is not None and not owned[giver]:
                ranking.exclude_giver()
                giver = ranking.next_giver()
            if giver is None:
                return moved
            receiver = ranking.next_receiver()
            if ranking.is_balanced:
                return moved
            self._owners[topic][owned[giver].pop()] = receiver
            self._sizes[giver] -= 1
            self._sizes[receiver] += 1
            moved = True
