"""How a classic group comes from one generation to the next, and the timers that see to it.

A rebalance waits for all members to join again, at most for the longest of their rebalance timeouts; the first one of a
group waits `group.initial.rebalance.delay.ms`, and as long again while new members come. Then there is a new
generation, and everybody who waits is told. It has to be asked for its assignment within the rebalance timeout too.
Dynamic members that were not in time are out; static ones stay until their session ends.

Timers, each by the name of the group (and the member):

    join       the end of the wait for the members; of the initial delay
    sync       the end of the wait for SyncGroup of all members
    heartbeat  the end of a member's session; of a new one, which does not know its id yet, five minutes
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from kclient.errors import KafkaError, RebalanceInProgressError, UnknownMemberIdError
from kclient.protocol.messages.join_group import JoinGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupResponse
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.member import ClassicMember
from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.coordinators.runtime import CoordinatorResult

logger = logging.getLogger(__name__)

Result = CoordinatorResult[None]
NOTHING: Result = CoordinatorResult((), None)

NONE = 0
UNKNOWN_MEMBER = ""
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000

_MAY_REBALANCE = (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


class Surroundings(Protocol):
    """Time and timers: of a partition's runtime, or of a simulation."""

    def now(self) -> int:
        """The time, milliseconds since the epoch."""

    def schedule(self, name: str, delay_ms: int, operation: Callable[[], Result]) -> None:
        """Carry out an operation later; in the place of one with the same name."""

    def cancel(self, name: str) -> None:
        """Forget an operation."""


class GroupSettings(NamedTuple):
    """What the broker's settings say of classic groups.

    Attributes:
        initial_rebalance_delay_ms: how long a new group waits for more members, in milliseconds.
        max_size: how many members a group may have.
    """

    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1


class Rebalances:
    """The rebalances of the classic groups of a partition.

    Parameters:
        find: gives a classic group by its id, None when there is none.
        surroundings: time and timers.
        settings: the broker's.
    """

    def __init__(
        self, find: Callable[[str], ClassicGroup | None], surroundings: Surroundings, settings: GroupSettings
    ) -> None:
        self._find = find
        self._surroundings = surroundings
        self._settings = settings

    # Begin

    def rebalance(self, group: ClassicGroup, reason: str) -> Result:
        """Begin a rebalance, or see whether the one under way can end."""
        if group.state in _MAY_REBALANCE:
            return self.prepare(group, reason)
        return self.complete_join_if_ready(group)

    def prepare(self, group: ClassicGroup, reason: str) -> Result:
        """Begin a rebalance: have all members join again."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.propagate_error(group, RebalanceInProgressError.code)
        group.pending_sync.clear()
        self._surroundings.cancel(_sync_timer(group))
        initial = group.is_empty
        group.become(GroupState.PREPARING_REBALANCE)
        logger.info(
            "Preparing to rebalance group %s with old generation %d (reason: %s)",
            group.group_id,
            group.generation,
            reason,
        )
        if initial:
            delay = self._settings.initial_rebalance_delay_ms
            self._wait_for_more(group, delay, max(group.rebalance_timeout_ms - delay, 0))
            return NOTHING
        if group.has_all_members_joined:
            return self.complete_join(group)
        self._wait_for_members(group)
        return NOTHING

    def _wait_for_members(self, group: ClassicGroup) -> None:
        group_id = group.group_id
        self._surroundings.schedule(
            _join_timer(group), group.rebalance_timeout_ms, lambda: self._members_are_late(group_id)
        )

    def _members_are_late(self, group_id: str) -> Result:
        group = self._find(group_id)
        return NOTHING if group is None else self.complete_join(group)

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        group_id = group.group_id
        self._surroundings.schedule(
            _join_timer(group), delay_ms, lambda: self._initial_delay_is_over(group_id, delay_ms, remaining_ms)
        )

    def _initial_delay_is_over(self, group_id: str, delay_ms: int, remaining_ms: int) -> Result:
        group = self._find(group_id)
        if group is None:
            return NOTHING
        if group.new_member_added and remaining_ms:
            group.new_member_added = False
            following = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_more(group, following, max(remaining_ms - delay_ms, 0))
            return NOTHING
        return self.complete_join(group)

    # Join

    def complete_join_if_ready(self, group: ClassicGroup) -> Result:
        """End the wait for members if all are there; the initial delay takes its time all the same."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.has_all_members_joined
        ):
            return self.complete_join(group)
        return NOTHING

    def complete_join(self, group: ClassicGroup) -> Result:
        """End the wait for members: the next generation is made of those who have joined."""
        self._surroundings.cancel(_join_timer(group))
        late = [one for one in group.members.values() if not one.is_awaiting_join and one.instance_id is None]
        for member in late:
            group.remove(member.member_id)
            self.forget_session(group, member.member_id)
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
            self._wait_for_members(group)
            return NOTHING
        group.begin_generation()
        logger.info(
            "Group %s is in generation %d with %d members", group.group_id, group.generation, len(group.members)
        )
        if group.is_empty:
            # When this cannot be written, an older generation comes back after a restart, and its sessions end.
            return CoordinatorResult([group.record({})], None, _log_failure, replayed=False)
        for member in list(group.members.values()):
            group.complete_join(member, join_response(group, member.member_id))
            self.keep_alive(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._wait_for_syncs(group)
        return NOTHING

    # Sync

    def _wait_for_syncs(self, group: ClassicGroup) -> None:
        group_id, generation = group.group_id, group.generation
        self._surroundings.schedule(
            _sync_timer(group), group.rebalance_timeout_ms, lambda: self._syncs_are_late(group_id, generation)
        )

    def _syncs_are_late(self, group_id: str, generation: int) -> Result:
        group = self._find(group_id)
        if group is None or group.generation != generation or not group.pending_sync:
            return NOTHING
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return NOTHING
        late = sorted(group.pending_sync)
        for member_id in late:
            group.remove(member_id)
            self.forget_session(group, member_id)
        return self.prepare(group, f"Removing {late} on pending sync request expiration")

    def has_synced(self, group: ClassicGroup, member_id: str) -> None:
        """Take note that a member has asked for its assignment."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._surroundings.cancel(_sync_timer(group))

    def propagate(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Give all members what the leader has assigned to them; those who wait are told."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            self._answer_sync(group, member, sync_response(group, member))

    def propagate_error(self, group: ClassicGroup, error_code: int) -> None:
        """Take all assignments away; members who wait for one are told the error."""
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(group, member, SyncGroupResponse(error_code=error_code))

    def _answer_sync(self, group: ClassicGroup, member: ClassicMember, response: SyncGroupResponse) -> None:
        if group.complete_sync(member, response):
            # The end of a session means nothing to a member that waits, and no heartbeat has begun a new one.
            self.keep_alive(group, member)

    # Sessions

    def keep_alive(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Begin a member's session anew."""
        self.begin_session(group, member.member_id, member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def begin_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Wait so long for a sign of a member, or of one that was told its id."""
        group_id = group.group_id
        self._surroundings.schedule(
            _session_timer(group, member_id), timeout_ms, lambda: self._session_is_over(group_id, member_id)
        )

    def forget_session(self, group: ClassicGroup, member_id: str) -> None:
        """Wait no more for a sign of a member."""
        self._surroundings.cancel(_session_timer(group, member_id))

    def _session_is_over(self, group_id: str, member_id: str) -> Result:
        group = self._find(group_id)
        if group is None or group.state is GroupState.DEAD:
            return NOTHING
        if member_id in group.pending_members:
            group.remove(member_id)
            return self._complete_if_last(group)
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return NOTHING
        logger.info("Member %s in group %s has failed, removing it from the group", member_id, group_id)
        self.dismiss(group, member)
        if group.state is GroupState.PREPARING_REBALANCE:
            return self._complete_if_last(group)
        if group.is_empty:
            return NOTHING
        return self.prepare(group, f"removing member {member_id} on heartbeat expiration")

    def _complete_if_last(self, group: ClassicGroup) -> Result:
        """End the rebalance if only the one who has gone was waited for; this ends the initial delay as well."""
        if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
            return self.complete_join(group)
        return NOTHING

    def dismiss(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member; if it waits to join it is told to do so anew, in case it is still there."""
        group.complete_join(member, JoinGroupResponse(error_code=UnknownMemberIdError.code))
        group.remove(member.member_id)


def join_response(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """What a member learns of the generation; its leader learns of the members too."""
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
    """A member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )


def _log_failure(error: KafkaError | None) -> None:
    if error is not None:
        logger.warning("the end of a group's last generation was not written: %s", error)


def _join_timer(group: ClassicGroup) -> str:
    return f"join {group.group_id}"


def _sync_timer(group: ClassicGroup) -> str:
    return f"sync {group.group_id}"


def _session_timer(group: ClassicGroup, member_id: str) -> str:
    return f"heartbeat {group.group_id} {member_id}"
