"""JoinGroup: who is taken into a classic group, who only learns of the present generation, and who is refused.

A new dynamic member is first told its id (KIP-394), so that one whose answer is lost does not stay behind as another
member. A static member (KIP-345) that comes back takes its former place under a new id; while the group is stable and
the vote stays the same this needs no rebalance, and since version 9 a leader is told that it need not assign (KIP-814).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from kclient.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    KafkaError,
    MemberIdRequiredError,
    UnknownMemberIdError,
    UnknownServerError,
)
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from refbroker.coordinators.groups.classic.group import ClassicGroup, protocol_names
from refbroker.coordinators.groups.classic.member import AnswerJoin, ClassicMember, GroupProtocol
from refbroker.coordinators.groups.classic.rebalancing import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    NOTHING,
    UNKNOWN_MEMBER,
    GroupSettings,
    Rebalances,
    Result,
    join_response,
)
from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.coordinators.runtime import CoordinatorResult

logger = logging.getLogger(__name__)

FIRST_WITH_MEMBER_ID_REQUIRED = 4
FIRST_WITH_SKIPPED_ASSIGNMENT = 9
_NO_REBALANCE_TIMEOUT = -1


class Caller(NamedTuple):
    """Who sends a request.

    Attributes:
        version: of the API.
        client_id, client_host: as the client calls itself, and its address as Java writes it.
    """

    version: int
    client_id: str
    client_host: str


class Join(NamedTuple):
    """A JoinGroup request under way.

    Attributes:
        protocols: of the request.
        answer: takes the answer; only the first one counts.
    """

    caller: Caller
    request: JoinGroupRequest
    protocols: list[GroupProtocol]
    answer: AnswerJoin

    @property
    def reason(self) -> str:
        """Why the client joins, if it says so."""
        return f"client reason: {self.request.reason or 'not provided'}"

    @property
    def rebalance_timeout_ms(self) -> int:
        """The first version of the API has only the session's timeout."""
        wanted = self.request.rebalance_timeout_ms
        return self.request.session_timeout_ms if wanted == _NO_REBALANCE_TIMEOUT else wanted

    def refuse(self, error: type[KafkaError], member_id: str = UNKNOWN_MEMBER) -> Result:
        """Answer with an error; nothing is to be written."""
        self.answer(JoinGroupResponse(member_id=member_id, error_code=error.code or -1))
        return NOTHING


class Joining:
    """Takes members into the classic groups of a partition.

    Parameters:
        rebalances: of the same groups.
        settings: the broker's.
        new_uuid: makes the second half of a member's id.
    """

    def __init__(self, rebalances: Rebalances, settings: GroupSettings, new_uuid: Callable[[], str]) -> None:
        self._rebalances = rebalances
        self._settings = settings
        self._new_uuid = new_uuid

    def join(self, group: ClassicGroup, join: Join) -> Result:
        """Carry out a request to join a group."""
        member_id = join.request.member_id
        if not self._has_room(group, member_id):
            group.remove(member_id)
            return join.refuse(GroupMaxSizeReachedError)
        if group.state is GroupState.DEAD:
            return join.refuse(CoordinatorNotAvailableError, member_id)
        if not group.supports(join.request.protocol_type, protocol_names(join.protocols)):
            return join.refuse(InconsistentGroupProtocolError, member_id)
        if member_id == UNKNOWN_MEMBER:
            return self._join_new(group, join)
        return self._join_known(group, join)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        if group.state in (GroupState.EMPTY, GroupState.DEAD):
            return True
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            # Those who wait are counted, so that after a decrease of the limit the last to join again are out.
            waits = member is not None and member.is_awaiting_join
            return waits or group.awaiting_join < self._settings.max_size
        return member is not None or len(group.members) < self._settings.max_size

    # New members

    def _join_new(self, group: ClassicGroup, join: Join) -> Result:
        request = join.request
        prefix = join.caller.client_id if request.group_instance_id is None else request.group_instance_id
        member_id = f"{prefix}-{self._new_uuid()}"
        if request.group_instance_id is not None:
            if request.group_instance_id in group.static_members:
                return self._replace_static(group, join, member_id)
            return self._add(group, join, member_id)
        if join.caller.version < FIRST_WITH_MEMBER_ID_REQUIRED:
            return self._add(group, join, member_id)
        group.pending_members.add(member_id)
        self._rebalances.begin_session(group, member_id, request.session_timeout_ms)
        return join.refuse(MemberIdRequiredError, member_id)

    def _add(self, group: ClassicGroup, join: Join, member_id: str) -> Result:
        request = join.request
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            join.caller.client_id,
            join.caller.client_host,
            join.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            join.protocols,
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, join.answer)
        # It cannot send heartbeats as long as it waits, and a client that has gone away is not noticed: a new member
        # that still waits after this time is told to join again.
        self._rebalances.keep_alive(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self._rebalances.rebalance(
            group,
            f"Adding new member {member_id} with group instance id {request.group_instance_id}; {join.reason}",
        )

    def _replace_static(self, group: ClassicGroup, join: Join, member_id: str) -> Result:
        request, former_leader = join.request, group.leader
        instance_id = request.group_instance_id or ""
        former_id = group.static_members[instance_id]
        # Whoever still uses the former id is fenced, so that its session ends without effect.
        member = group.replace_static(instance_id, member_id)
        self._rebalances.keep_alive(group, member)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        group.update(member, join.protocols, join.rebalance_timeout_ms, request.session_timeout_ms, join.answer)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the former id already.
            return self._rebalances.prepare(
                group, f"Updating metadata for static member {member_id} with instance id {instance_id}; {join.reason}"
            )
        if group.state is not GroupState.STABLE:
            return self._rebalances.complete_join_if_ready(group)
        if group.protocol != group.select_protocol():
            return self._rebalances.rebalance(
                group,
                f"Group's selectedProtocol will change because static member {member_id} with instance id "
                f"{instance_id} joined with change of protocol; {join.reason}",
            )

        def written(error: KafkaError | None) -> None:
            if error is None:
                group.complete_join(member, self._take_place(group, member_id, former_leader, join.caller.version))
                return
            group.update(member, *before, None)
            self._rebalances.keep_alive(group, group.replace_static(instance_id, former_id))
            join.answer(
                JoinGroupResponse(
                    generation_id=group.generation,
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol,
                    leader=former_leader or "",
                    error_code=UnknownServerError.code if error.code is None else error.code,
                )
            )

        assignments = {one.member_id: one.assignment for one in group.members.values()}
        return CoordinatorResult([group.record(assignments)], None, written, replayed=False)

    def _take_place(
        self, group: ClassicGroup, member_id: str, former_leader: str | None, version: int
    ) -> JoinGroupResponse:
        """What a static member that comes back to a stable group learns."""
        leads = group.leader == member_id
        if version >= FIRST_WITH_SKIPPED_ASSIGNMENT:
            return join_response(group, member_id, skip_assignment=leads)
        # Without a way to say that it need not assign, a leader is made to believe that its former self still leads.
        response = join_response(group, member_id)
        response.members, response.leader = [], former_leader or ""
        return response

    # Members that are known

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
            response = JoinGroupResponse(member_id=member_id, protocol_name=None, error_code=error.code or -1)
            join.answer(response)
            return NOTHING
        if group.is_empty:
            return join.refuse(UnknownMemberIdError, member_id)
        member = group.members[member_id]
        trigger = self._rebalance_trigger(group, member, join)
        if trigger is None:
            join.answer(join_response(group, member_id))
            return NOTHING
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.request.session_timeout_ms, join.answer)
        return self._rebalances.rebalance(group, f"{trigger}; {join.reason}")

    def _rebalance_trigger(self, group: ClassicGroup, member: ClassicMember, join: Join) -> str | None:
        """Why a member that joins again starts a rebalance, or has its part in one; None when it need not."""
        member_id, state = member.member_id, group.state.value
        if group.state is GroupState.PREPARING_REBALANCE:
            return f"Member {member_id} is joining group during {state}"
        if group.state is GroupState.STABLE and group.leader == member_id:
            # The leader may have seen a change that nobody's metadata show, such as new partitions.
            return f"Leader {member_id} re-joining group during {state}"
        if list(member.protocols) != join.protocols:
            return f"Updating metadata for member {member_id} during {state}"
        # It has not got the answer to its last request.
        return None
