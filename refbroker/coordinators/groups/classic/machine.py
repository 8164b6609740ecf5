"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, as Kafka's coordinator carries them out.

Sans I/O: time and timers come in from outside, and answers go to callbacks, at once or when a rebalance ends. A group
changes at once, except that a generation counts once its record is written: after SyncGroup of the leader. Between
them nobody has an assignment, so that a broker that starts anew has the last generation that anybody could work in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping

from kclient.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
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
from refbroker.coordinators.groups.classic.member import AnswerJoin, AnswerSync, GroupProtocol
from refbroker.coordinators.groups.classic.rebalancing import (
    NOTHING,
    UNKNOWN_MEMBER,
    GroupSettings,
    Rebalances,
    Result,
    Surroundings,
    sync_response,
)
from refbroker.coordinators.groups.classic.requests import Caller, Join, Joining
from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.coordinators.runtime import CoordinatorResult
from refbroker.metrics.counters import GroupStats

logger = logging.getLogger(__name__)

MemberResponse = LeaveGroupResponse.MemberResponse


class ClassicProtocol:
    """Carries out the requests of the classic protocol on the groups of a partition.

    Parameters:
        groups: of the partition, by id.
        surroundings: time and timers.
        settings: the broker's.
        new_uuid: makes the second half of a member's id.
        stats: counts rebalances.
    """

    def __init__(
        self,
        groups: MutableMapping[str, ClassicGroup],
        surroundings: Surroundings,
        settings: GroupSettings,
        new_uuid: Callable[[], str],
        stats: GroupStats,
    ) -> None:
        self._groups = groups
        self._stats = stats
        self._surroundings = surroundings
        self._settings = settings
        self._rebalances = Rebalances(groups.get, surroundings, settings)
        self._joining = Joining(self._rebalances, settings, new_uuid)

    # JoinGroup

    def join(self, caller: Caller, request: JoinGroupRequest, answer: AnswerJoin) -> Result:
        """Make a client a member; the answer may come much later."""
        protocols = [GroupProtocol(each.name, each.metadata) for each in request.protocols]
        join = Join(caller, request, protocols, answer)
        group = self._groups.get(request.group_id)
        if group is not None:
            return self._joining.join(group, join)
        if request.member_id != UNKNOWN_MEMBER:
            return join.refuse(UnknownMemberIdError, request.member_id)
        group = self._groups[request.group_id] = ClassicGroup(request.group_id, self._surroundings.now)
        result = self._joining.join(group, join)
        if result.records:
            return result

        def written(error: KafkaError | None) -> None:
            if error is not None:
                del self._groups[request.group_id]
                code = UnknownServerError.code if error.code is None else error.code
                answer(JoinGroupResponse(error_code=code))

        return CoordinatorResult([group.empty_record()], None, written, replayed=False)

    # SyncGroup

    def sync(self, request: SyncGroupRequest, answer: AnswerSync) -> Result:
        """Give a member its assignment; the answer may have to wait for the leader's."""
        group = self._groups.get(request.group_id)
        error = UnknownMemberIdError if group is None or group.is_empty else self._sync_error(group, request)
        if error is not None or group is None:
            answer(SyncGroupResponse(error_code=(error or UnknownMemberIdError).code or -1))
            return NOTHING
        member = group.members[request.member_id]
        self._rebalances.has_synced(group, request.member_id)
        if group.state is GroupState.STABLE:
            answer(sync_response(group, member))
            return NOTHING
        member.answer_sync = answer
        if group.leader != request.member_id:
            return NOTHING
        return self._assign(group, request)

    def _sync_error(self, group: ClassicGroup, request: SyncGroupRequest) -> type[KafkaError] | None:
        """Why a member cannot have its assignment."""
        if group.state is GroupState.DEAD:
            return CoordinatorNotAvailableError
        try:
            group.check_member(request.member_id, request.group_instance_id)
        except (UnknownMemberIdError, FencedInstanceIdError) as error:
            return type(error)
        if request.generation_id != group.generation:
            return IllegalGenerationError
        # Versions before 5 do not say what the member takes the protocol to be.
        if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
            None,
            group.protocol,
        ):
            return InconsistentGroupProtocolError
        return RebalanceInProgressError if group.state is GroupState.PREPARING_REBALANCE else None

    def _assign(self, group: ClassicGroup, request: SyncGroupRequest) -> Result:
        """Store what the leader assigns, and hand it out when it is stored."""
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
                group.become(GroupState.STABLE)
                self._stats.rebalances += 1
                self._rebalances.propagate(group, assignments)
                return
            code = UnknownServerError.code if error.code is None else error.code
            self._rebalances.propagate_error(group, code or -1)
            self._rebalances.rebalance(group, f"error when storing group assignment during SyncGroup: {error}")

        return CoordinatorResult([group.record(assignments)], None, written, replayed=False)

    # Heartbeat

    def heartbeat(self, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Keep a member in its group, and tell it when the group rebalances.

        Raises:
            UnknownMemberIdError, FencedInstanceIdError, IllegalGenerationError, CoordinatorNotAvailableError: it is
                no member, or not of this generation.
        """
        group = self._groups.get(request.group_id)
        if group is None:
            raise UnknownMemberIdError(f"Group {request.group_id} not found.")
        if group.state is GroupState.DEAD:
            raise CoordinatorNotAvailableError
        group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise IllegalGenerationError
        self._rebalances.keep_alive(group, group.members[request.member_id])
        rebalances = group.state is GroupState.PREPARING_REBALANCE
        return CoordinatorResult((), HeartbeatResponse(error_code=RebalanceInProgressError.code if rebalances else 0))

    def keep_alive(self, group: ClassicGroup, member_id: str) -> None:
        """Take a request of a member for a sign that it is there."""
        self._rebalances.keep_alive(group, group.members[member_id])

    # LeaveGroup

    def leave(self, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Take members out of their group.

        Raises:
            UnknownMemberIdError: there is no such group.
        """
        group = self._groups.get(request.group_id)
        if group is None:
            raise UnknownMemberIdError(f"Group {request.group_id} not found.")
        if group.state is GroupState.DEAD:
            return CoordinatorResult((), LeaveGroupResponse(error_code=CoordinatorNotAvailableError.code))
        responses = [self._leave_one(group, member) for member in request.members]
        left = [response.member_id for response in responses if not response.error_code]
        result = NOTHING
        if left and not group.is_empty:
            result = self._rebalances.rebalance(
                group, f"explicit `LeaveGroup` request for ({', '.join(left)}) members."
            )
        return CoordinatorResult(
            result.records, LeaveGroupResponse(members=responses), result.written, replayed=result.replayed
        )

    def _leave_one(self, group: ClassicGroup, identity: LeaveGroupRequest.MemberIdentity) -> MemberResponse:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        response = MemberResponse(member_id=member_id, group_instance_id=instance_id)
        if member_id in group.pending_members:
            group.remove(member_id)
            self._rebalances.forget_session(group, member_id)
            return response
        if member_id == UNKNOWN_MEMBER:
            # An administrator removes static members by the id they are known by outside.
            member_id = group.static_members.get(instance_id or "", UNKNOWN_MEMBER)
        try:
            group.check_member(member_id, instance_id)
        except (UnknownMemberIdError, FencedInstanceIdError) as error:
            response.error_code = error.code or -1
            return response
        logger.info(
            "[Group %s] Member %s has left group through explicit `LeaveGroup` request; client reason: %s",
            group.group_id,
            member_id,
            identity.reason or "not provided",
        )
        self._rebalances.forget_session(group, member_id)
        self._rebalances.dismiss(group, group.members[member_id])
        return response

    # Other protocols

    def adopt(self, group: ClassicGroup, rebalance_because: str | None) -> None:
        """Take over a stable group of classic members, which was one of another protocol until now.

        Parameters:
            rebalance_because: why it has to begin with a rebalance, None when it has not.
        """
        self._groups[group.group_id] = group
        for member in group.members.values():
            self._rebalances.keep_alive(group, member)
        if rebalance_because is not None:
            self._rebalances.prepare(group, rebalance_because)

    def release(self, group: ClassicGroup) -> None:
        """Let go of a group that is one of another protocol now: have those who wait for an answer join again."""
        code = RebalanceInProgressError.code
        for member in group.members.values():
            group.complete_join(member, JoinGroupResponse(member_id=member.member_id, error_code=code))
            group.complete_sync(member, SyncGroupResponse(error_code=code))
            self._rebalances.forget_session(group, member.member_id)

    # The partition

    def loaded(self, group: ClassicGroup) -> None:
        """Begin with a group that was found in the log: its members have a session's time to be heard of."""
        for member in group.members.values():
            self._rebalances.keep_alive(group, member)
        if len(group.members) > self._settings.max_size:
            self._rebalances.prepare(
                group,
                f"Freshly-loaded group {group.group_id} (size {len(group.members)}) is over capacity "
                f"{self._settings.max_size}. Rebalancing in order to give a chance for consumers to commit offsets",
            )

    def unloaded(self, group: ClassicGroup) -> None:
        """End with a group that another broker coordinates from now on."""
        group.become(GroupState.DEAD)
        code = NotCoordinatorError.code
        for member in group.members.values():
            group.complete_join(member, JoinGroupResponse(member_id=member.member_id, error_code=code))
            group.complete_sync(member, SyncGroupResponse(error_code=code))
