"""The assignor `range`: of each topic, consecutive partitions to the members that are subscribed to it.

Members stand in the order of their instance ids, after them those without one in the order of their ids. Each gets
the number of partitions divided by the number of members, the first ones one more until the rest is given out. Topics
with as many partitions and the same members are so co-partitioned: a member has the same numbers of each. What
members have now does not matter, but with instance ids a rolling restart leaves everything where it is.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from refbroker.coordinators.groups.assignors.spec import Assignment, GroupSpec, MemberSpec


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """The assignment of each member."""
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
