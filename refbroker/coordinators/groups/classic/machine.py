"""The classic groups of one partition: a method for each request of their members and for each timer.

    requests    on_join_group, on_sync_group, on_heartbeat, on_leave_group
    timers      on_initial_delay_end, on_rebalance_timeout, on_sync_timeout, on_session_timeout
    partition   on_loaded, on_unloaded; adopt and release when a group changes its protocol

Each method decides by the group's state (`states`) and the rules (`group`, `requests`), and takes a step of a rebalance
(`rebalancing`). Only timers call the machine back. It does no I/O: time and timers are arguments, and responses are
passed to callbacks, immediately or when a rebalance ends. A group changes immediately, except that a generation is
valid only when its record is written, after the SyncGroup of the leader. Before that no member has an assignment, so a
broker that is restarted has the last generation in which members could work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping

from kclient.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    KafkaError,
    MemberIdRequiredError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownServerError,
)
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.member import AnswerJoin, AnswerSync, log_leave
from refbroker.coordinators.groups.classic.rebalancing import GroupSettings, Rebalancing, join_response, sync_response
from refbroker.coordinators.groups.classic.requests import (
    FIRST_WITH_MEMBER_ID_REQUIRED,
    UNKNOWN_MEMBER,
    Caller,
    Join,
    admission_error,
    rebalance_trigger,
    sync_error,
)
from refbroker.coordinators.groups.classic.states import GroupEvent, GroupState
from refbroker.coordinators.groups.classic.static_members import StaticReturn
from refbroker.coordinators.groups.classic.timers import GroupTimers
from refbroker.coordinators.groups.coordinator_timer import NOTHING, CoordinatorTimer, Result
from refbroker.coordinators.runtime import CoordinatorResult
from refbroker.metrics.counters import GroupStats
from refbroker.runtime.error_codes import code_of

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000

MemberResponse = LeaveGroupResponse.MemberResponse


class ClassicGroups:
    """The classic groups of a partition.

    Parameters:
        groups: the groups of the partition, by id.
        timer: the clock, and operations at later times.
        settings: the broker's settings.
        new_uuid: returns the second half of a member's id.
        stats: counts rebalances.
    """

    def __init__(
        self,
        groups: MutableMapping[str, ClassicGroup],
        timer: CoordinatorTimer,
        settings: GroupSettings,
        new_uuid: Callable[[], str],
        stats: GroupStats,
    ) -> None:
        self._groups = groups
        self._now = timer.now
        self._settings = settings
        self._new_uuid = new_uuid
        self._stats = stats
        self._timers = GroupTimers(timer, self)
        self._rebalancing = Rebalancing(self._timers, settings)

    # JoinGroup

    def on_join_group(self, caller: Caller, request: JoinGroupRequest, answer: AnswerJoin) -> Result:
        """Make a client a member; the response may be sent much later.

        Raises:
            UnknownServerError: a static member joins under the id that a dynamic member was given.
        """
        join = Join.of(caller, request, answer)
        group = self._groups.get(request.group_id)
        if group is not None:
            return self._join(group, join)
        if request.member_id != UNKNOWN_MEMBER:
            return join.refuse(UnknownMemberIdError, request.member_id)
        group = self._groups[request.group_id] = ClassicGroup(request.group_id, self._now)
        result = self._join(group, join)
        if result.records:
            return result

        def written(error: KafkaError | None) -> None:
            if error is not None:
                del self._groups[request.group_id]
                answer(JoinGroupResponse(error_code=code_of(error)))

        return CoordinatorResult([group.empty_record()], None, written, replayed=False)

    def _join(self, group: ClassicGroup, join: Join) -> Result:
        member_id = join.request.member_id
        error = admission_error(group, join, self._settings.max_size)
        if error is GroupMaxSizeReachedError:
            group.remove(member_id)
            return join.refuse(error)
        if error is not None:
            return join.refuse(error, member_id)
        return self._join_new(group, join) if member_id == UNKNOWN_MEMBER else self._join_known(group, join)

    def _join_new(self, group: ClassicGroup, join: Join) -> Result:
        request = join.request
        prefix = join.caller.client_id if request.group_instance_id is None else request.group_instance_id
        member_id = f"{prefix}-{self._new_uuid()}"
        if request.group_instance_id is not None:
            if request.group_instance_id in group.static_members:
                return self._return_static(group, join, member_id)
            return self._add(group, join, member_id)
        if join.caller.version < FIRST_WITH_MEMBER_ID_REQUIRED:
            return self._add(group, join, member_id)
        group.pending_members.add(member_id)
        self._timers.start_session(group, member_id, request.session_timeout_ms)
        return join.refuse(MemberIdRequiredError, member_id)

    def _add(self, group: ClassicGroup, join: Join, member_id: str) -> Result:
        member = join.new_member(member_id)
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, join.answer)
        # A waiting member sends no heartbeats, so a client that has disconnected is not noticed. This session removes a
        # new member that waits for too long; a live client joins again.
        self._timers.start_session(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self._rebalancing.rebalance(
            group, f"Adding new member {member_id} with group instance id {member.instance_id}; {join.reason}"
        )

    def _return_static(self, group: ClassicGroup, join: Join, member_id: str) -> Result:
        back = StaticReturn(group, join, member_id)
        member = back.replace_former()
        self._timers.restart_session(group, member)
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.request.session_timeout_ms, join.answer)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may already be assigning to the former id.
            return self._rebalancing.prepare(
                group,
                f"Updating metadata for static member {member_id} with instance id {back.instance_id}; {join.reason}",
            )
        if group.state is not GroupState.STABLE:
            return self._rebalancing.complete_if_joined(group)
        if group.protocol != group.select_protocol():
            return self._rebalancing.rebalance(
                group,
                f"Group's selectedProtocol will change because static member {member_id} with instance id "
                f"{back.instance_id} joined with change of protocol; {join.reason}",
            )

        def written(error: KafkaError | None) -> None:
            if error is None:
                back.answer()
            else:
                self._timers.restart_session(group, back.restore_former())
                back.answer_error(code_of(error))

        return CoordinatorResult([group.record(group.assignments)], None, written, replayed=False)

    def _join_known(self, group: ClassicGroup, join: Join) -> Result:
        member_id, instance_id = join.request.member_id, join.request.group_instance_id
        if member_id in group.pending_members:
            if instance_id is not None:
                raise UnknownServerError(
                    f"{instance_id} joins under the id {member_id}, which a dynamic member was given"
                )
            return self._add(group, join, member_id)
        try:
            group.check_member(member_id, instance_id)
        except (UnknownMemberIdError, FencedInstanceIdError) as error:
            join.answer(JoinGroupResponse(member_id=member_id, protocol_name=None, error_code=code_of(error)))
            return NOTHING
        if group.is_empty:
            return join.refuse(UnknownMemberIdError, member_id)
        member = group.members[member_id]
        trigger = rebalance_trigger(group, member, join)
        if trigger is None:
            join.answer(join_response(group, member_id))
            return NOTHING
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.request.session_timeout_ms, join.answer)
        return self._rebalancing.rebalance(group, f"{trigger}; {join.reason}")

    # SyncGroup

    def on_sync_group(self, request: SyncGroupRequest, answer: AnswerSync) -> Result:
        """Return a member's assignment, possibly after waiting for the leader's."""
        group = self._groups.get(request.group_id)
        error = UnknownMemberIdError if group is None or group.is_empty else sync_error(group, request)
        if error is not None or group is None:
            answer(SyncGroupResponse(error_code=code_of(error or UnknownMemberIdError)))
            return NOTHING
        member = group.members[request.member_id]
        self._rebalancing.has_synced(group, request.member_id)
        if group.state is GroupState.STABLE:
            answer(sync_response(group, member))
            return NOTHING
        member.answer_sync = answer
        if group.leader != request.member_id:
            return NOTHING
        return self._store_assignments(group, request)

    def _store_assignments(self, group: ClassicGroup, request: SyncGroupRequest) -> Result:
        """Store the leader's assignments, and distribute them once they are stored."""
        given = {each.member_id: each.assignment for each in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        logger.info(
            "Assignment received from leader %s for group %s for generation %d, which has %d members",
            request.member_id,
            group.group_id,
            group.generation,
            len(group.members),
        )

        def written(error: KafkaError | None) -> None:
            if error is None:
                self._stats.rebalances += 1
                self._rebalancing.assign(group, assignments)
                return
            self._rebalancing.discard_assignments(group, code_of(error))
            self._rebalancing.rebalance(group, f"error when storing group assignment during SyncGroup: {error}")

        return CoordinatorResult([group.record(assignments)], None, written, replayed=False)

    # Heartbeat

    def on_heartbeat(self, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Keep a member in its group, and report a rebalance of the group.

        Raises:
            UnknownMemberIdError, FencedInstanceIdError, IllegalGenerationError, CoordinatorNotAvailableError: it is not
                a member, or not of this generation.
        """
        group = self._groups.get(request.group_id)
        if group is None:
            raise UnknownMemberIdError(f"Group {request.group_id} not found.")
        if group.state is GroupState.DEAD:
            raise CoordinatorNotAvailableError
        group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise IllegalGenerationError
        self.keep_alive(group, request.member_id)
        rebalances = group.state is GroupState.PREPARING_REBALANCE
        return CoordinatorResult((), HeartbeatResponse(error_code=RebalanceInProgressError.code if rebalances else 0))

    def keep_alive(self, group: ClassicGroup, member_id: str) -> None:
        """Restart a member's session after a request of any kind."""
        self._timers.restart_session(group, group.members[member_id])

    # LeaveGroup

    def on_leave_group(self, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove members from their group.

        Raises:
            UnknownMemberIdError: the group does not exist.
        """
        group = self._groups.get(request.group_id)
        if group is None:
            raise UnknownMemberIdError(f"Group {request.group_id} not found.")
        if group.state is GroupState.DEAD:
            return CoordinatorResult((), LeaveGroupResponse(error_code=CoordinatorNotAvailableError.code))
        responses = [self._leave(group, member) for member in request.members]
        left = [response.member_id for response in responses if not response.error_code]
        result = NOTHING
        if left and not group.is_empty:
            result = self._rebalancing.rebalance(
                group, f"explicit `LeaveGroup` request for ({', '.join(left)}) members."
            )
        return CoordinatorResult(
            result.records, LeaveGroupResponse(members=responses), result.written, replayed=result.replayed
        )

    def _leave(self, group: ClassicGroup, identity: LeaveGroupRequest.MemberIdentity) -> MemberResponse:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        response = MemberResponse(member_id=member_id, group_instance_id=instance_id)
        if member_id in group.pending_members:
            self._rebalancing.remove(group, member_id)
            return response
        if member_id == UNKNOWN_MEMBER:
            # An administrator removes static members by their instance id.
            member_id = group.static_members.get(instance_id or "", UNKNOWN_MEMBER)
        try:
            group.check_member(member_id, instance_id)
        except (UnknownMemberIdError, FencedInstanceIdError) as error:
            response.error_code = code_of(error)
            return response
        log_leave(group.group_id, member_id, identity)
        self._rebalancing.dismiss(group, group.members[member_id])
        return response

    # Timers

    def on_initial_delay_end(self, group_id: str, delay_ms: int, remaining_ms: int) -> Result:
        """End the initial delay, or extend it if new members have joined."""
        group = self._groups.get(group_id)
        if group is None:
            return NOTHING
        if group.new_member_added and remaining_ms:
            self._rebalancing.extend_initial_delay(group, delay_ms, remaining_ms)
            return NOTHING
        return self._rebalancing.complete_join(group)

    def on_rebalance_timeout(self, group_id: str) -> Result:
        """End the wait for members to join: those that have joined form the next generation."""
        group = self._groups.get(group_id)
        return NOTHING if group is None else self._rebalancing.complete_join(group)

    def on_sync_timeout(self, group_id: str, generation: int) -> Result:
        """Remove the members that have not requested their assignment, and rebalance."""
        group = self._groups.get(group_id)
        if group is None or group.generation != generation or not group.pending_sync:
            return NOTHING
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return NOTHING
        late = sorted(group.pending_sync)
        for member_id in late:
            self._rebalancing.remove(group, member_id)
        return self._rebalancing.prepare(group, f"Removing {late} on pending sync request expiration")

    def on_session_timeout(self, group_id: str, member_id: str) -> Result:
        """Remove a member that was silent for too long, or an id whose member never joined."""
        group = self._groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return NOTHING
        if member_id in group.pending_members:
            self._rebalancing.remove(group, member_id)
            return self._rebalancing.complete_after_removal(group)
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return NOTHING
        logger.info("Member %s in group %s has failed, removing it from the group", member_id, group_id)
        self._rebalancing.dismiss(group, member)
        if group.state is GroupState.PREPARING_REBALANCE:
            return self._rebalancing.complete_after_removal(group)
        if group.is_empty:
            return NOTHING
        return self._rebalancing.prepare(group, f"removing member {member_id} on heartbeat expiration")

    # The other protocol

    def adopt(self, group: ClassicGroup, rebalance_because: str | None) -> None:
        """Take over a stable group of classic members that was a consumer group.

        Parameters:
            rebalance_because: why it has to start a rebalance, None if it need not.
        """
        self._groups[group.group_id] = group
        for member in group.members.values():
            self._timers.restart_session(group, member)
        if rebalance_because is not None:
            self._rebalancing.prepare(group, rebalance_because)

    def release(self, group: ClassicGroup) -> None:
        """Release a group that is now a consumer group: waiting members have to join again."""
        self._rebalancing.release(group, RebalanceInProgressError.code)
        for member_id in group.members:
            self._timers.stop_session(group, member_id)

    # The partition

    def on_loaded(self, group: ClassicGroup) -> None:
        """Start the sessions of a group from the log."""
        for member in group.members.values():
            self._timers.restart_session(group, member)
        if len(group.members) > self._settings.max_size:
            self._rebalancing.prepare(
                group,
                f"Freshly-loaded group {group.group_id} (size {len(group.members)}) is over capacity "
                f"{self._settings.max_size}. Rebalancing in order to give a chance for consumers to commit offsets",
            )

    def on_unloaded(self, group: ClassicGroup) -> None:
        """Release a group that another broker coordinates from now on."""
        group.apply(GroupEvent.UNLOAD)
        self._rebalancing.release(group, NotCoordinatorError.code)
