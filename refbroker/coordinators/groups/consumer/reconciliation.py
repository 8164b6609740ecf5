"""The steps of a member from its current partitions to its target assignment.

One member must release a partition before another one gets it. So a member first releases partitions that are not in
its target (UNREVOKED_PARTITIONS), and stays at its epoch until a heartbeat confirms it. Then it advances to the epoch
of the target and gets the free partitions. If others still own some of them, it waits (UNRELEASED_PARTITIONS) and gets
the rest with later heartbeats. Partitions that stay assigned are never interrupted.

    state                   condition                         step
    STABLE                  the target is newer               advance towards it
                            it has changed its subscription   revoke topics that it no longer subscribes to
                            otherwise                         none
    UNREVOKED_PARTITIONS    it has released its partitions    advance towards the target
                            it has changed its subscription   as above
                            otherwise                         none
    UNRELEASED_PARTITIONS   always                            advance towards the target
    UNKNOWN                 it reports no partitions          advance towards the target
                            otherwise                         FENCED_MEMBER_EPOCH, so that it rejoins
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple
from uuid import UUID

from kclient.errors import FencedMemberEpochError
from refbroker.coordinators.groups.assignors.spec import Assignment
from refbroker.coordinators.groups.consumer.member import ConsumerMember, PartitionEpochs
from refbroker.coordinators.groups.consumer.states import STATES, MemberEvent, MemberState

Owned = Mapping[UUID, Set[int]]
"""The partitions that a member reports."""


class Goal(NamedTuple):
    """The target of a member.

    Attributes:
        epoch: the epoch of the target assignment.
        target: the target partitions.
        topics: the subscribed topics; partitions of others are not assigned, even if they are in the target.
        subscription_changed: whether the member has just changed them.
        owned: the partitions it reports, None if it does not.
        is_free: returns whether no member has a partition.
    """

    epoch: int
    target: Assignment
    topics: Set[UUID]
    subscription_changed: bool
    owned: Owned | None
    is_free: Callable[[UUID, int], bool]

    def still_owned(self, partitions: PartitionEpochs) -> bool:
        """Return whether the member may still have some of these."""
        if self.owned is None:
            return True
        return any(not numbers.isdisjoint(partitions.get(topic, ())) for topic, numbers in self.owned.items())


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Return the member after the next step; unchanged if none is possible.

    Raises:
        FencedMemberEpochError: it has to release all partitions and rejoin.
    """
    return _STEPS[member.state](member, goal)


def _from_stable(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    if member.epoch != goal.epoch:
        return _advance(member, goal)
    return _leave_topics(member, goal) if goal.subscription_changed else member


def _from_unrevoked(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    if not goal.still_owned(member.revoking):
        return _advance(member, goal)
    return _leave_topics(member, goal) if goal.subscription_changed else member


def _from_unknown(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    if goal.owned is None or goal.owned:
        raise FencedMemberEpochError(
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        )
    return _advance(member, goal)


def _leave_topics(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Revoke topics that the member is no longer subscribed to, before there is a new target."""
    left = {topic: partitions for topic, partitions in member.assigned.items() if topic not in goal.topics}
    if not left:
        return member
    assigned = {topic: partitions for topic, partitions in member.assigned.items() if topic in goal.topics}
    revoking = {topic: dict(partitions) for topic, partitions in member.revoking.items()}
    for topic, partitions in left.items():
        revoking.setdefault(topic, {}).update(partitions)
    if goal.still_owned(revoking):
        return _moved(member, MemberEvent.MUST_REVOKE, member.epoch, assigned, revoking)
    return member.with_(previous_epoch=member.epoch, assigned=assigned)


def _advance(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Advance a member as far as the other members allow."""
    assigned: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    taking: dict[UUID, dict[int, int]] = {}
    waits = False
    for topic in dict.fromkeys((*goal.target, *member.assigned)):
        target = goal.target.get(topic, frozenset()) if topic in goal.topics else frozenset()
        has = member.assigned.get(topic, {})
        giving_up = member.revoking.get(topic, {})
        kept = {number: epoch for number, epoch in has.items() if number in target}
        lost = {number: epoch for number, epoch in has.items() if number not in target}
        taken = {}
        for number in sorted(target - kept.keys()):
            # Partitions that it was to release, and is to have again, cannot belong to another member.
            if number in giving_up or goal.is_free(topic, number):
                taken[number] = goal.epoch
            else:
                waits = True
        for found, where in ((kept, assigned), (lost, revoking), (taken, taking)):
            if found:
                where[topic] = found
    if revoking and goal.still_owned(revoking):
        return _moved(member, MemberEvent.MUST_REVOKE, member.epoch, assigned, revoking)
    for topic, partitions in taking.items():
        assigned.setdefault(topic, {}).update(partitions)
    event = MemberEvent.MUST_WAIT if waits else MemberEvent.HAS_TARGET
    return _moved(member, event, goal.epoch, assigned, {})


def _moved(
    member: ConsumerMember, event: MemberEvent, epoch: int, assigned: PartitionEpochs, revoking: PartitionEpochs
) -> ConsumerMember:
    return member.with_(
        state=STATES.next_state(member.state, event, member.member_id),
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        revoking=revoking,
    )


_STEPS: dict[MemberState, Callable[[ConsumerMember, Goal], ConsumerMember]] = {
    MemberState.STABLE: _from_stable,
    MemberState.UNREVOKED_PARTITIONS: _from_unrevoked,
    MemberState.UNRELEASED_PARTITIONS: _advance,
    MemberState.UNKNOWN: _from_unknown,
}
