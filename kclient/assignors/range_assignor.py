"""Range: every member gets a contiguous range of each topic's partitions.

The partitions of each topic are divided evenly among its subscribers, in order; if there is a remainder, the first
members get one partition more. So if two topics have the same number of partitions, their partitions with the same
number go to the same member, which joins of topics need (co-partitioning).

If members and replicas have racks, and a partition is not in every rack (KIP-881), each member first gets, up to the
same quota, partitions with a replica in its rack; co-partitioned topics are assigned in this way together or not at
all. The remaining partitions are divided as if there were no racks, because balance is more important than locality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kclient.assignors.base import NO_RACKS, Assignment, Assignor, Member, Racks, subscribers_by_topic
from kclient.types import TopicPartition


class RangeAssignor(Assignor):
    """Assigns each member a range of each topic; Kafka's `range`."""

    name = "range"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        """See `Assignor`."""
        subscribers = subscribers_by_topic(partitions, members)
        topics = [
            _Topic(topic, count, {member_id: members[member_id].rack for member_id in subscribers[topic]}, racks)
            for topic, count in partitions.items()
            if count and subscribers[topic]
        ]
        if any(topic.racks_matter for topic in topics):
            _match_racks(topics)
        for topic in topics:
            topic.give_stretches(lambda member_id, number: True)
        assignment: Assignment = {member_id: [] for member_id in members}
        for topic in topics:
            for number, owner in sorted(topic.owners.items()):
                assignment[owner].append(TopicPartition(topic.name, number))
        return assignment


def _match_racks(topics: Iterable[_Topic]) -> None:
    """Assign members partitions of their own rack; topics with the same subscribers and size together."""
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        alike.setdefault((tuple(topic.members), topic.count if topic.knows_racks else 0), []).append(topic)
    for (members, count), group in alike.items():
        if len(group) > 1:
            _match_together(members, count, group)
        elif group[0].racks_matter:
            group[0].give_stretches(group[0].in_rack)


def _match_together(members: Iterable[str], count: int, topics: list[_Topic]) -> None:
    """Assign the partitions of one number, of all the topics, to a member whose rack all of them have."""
    remaining = list(members)
    for number in range(count):
        for member_id in remaining:
            if all(topic.in_rack(member_id, number) and topic.room(member_id) for topic in topics):
                for topic in topics:
                    topic.give(member_id, number)
                if not any(topic.room(member_id) for topic in topics):
                    remaining.remove(member_id)
                break


class _Topic:
    """One topic during the assignment.

    Parameters:
        name, count: the topic and its number of partitions.
        members: its subscribers in order, with their racks.
        racks: the racks of all partitions' replicas.

    Attributes:
        owners: the owner of each partition so far.
        knows_racks: whether any of its subscribers has a rack.
        racks_matter: whether racks make a difference; they do not if every partition is in every rack.
    """

    def __init__(self, name: str, count: int, members: Mapping[str, str | None], racks: Racks) -> None:
        self.name = name
        self.count = count
        self.members = members
        self.owners: dict[int, str] = {}
        self._given = dict.fromkeys(members, 0)
        self._quota, self._extra = divmod(count, len(members))
        self._racks = [racks.get(TopicPartition(name, number), frozenset()) for number in range(count)]
        own = {rack for rack in members.values() if rack}
        everywhere = frozenset().union(*self._racks)
        self.knows_racks = bool(own)
        self.racks_matter = bool(own & everywhere) and any(found != everywhere for found in self._racks)

    def in_rack(self, member_id: str, number: int) -> bool:
        """Return whether a partition has a replica in the member's rack; always for a member without a rack."""
        rack = self.members[member_id]
        return not rack or rack in self._racks[number]

    def room(self, member_id: str) -> int:
        """Return how many more partitions the member may have."""
        return max(self._quota + (self._extra > 0) - self._given[member_id], 0)

    def give(self, member_id: str, number: int) -> None:
        """Assign a partition to a member."""
        self.owners[number] = member_id
        self._given[member_id] += 1
        if self._given[member_id] > self._quota:
            self._extra -= 1

    def give_stretches(self, may_have: Callable[[str, int], bool]) -> None:
        """Assign each member, within its quota, the first unassigned partitions that it may have."""
        for member_id in self.members:
            free = [number for number in range(self.count) if number not in self.owners and may_have(member_id, number)]
            for number in free[: self.room(member_id)]:
                self.give(member_id, number)
