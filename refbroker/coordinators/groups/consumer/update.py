"""A change of a member and of its group, in steps that each add records.

1. The member: its subscription and properties, if they have changed.
2. The epoch: incremented if the member has changed its subscription, or the topics of the group have changed. A regular
   expression has an effect when it is resolved.
3. The target: computed if the epoch is ahead of it, with the assignor that most members prefer. At most once in
   `consumer.assignment.interval.ms`; otherwise a later heartbeat computes it.
4. The member again: one step from its current partitions to its target.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from refbroker.coordinators.groups.assignors import ASSIGNORS
from refbroker.coordinators.groups.assignors.spec import Assignment, GroupSpec, MemberSpec
from refbroker.coordinators.groups.consumer.group import ConsumerGroup
from refbroker.coordinators.groups.consumer.member import ConsumerMember
from refbroker.coordinators.groups.consumer.patterns import PatternChange, Patterns
from refbroker.coordinators.groups.consumer.reconciliation import Goal, Owned, reconcile
from refbroker.coordinators.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    partition_metadata_tombstone,
    target_epoch_record,
    target_record,
)
from refbroker.coordinators.groups.consumer.sessions import Sessions
from refbroker.coordinators.groups.consumer.settings import ConsumerSettings
from refbroker.coordinators.groups.consumer.topics import GroupTopics
from refbroker.coordinators.groups.coordinator_timer import CoordinatorTimer
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.metrics.counters import GroupStats

logger = logging.getLogger(__name__)


class Environment(NamedTuple):
    """The parts that requests about consumer groups need.

    Attributes:
        groups: the consumer groups of the partition, by id.
        topics: the topics of the cluster.
        settings: returns the settings of a group.
        new_uuid: creates member ids.
        stats: counts rebalances.
    """

    groups: dict[str, ConsumerGroup]
    timer: CoordinatorTimer
    topics: GroupTopics
    settings: Callable[[str], ConsumerSettings]
    sessions: Sessions
    patterns: Patterns
    new_uuid: Callable[[], str]
    stats: GroupStats


class MemberUpdate:
    """The change of a member.

    Parameters:
        group: the group before the change.
        member: the member before the change, or a new one.
        updated: the member after the change.
        records: the list that the records of the change are added to.

    Attributes:
        epoch: the epoch of the group after the change.
        subscription_changed: whether the subscription of the member has changed.
    """

    def __init__(
        self,
        environment: Environment,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        records: list[CoordinatorRecord],
    ) -> None:
        self._environment = environment
        self._group = group
        self._member = member
        self._updated = updated
        self._records = records
        self.epoch = group.epoch
        self.subscription_changed = False

    def describe_member(self, may_see: Callable[[str], bool]) -> None:
        """Add the records of steps 1 and 2.

        Parameters:
            may_see: whether the client may describe a topic.

        Raises:
            InvalidRegularExpressionError: the regular expression of the member is invalid.
        """
        group, member, updated = self._group, self._member, self._updated
        if updated != member:
            self._records.append(member_record(group.group_id, updated))
        names_changed = updated.topics != member.topics
        pattern = self._environment.patterns.update(group, member, updated, self._records, may_see)
        self.subscription_changed = names_changed or pattern is not PatternChange.NONE
        counts = names_changed or pattern is PatternChange.CHANGED_AND_RESOLVED
        if counts or group.has_stale_metadata:
            self._count_up(counts)

    def _count_up(self, counts: bool) -> None:
        group = self._group
        members = group.members_with(self._updated)
        metadata_hash = self._environment.topics.hash_of(group.subscribed_topics(members.values()))
        if counts or metadata_hash != group.metadata_hash:
            self.epoch += 1
            self._records.append(epoch_record(group.group_id, self.epoch, metadata_hash))
            self._environment.stats.consumer_rebalances += 1
            logger.info(
                "[Group %s] Bumped group epoch to %d with metadata hash %d.", group.group_id, self.epoch, metadata_hash
            )
        group.topics_checked(self.epoch)
        if group.has_partition_metadata:
            self._records.append(partition_metadata_tombstone(group.group_id))

    def assign(self) -> tuple[int, Assignment]:
        """Add the records of step 3; return the epoch of the target assignment, and the target of the member."""
        group, environment = self._group, self._environment
        settings, now = environment.settings(group.group_id), environment.timer.now()
        too_early = (
            group.assignment_timestamp_ms
            and settings.assignment_interval_ms
            and now < group.assignment_timestamp_ms + settings.assignment_interval_ms
        )
        if group.assignment_epoch >= self.epoch or too_early:
            return group.assignment_epoch, group.target_of(self._updated)
        members = group.members_with(self._updated)
        name = group.preferred_assignor(members.values())
        if name is None or name not in ASSIGNORS:
            # No member requests one, or the log has one that this broker lacks.
            name = settings.assignors[0]
        targets = ASSIGNORS[name](self._spec(members))
        logger.info(
            "[Group %s] Computed a new target assignment for epoch %d with '%s' assignor.",
            group.group_id,
            self.epoch,
            name,
        )
        for member_id in members:
            target = targets.get(member_id, {})
            if target != group.targets.get(member_id):
                self._records.append(target_record(group.group_id, member_id, target))
        self._records.append(target_epoch_record(group.group_id, self.epoch, now))
        return self.epoch, targets.get(self._updated.member_id, {})

    def _spec(self, members: dict[str, ConsumerMember]) -> GroupSpec:
        group, topics = self._group, self._environment.topics
        specs = {
            member_id: MemberSpec(
                topics.ids(group.topics_of(member)).keys(),
                group.target_of(member) if member is self._updated else group.targets.get(member_id, {}),
                member.instance_id,
            )
            for member_id, member in members.items()
        }
        return GroupSpec(specs, topics.ids(group.subscribed_topics(members.values())))

    def reconcile(self, epoch: int, target: Assignment, owned: Owned | None) -> ConsumerMember:
        """Add the records of step 4; return the member after it.

        Parameters:
            epoch: the epoch of the target assignment.
            target: the target of the member.
            owned: the partitions that it reports.

        Raises:
            FencedMemberEpochError: it has to rejoin.
        """
        group, member = self._group, self._updated
        if not self.subscription_changed and member.is_reconciled_to(epoch):
            return member
        topics = self._environment.topics.ids(group.topics_of(member)).keys()
        goal = Goal(epoch, target, topics, self.subscription_changed, owned, group.is_free)
        reconciled = reconcile(member, goal)
        if reconciled != member:
            self._records.append(current_record(group.group_id, reconciled))
            if reconciled.classic is None:
                self._environment.sessions.await_revocation(group.group_id, reconciled)
        return reconciled
