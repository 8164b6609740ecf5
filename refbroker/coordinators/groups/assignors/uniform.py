"""The assignor `uniform`, the default: it balances the partitions to within one, and moves as few as possible.

Balance comes before stickiness. When all members are subscribed to the same topics, the algorithm is this:

1. The quota of a member is the number of partitions divided by the number of members, rounded down; the remainder is
   the number of members whose quota is one higher. In the order of member ids, a member that already has that many
   partitions gets the higher quota; another member gets it only if no more members are left than higher quotas.
2. Members keep partitions up to their quota. The others, and unassigned ones, are assigned in order to members below
   their quota.

Elsewhere: members with different subscriptions (`uniform_heterogeneous`).
"""

from __future__ import annotations

from itertools import islice
from uuid import UUID

from refbroker.coordinators.groups.assignors.spec import Assignment, GroupSpec
from refbroker.coordinators.groups.assignors.uniform_heterogeneous import HeterogeneousAssignment


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    """Return the assignment of each member."""
    if not group.members or not group.partitions:
        return {member_id: {} for member_id in group.members}
    return _assign_homogeneous(group) if group.is_homogeneous else HeterogeneousAssignment(group).build()


def _assign_homogeneous(group: GroupSpec) -> dict[str, Assignment]:
    taken = {
        (topic, partition)
        for member in group.members.values()
        for topic, partitions in member.assigned.items()
        for partition in partitions
    }
    unassigned = [
        (topic, partition)
        for topic, count in group.partitions.items()
        for partition in range(count)
        if (topic, partition) not in taken
    ]
    quota, extra = divmod(sum(group.partitions.values()), len(group.members))
    kept: dict[str, dict[UUID, set[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for place, member_id in enumerate(sorted(group.members)):
        may_have_extra = extra > 0
        kept[member_id], left, given_up = _keep(group, member_id, quota + may_have_extra)
        unassigned += given_up
        if left and may_have_extra and len(group.members) - place > extra:
            # Another one may have the extra partition already, and would have to give it up.
            left -= 1
            may_have_extra = False
        if left:
            unfilled.append((member_id, left))
        extra -= may_have_extra
    rest = iter(unassigned)
    for member_id, wanted in unfilled:
        for topic, partition in islice(rest, wanted):
            kept[member_id].setdefault(topic, set()).add(partition)
    return {
        member_id: {topic: frozenset(partitions) for topic, partitions in topics.items()}
        for member_id, topics in kept.items()
    }


def _keep(group: GroupSpec, member_id: str, quota: int) -> tuple[dict[UUID, set[int]], int, list[tuple[UUID, int]]]:
    """Return the partitions that a member keeps, how many more it may get, and the partitions that it gives up."""
    kept: dict[UUID, set[int]] = {}
    given_up: list[tuple[UUID, int]] = []
    for topic, partitions in group.members[member_id].assigned.items():
        if topic not in group.partitions:
            continue
        stay = sorted(partitions)[:quota]
        given_up += [(topic, partition) for partition in sorted(partitions)[quota:]]
        quota -= len(stay)
        if stay:
            kept[topic] = set(stay)
    return kept, quota, given_up
