"""The assignor `range`, which gives each subscriber of a topic a range of consecutive partitions.

Static members come first, in the order of their instance ids, then dynamic members in the order of their member ids.
Each member gets the number of partitions divided by the number of members; the first members get one more each until
the remainder is used up. Topics with the same number of partitions and the same members are therefore co-partitioned:
a member gets the same partition numbers of each. Present assignments are ignored, but with instance ids a rolling
restart does not change the assignment.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from refbroker.coordinators.groups.assignors.spec import Assignment, GroupSpec, MemberSpec


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """Return the assignment of each member."""
    subscribers = Counter(topic for member in group.members.values() for topic in member.topics)
    begun: Counter[UUID] = Counter()
    assignments: dict[str, Assignment] = {}
    for member_id, member in sorted(group.members.items(), key=_order):
        mine = {}
        for topic in group.partitions:
            if topic not in member.topics:
                continue
            each, extra = divmod(group.partitions[topic], subscribers[topic])
            place = begun[topic]
            begun[topic] += 1
            start = place * each + min(place, extra)
            partitions = frozenset(range(start, start + each + (place < extra)))
            if partitions:
                mine[topic] = partitions
        assignments[member_id] = mine
    return assignments


def _order(item: tuple[str, MemberSpec]) -> tuple[bool, str]:
    member_id, member = item
    return (True, member_id) if member.instance_id is None else (False, member.instance_id)
