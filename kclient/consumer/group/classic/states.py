"""The states of a group's member, and what identifies it.

    UNJOINED    no member, or not any more; waits for the owner to join
    PREPARING   asks to join: JoinGroup is out, or is sent again soon
    COMPLETING  joined; waits for its assignment (the leader: for what its owner computes)
    STABLE      has its assignment; heartbeats
    LEAVING     LeaveGroup is out
    FENCED      another member uses the same group_instance_id; final until the owner unsubscribes

Left out: what causes a transition (`member`).
"""

from __future__ import annotations

import enum
from typing import NamedTuple

NO_GENERATION = -1
UNKNOWN_MEMBER_ID = ""


class MemberState(enum.Enum):
    """See the module."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"
    COMPLETING = "completing"
    STABLE = "stable"
    LEAVING = "leaving"
    FENCED = "fenced"


TRANSITIONS: dict[MemberState, frozenset[MemberState]] = {
    MemberState.UNJOINED: frozenset({MemberState.PREPARING, MemberState.LEAVING}),
    MemberState.PREPARING: frozenset(
        {MemberState.COMPLETING, MemberState.UNJOINED, MemberState.LEAVING, MemberState.FENCED}
    ),
    MemberState.COMPLETING: frozenset(
        {
            MemberState.STABLE,
            MemberState.PREPARING,
            MemberState.UNJOINED,
            MemberState.LEAVING,
            MemberState.FENCED,
        }
    ),
    MemberState.STABLE: frozenset(
        {MemberState.PREPARING, MemberState.UNJOINED, MemberState.LEAVING, MemberState.FENCED}
    ),
    MemberState.LEAVING: frozenset({MemberState.UNJOINED}),
    MemberState.FENCED: frozenset({MemberState.UNJOINED}),
}
"""From which state to which; a retry within PREPARING is no transition."""


class Generation(NamedTuple):
    """What a member says it is with every request of a group.

    Attributes:
        id: the group's generation, which grows with every rebalance; with the consumer protocol the member's epoch.
        member_id: given by the coordinator.
        instance_id: of a static member, else None.
        protocol: the assignor the members agreed on; None with the consumer protocol.
    """

    id: int
    member_id: str
    instance_id: str | None
    protocol: str | None
