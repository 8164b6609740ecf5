"""The timers of members of consumer groups, and the removal of members.

Timers, each for a group and a member:

    timer     starts with                                     expires
    session   each heartbeat                                  after the session timeout
    revoke    a response with partitions to revoke            after the rebalance timeout, unless they are released
    join      a response that makes a classic member rejoin   after the rebalance timeout, without a JoinGroup
    sync      the JoinGroup of a classic member               after the rebalance timeout, without a SyncGroup

When a timer expires, the member is removed, its partitions are free, and the group epoch is incremented. If only
members with the classic protocol remain, the group becomes a classic one, if the migration policy permits it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TypeVar

from refbroker.coordinators.groups.classic.machine import ClassicGroups
from refbroker.coordinators.groups.consumer.group import ConsumerGroup
from refbroker.coordinators.groups.consumer.member import ConsumerMember
from refbroker.coordinators.groups.consumer.migration import Downgrade, may_downgrade
from refbroker.coordinators.groups.consumer.records import epoch_record, member_tombstones, pattern_tombstone
from refbroker.coordinators.groups.consumer.settings import ConsumerSettings
from refbroker.coordinators.groups.consumer.topics import GroupTopics
from refbroker.coordinators.groups.coordinator_timer import NOTHING, RETRY_AFTER_MS, CoordinatorTimer, Result
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.coordinators.runtime import CoordinatorResult

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Sessions:
    """The members of the consumer groups of a partition, and their timers.

    Parameters:
        groups: the consumer groups, by id.
        classic: takes over groups that become classic ones.
        timer: the clock, and operations at later times.
        topics: the topics of the cluster.
        settings: returns the settings of a group.
    """

    def __init__(
        self,
        groups: dict[str, ConsumerGroup],
        classic: ClassicGroups,
        timer: CoordinatorTimer,
        topics: GroupTopics,
        settings: Callable[[str], ConsumerSettings],
    ) -> None:
        self._groups = groups
        self._classic = classic
        self._timer = timer
        self._topics = topics
        self._settings = settings
        self._told_to_join: set[tuple[str, str]] = set()

    # Timers

    def keep_alive(self, group_id: str, member: ConsumerMember) -> None:
        """Restart a member's session."""
        timeout_ms = (
            self._settings(group_id).session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
        )
        self._limit("session", group_id, member.member_id, timeout_ms, "its session expired")

    def await_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Start the rebalance timeout of a member that has to release partitions; otherwise stop it."""
        member_id, epoch, timeout_ms = member.member_id, member.epoch, member.rebalance_timeout_ms
        name = _timer_name("revoke", group_id, member_id)
        if not member.revoking:
            self._timer.cancel(name)
            return

        def is_over() -> Result:
            group = self._groups.get(group_id)
            late = None if group is None else group.members.get(member_id)
            if late is None or late.epoch != epoch:
                return NOTHING
            return self._fence(group_id, member_id, f"it failed to transition from epoch {epoch} within {timeout_ms}ms")

        self._timer.schedule(name, timeout_ms, is_over, RETRY_AFTER_MS)

    def await_join(self, group_id: str, member: ConsumerMember) -> None:
        """Start the rebalance timeout in which a classic member has to join again, unless it runs already."""
        if (group_id, member.member_id) not in self._told_to_join:
            self._told_to_join.add((group_id, member.member_id))
            reason = "the classic member failed to join within the rebalance timeout"
            self._limit("join", group_id, member.member_id, member.rebalance_timeout_ms, reason)

    def has_joined(self, group_id: str, member: ConsumerMember) -> None:
        """Start the rebalance timeout in which a classic member that has joined has to request its assignment."""
        self._forget("join", group_id, member.member_id)
        self.keep_alive(group_id, member)
        reason = "the member failed to sync within timeout"
        self._limit("sync", group_id, member.member_id, member.rebalance_timeout_ms, reason)

    def has_synced(self, group_id: str, member: ConsumerMember) -> None:
        """Stop the timer of a classic member that has its assignment."""
        self._forget("sync", group_id, member.member_id)
        self.keep_alive(group_id, member)

    def loaded(self, group: ConsumerGroup) -> None:
        """Start the timers of a group from the log."""
        for member in group.members.values():
            self.keep_alive(group.group_id, member)
            if member.classic is None:
                self.await_revocation(group.group_id, member)

    def _limit(self, kind: str, group_id: str, member_id: str, timeout_ms: int, reason: str) -> None:
        def is_over() -> Result:
            if kind == "join":
                self._told_to_join.discard((group_id, member_id))
            return self._fence(group_id, member_id, reason)

        self._timer.schedule(_timer_name(kind, group_id, member_id), timeout_ms, is_over, RETRY_AFTER_MS)

    def _forget(self, kind: str, group_id: str, member_id: str) -> None:
        if kind == "join":
            self._told_to_join.discard((group_id, member_id))
        self._timer.cancel(_timer_name(kind, group_id, member_id))

    # Leaving

    def _fence(self, group_id: str, member_id: str, reason: str) -> Result:
        group = self._groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return NOTHING
        logger.info("[Group %s] Member %s fenced from the group because %s.", group_id, member_id, reason)
        return self.remove(group, [member], None)

    def remove(self, group: ConsumerGroup, members: Collection[ConsumerMember], response: T) -> CoordinatorResult[T]:
        """Remove members from their group, and free their partitions."""
        if not members:
            return CoordinatorResult((), response)
        group_id = group.group_id
        left = {member_id: member for member_id, member in group.members.items() if member not in members}
        if may_downgrade(group, left, self._settings(group_id)):
            reason = f"Downgrade group {group_id} from consumer to classic for member leaving."
            downgrade = Downgrade(group, left, self._topics, self._timer.now)
            return downgrade.result(response, self._groups, self._classic, rebalance_because=reason)
        records: list[CoordinatorRecord] = []
        for member in members:
            records += member_tombstones(group_id, member.member_id)
        counts = group.pattern_counts(left.values())
        records += [pattern_tombstone(group_id, pattern) for pattern in group.patterns if not counts[pattern]]
        metadata_hash = self._topics.hash_of(group.subscribed_topics(left.values()))
        epoch = group.epoch + 1
        records.append(epoch_record(group_id, epoch, metadata_hash))
        logger.info("[Group %s] Bumped group epoch to %d as members left.", group_id, epoch)

        def written(error: object) -> None:
            if error is None:
                for member in members:
                    for kind in ("session", "revoke", "join", "sync"):
                        self._forget(kind, group_id, member.member_id)

        return CoordinatorResult(records, response, written)


def _timer_name(kind: str, group_id: str, member_id: str) -> str:
    # Both ids may contain any characters.
    return f"consumer {kind} {group_id!r} {member_id!r}"
