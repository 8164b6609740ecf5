"""The states of a member that speaks the classic protocol, as a table.

    UNJOINED not a member; waits for the application to join
    PREPARING   asks to join: JoinGroup is out, or is sent again soon
    COMPLETING  joined; waits for its assignment (the leader: for what the application computes)
    STABLE      has its assignment; heartbeats
    LEAVING     LeaveGroup is out
    FENCED      another member uses the same group_instance_id; final until the application unsubscribes

Elsewhere: what causes an event (`member`), and the application's part of a rebalance (`phases`).
"""

from __future__ import annotations

import enum

from kclient.state_machine import StateTable


class MemberState(enum.Enum):
    """See the module."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"
    COMPLETING = "completing"
    STABLE = "stable"
    LEAVING = "leaving"
    FENCED = "fenced"


class MemberEvent(enum.Enum):
    """The events that change the state of a member."""

    JOIN = "join"
    JOINED = "joined"
    ASSIGNED = "assigned"
    JOIN_AGAIN = "join again"
    LOST = "lost"
    FENCED = "fenced"
    LEAVE = "leave"
    LEFT = "left"


_ENDS_OF_MEMBERSHIP = {
    MemberEvent.LOST: MemberState.UNJOINED,
    MemberEvent.FENCED: MemberState.FENCED,
    MemberEvent.LEAVE: MemberState.LEAVING,
    MemberEvent.LEFT: MemberState.UNJOINED,
}

STATES = StateTable(
    "member of a group",
    {
        # A member that gave up joining may be a member for the coordinator, and leaves.
        MemberState.UNJOINED: {MemberEvent.JOIN: MemberState.PREPARING, MemberEvent.LEAVE: MemberState.LEAVING},
        MemberState.PREPARING: {MemberEvent.JOINED: MemberState.COMPLETING, **_ENDS_OF_MEMBERSHIP},
        MemberState.COMPLETING: {
            MemberEvent.ASSIGNED: MemberState.STABLE,
            MemberEvent.JOIN: MemberState.PREPARING,
            MemberEvent.JOIN_AGAIN: MemberState.PREPARING,
            **_ENDS_OF_MEMBERSHIP,
        },
        MemberState.STABLE: {MemberEvent.JOIN: MemberState.PREPARING, **_ENDS_OF_MEMBERSHIP},
        MemberState.LEAVING: {MemberEvent.LEFT: MemberState.UNJOINED},
        MemberState.FENCED: {MemberEvent.LEFT: MemberState.UNJOINED},
    },
)
"""A retry within PREPARING is not a transition."""
