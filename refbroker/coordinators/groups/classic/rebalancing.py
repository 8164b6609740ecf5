"""The steps of a rebalance, from one generation of a classic group to the next.

A rebalance waits for all members to join again, at most for the longest of their rebalance timeouts; the first one of a
group waits `group.initial.rebalance.delay.ms`, and as long again while new members join. Then there is a new
generation, and all waiting members receive their response. All members have to request their assignments within the
rebalance timeout too. Dynamic members that are late are removed; static ones stay until their session ends.

Elsewhere: when a step is due (`machine`).
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from kclient.errors import KafkaError, RebalanceInProgressError, UnknownMemberIdError
from kclient.protocol.messages.join_group import JoinGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupResponse
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.member import ClassicMember
from refbroker.coordinators.groups.classic.states import STATES, GroupEvent, GroupState
from refbroker.coordinators.groups.classic.timers import GroupTimers
from refbroker.coordinators.groups.coordinator_timer import NOTHING, Result
from refbroker.coordinators.runtime import CoordinatorResult

logger = logging.getLogger(__name__)


class GroupSettings(NamedTuple):
    """The broker's settings for classic groups.

    Attributes:
        initial_rebalance_delay_ms: how long a new group waits for more members, in milliseconds.
        max_size: the maximum number of members.
    """

    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1


class Rebalancing:
    """The rebalances of the classic groups of a partition.

    Parameters:
        timers: the timers of the groups.
        settings: the broker's settings.
    """

    def __init__(self, timers: GroupTimers, settings: GroupSettings) -> None:
        self._timers = timers
        self._settings = settings

    # Begin

    def rebalance(self, group: ClassicGroup, reason: str) -> Result:
        """Begin a rebalance, or end the current one if all members have joined."""
        if STATES.allows(group.state, GroupEvent.REBALANCE):
            return self.prepare(group, reason)
        return self.complete_if_joined(group)

    def prepare(self, group: ClassicGroup, reason: str) -> Result:
        """Begin a rebalance: all members have to join again."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.discard_assignments(group, RebalanceInProgressError.code)
        group.pending_sync.clear()
        self._timers.stop_sync(group)
        initial = group.is_empty
        group.apply(GroupEvent.REBALANCE)
        logger.info(
            "Preparing to rebalance group %s with old generation %d (reason: %s)",
            group.group_id,
            group.generation,
            reason,
        )
        if initial:
            delay = self._settings.initial_rebalance_delay_ms
            self._timers.start_initial_delay(group, delay, max(group.rebalance_timeout_ms - delay, 0))
            return NOTHING
        if group.has_all_members_joined:
            return self.complete_join(group)
        self._timers.start_rebalance_timeout(group)
        return NOTHING

    def extend_initial_delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Extend the initial delay, because new members have joined."""
        group.new_member_added = False
        following = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
        self._timers.start_initial_delay(group, following, max(remaining_ms - delay_ms, 0))

    # Join

    def complete_if_joined(self, group: ClassicGroup) -> Result:
        """End the wait for members if all have joined; the initial delay still applies."""
        if group.previous_state is GroupState.EMPTY:
            return NOTHING
        return self.complete_after_removal(group)

    def complete_after_removal(self, group: ClassicGroup) -> Result:
        """Complete the join phase if only removed members were missing; this also ends the initial delay."""
        if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
            return self.complete_join(group)
        return NOTHING

    def complete_join(self, group: ClassicGroup) -> Result:
        """End the wait for members: those that have joined form the next generation."""
        self._timers.stop_join(group)
        late = [one for one in group.members.values() if not one.is_awaiting_join and one.instance_id is None]
        for member in late:
            self.remove(group, member.member_id)
        if late:
            logger.info(
                "Group %s removed dynamic members who have not joined: %s",
                group.group_id,
                [member.member_id for member in late],
            )
        if group.state is GroupState.DEAD:
            return NOTHING
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none has joined: their sessions decide.
            self._timers.start_rebalance_timeout(group)
            return NOTHING
        group.begin_generation()
        logger.info(
            "Group %s is in generation %d with %d members", group.group_id, group.generation, len(group.members)
        )
        if group.is_empty:
            # If this cannot be written, an older generation returns after a restart, and its sessions end.
            return CoordinatorResult([group.record({})], None, _log_failure, replayed=False)
        for member in list(group.members.values()):
            group.complete_join(member, join_response(group, member.member_id))
            self._timers.restart_session(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._timers.start_sync_timeout(group)
        return NOTHING

    # Sync

    def has_synced(self, group: ClassicGroup, member_id: str) -> None:
        """Record that a member has asked for its assignment."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._timers.stop_sync(group)

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Give all members the leader's assignments, and answer those that wait."""
        group.apply(GroupEvent.ASSIGNMENT_STORED)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            self._answer_sync(group, member, sync_response(group, member))

    def discard_assignments(self, group: ClassicGroup, error_code: int) -> None:
        """Drop all assignments; waiting members receive the error."""
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(group, member, SyncGroupResponse(error_code=error_code))

    def _answer_sync(self, group: ClassicGroup, member: ClassicMember, response: SyncGroupResponse) -> None:
        if group.complete_sync(member, response):
            # The end of a session has no effect on a waiting member, and no heartbeat has started a new one.
            self._timers.restart_session(group, member)

    # Members who leave

    def dismiss(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member; one that waits to join has to join as a new one."""
        group.complete_join(member, JoinGroupResponse(error_code=UnknownMemberIdError.code))
        self.remove(group, member.member_id)

    def remove(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member, or an id whose member has not joined yet, and end its session."""
        group.remove(member_id)
        self._timers.stop_session(group, member_id)

    def release(self, group: ClassicGroup, error_code: int) -> None:
        """Answer all waiting members with an error; this coordinator has lost the group."""
        for member in group.members.values():
            group.complete_join(member, JoinGroupResponse(member_id=member.member_id, error_code=error_code))
            group.complete_sync(member, SyncGroupResponse(error_code=error_code))


def join_response(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """Return a member's response with the generation; the leader's contains the members too."""
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        skip_assignment=skip_assignment,
        members=group.member_list() if group.leader == member_id else [],
    )


def sync_response(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """Return a member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def _log_failure(error: KafkaError | None) -> None:
    if error is not None:
        logger.warning("the end of a group's last generation was not written: %s", error)
