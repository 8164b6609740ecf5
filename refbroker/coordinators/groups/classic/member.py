"""A member of a classic group."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kclient.protocol.messages.join_group import JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

AnswerJoin = Callable[[JoinGroupResponse], None]
AnswerSync = Callable[[SyncGroupResponse], None]


class GroupProtocol(NamedTuple):
    """A protocol of a member.

    Attributes:
        metadata: the data of its assignor for the leader's; for consumers a Subscription.
    """

    name: str
    metadata: bytes


@dataclass(slots=True, eq=False)
class ClassicMember:
    """A member of a classic group.

    Attributes:
        instance_id: of a static member (KIP-345), None for a dynamic one.
        client_id, client_host: the client that joined.
        rebalance_timeout_ms: how long joining again may take, in milliseconds.
        session_timeout_ms: how long it may be silent, in milliseconds.
        protocols: its protocols, in order of preference.
        assignment: the leader's assignment.
        answer_join, answer_sync: receives the pending response, None without one.
        is_new: whether its first rebalance has not ended yet.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Sequence[GroupProtocol]
    assignment: bytes = b""
    answer_join: AnswerJoin | None = None
    answer_sync: AnswerSync | None = None
    is_new: bool = False

    @property
    def is_awaiting_join(self) -> bool:
        return self.answer_join is not None

    @property
    def is_awaiting_sync(self) -> bool:
        return self.answer_sync is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether the end of its session has no effect, because it waits for a response.

        Not so for a new member, which does not know its id yet: after a disconnect it would stay without a limit.
        """
        return not self.is_new and (self.is_awaiting_join or self.is_awaiting_sync)

    def metadata(self, protocol: str) -> bytes:
        """Return its metadata for one of its protocols.

        Raises:
            KeyError: it does not have that protocol.
        """
        for known in self.protocols:
            if known.name == protocol:
                return known.metadata
        raise KeyError(protocol)

    def vote(self, candidates: Iterable[str]) -> str:
        """Return the candidate that it prefers; at least one of them is its own."""
        return next(known.name for known in self.protocols if known.name in candidates)


def log_leave(group_id: str, member_id: str, identity: LeaveGroupRequest.MemberIdentity) -> None:
    """Log that a member has left, with its reason."""
    logger.info(
        "[Group %s] Member %s has left group through explicit `LeaveGroup` request; client reason: %s",
        group_id,
        member_id,
        identity.reason or "not provided",
    )
