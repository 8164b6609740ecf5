"""The rules of JoinGroup and SyncGroup. They change no group; `machine` acts on what they return.

A new dynamic member first receives its id (KIP-394), so that a lost response does not leave another member behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kclient.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupRequest
from refbroker.coordinators.groups.classic.group import ClassicGroup, protocol_names
from refbroker.coordinators.groups.classic.member import AnswerJoin, ClassicMember, GroupProtocol
from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.coordinators.groups.coordinator_timer import NOTHING, Result
from refbroker.runtime.error_codes import code_of

UNKNOWN_MEMBER = ""
FIRST_WITH_MEMBER_ID_REQUIRED = 4
_NO_REBALANCE_TIMEOUT = -1


class Caller(NamedTuple):
    """The sender of a request.

    Attributes:
        version: the version of the API.
        client_id, client_host: the client's id, and its address as Java writes it.
        may_see: whether the client may describe a topic; others do not match its regular expression.
    """

    version: int
    client_id: str
    client_host: str
    may_see: Callable[[str], bool] = lambda topic: True


class Join(NamedTuple):
    """A pending JoinGroup request.

    Attributes:
        protocols: the protocols in the request.
        answer: receives the response; only the first one counts.
    """

    caller: Caller
    request: JoinGroupRequest
    protocols: list[GroupProtocol]
    answer: AnswerJoin

    @classmethod
    def of(cls, caller: Caller, request: JoinGroupRequest, answer: AnswerJoin) -> Join:
        """Return the request with its protocols decoded."""
        return cls(caller, request, [GroupProtocol(each.name, each.metadata) for each in request.protocols], answer)

    @property
    def reason(self) -> str:
        """The client's reason for joining, if it has one."""
        return f"client reason: {self.request.reason or 'not provided'}"

    @property
    def rebalance_timeout_ms(self) -> int:
        """The rebalance timeout; the first version of the API has only the session timeout."""
        wanted = self.request.rebalance_timeout_ms
        return self.request.session_timeout_ms if wanted == _NO_REBALANCE_TIMEOUT else wanted

    def new_member(self, member_id: str) -> ClassicMember:
        """Return the member that the client becomes."""
        return ClassicMember(
            member_id,
            self.request.group_instance_id,
            self.caller.client_id,
            self.caller.client_host,
            self.rebalance_timeout_ms,
            self.request.session_timeout_ms,
            self.request.protocol_type,
            self.protocols,
            is_new=True,
        )

    def refuse(self, error: type[KafkaError], member_id: str = UNKNOWN_MEMBER) -> Result:
        """Respond with an error, without records."""
        self.answer(JoinGroupResponse(member_id=member_id, error_code=code_of(error)))
        return NOTHING


def admission_error(group: ClassicGroup, join: Join, max_size: int) -> type[KafkaError] | None:
    """Return why the client may not join the group; None if it may."""
    if not _has_room(group, join.request.member_id, max_size):
        return GroupMaxSizeReachedError
    if group.state is GroupState.DEAD:
        return CoordinatorNotAvailableError
    if not group.supports(join.request.protocol_type, protocol_names(join.protocols)):
        return InconsistentGroupProtocolError
    return None


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        # Waiting members are counted, so that after a decrease of the limit the last to join again are removed.
        waits = member is not None and member.is_awaiting_join
        return waits or group.awaiting_join < max_size
    return member is not None or len(group.members) < max_size


def rebalance_trigger(group: ClassicGroup, member: ClassicMember, join: Join) -> str | None:
    """Return why a member that joins again starts a rebalance, or takes part in one; None if it does not."""
    member_id, state = member.member_id, group.state.value
    if group.state is GroupState.PREPARING_REBALANCE:
        return f"Member {member_id} is joining group during {state}"
    if group.state is GroupState.STABLE and group.leader == member_id:
        # The leader may have noticed a change that no metadata shows, such as new partitions.
        return f"Leader {member_id} re-joining group during {state}"
    if list(member.protocols) != join.protocols:
        return f"Updating metadata for member {member_id} during {state}"
    # It has not received the response to its last request.
    return None


def sync_error(group: ClassicGroup, request: SyncGroupRequest) -> type[KafkaError] | None:
    """Return why a member cannot have its assignment."""
    if group.state is GroupState.DEAD:
        return CoordinatorNotAvailableError
    try:
        group.check_member(request.member_id, request.group_instance_id)
    except (UnknownMemberIdError, FencedInstanceIdError) as error:
        return type(error)
    if request.generation_id != group.generation:
        return IllegalGenerationError
    # Versions before 5 do not contain the protocol.
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (None, group.protocol):
        return InconsistentGroupProtocolError
    return RebalanceInProgressError if group.state is GroupState.PREPARING_REBALANCE else None
