"""The requests of a member. Elsewhere: when they are sent, and their responses (`member`)."""

from __future__ import annotations

from collections.abc import Mapping

from kclient.config import ConsumerConfig
from kclient.consumer.group.classic.protocol import PROTOCOL_TYPE
from kclient.consumer.group.events import JoinData
from kclient.consumer.group.generation import Generation
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest

_REASON_LIMIT = 255
_MEMBERS_FROM = 3
"""The first version of LeaveGroup with several members."""


class MemberRequests:
    """Makes the requests of one member.

    Parameters:
        config: the consumer's options.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        assert config.group_id is not None
        self._group = config.group_id
        self._instance_id = config.group_instance_id
        self._session_ms = config.session_timeout_ms
        self._rebalance_ms = config.max_poll_interval_ms

    def join(self, data: JoinData, member_id: str) -> JoinGroupRequest:
        """Return a JoinGroup request; the rebalance timeout is the time for the application's part."""
        kind = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._rebalance_ms,
            member_id=member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[kind(name=name, metadata=metadata) for name, metadata in data.protocols],
            reason=data.reason[:_REASON_LIMIT],
        )

    def sync(self, generation: Generation, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        """Return a SyncGroup request; only the leader has assignments."""
        kind = SyncGroupRequest.SyncGroupRequestAssignment
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=generation.protocol,
            assignments=[kind(member_id=member, assignment=data) for member, data in assignments.items()],
        )

    def heartbeat(self, generation: Generation) -> HeartbeatRequest:
        """Return a Heartbeat request."""
        return HeartbeatRequest(
            group_id=self._group,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self._instance_id,
        )

    def leave(self, member_id: str, reason: str, version: int) -> LeaveGroupRequest:
        """Return a LeaveGroup request."""
        if version < _MEMBERS_FROM:
            return LeaveGroupRequest(group_id=self._group, member_id=member_id)
        identity = LeaveGroupRequest.MemberIdentity(member_id=member_id, reason=reason[:_REASON_LIMIT])
        return LeaveGroupRequest(group_id=self._group, members=[identity])
