"""A static member that returns with a new member id (KIP-345), which replaces the former one.

While the group is stable and the vote stays the same this needs no rebalance, and since version 9 the response tells a
leader to skip the assignment (KIP-814).
"""

from __future__ import annotations

from kclient.protocol.messages.join_group import JoinGroupResponse
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.member import ClassicMember
from refbroker.coordinators.groups.classic.rebalancing import join_response
from refbroker.coordinators.groups.classic.requests import Join

FIRST_WITH_SKIPPED_ASSIGNMENT = 9


class StaticReturn:
    """The return of a static member to its group.

    Parameters:
        join: its request.
        member_id: its new id.

    Attributes:
        instance_id: its group.instance.id.
    """

    def __init__(self, group: ClassicGroup, join: Join, member_id: str) -> None:
        self.instance_id = join.request.group_instance_id or ""
        self._group = group
        self._join = join
        self._member_id = member_id
        self._former_id = group.static_members[self.instance_id]
        self._former_leader = group.leader
        former = group.members[self._former_id]
        self._before = former.protocols, former.rebalance_timeout_ms, former.session_timeout_ms

    def replace_former(self) -> ClassicMember:
        """Replace the former member; a client that still uses the former id is fenced."""
        return self._group.replace_static(self.instance_id, self._member_id)

    def restore_former(self) -> ClassicMember:
        """Restore the former member after its replacement could not be written."""
        self._group.update(self._group.members[self._member_id], *self._before, None)
        return self._group.replace_static(self.instance_id, self._former_id)

    def answer(self) -> None:
        """Answer with the generation, which continues without a rebalance."""
        group, member_id = self._group, self._member_id
        if self._join.caller.version >= FIRST_WITH_SKIPPED_ASSIGNMENT:
            response = join_response(group, member_id, skip_assignment=group.leader == member_id)
        else:
            # Before version 9 a response cannot skip the assignment. Naming the former id as leader keeps the client
            # from computing one.
            response = join_response(group, member_id)
            response.members, response.leader = [], self._former_leader or ""
        group.complete_join(group.members[member_id], response)

    def answer_error(self, error_code: int) -> None:
        """Answer that its return could not be written."""
        self._join.answer(
            JoinGroupResponse(
                generation_id=self._group.generation,
                protocol_type=self._group.protocol_type,
                protocol_name=self._group.protocol,
                leader=self._former_leader or "",
                error_code=error_code,
            )
        )
