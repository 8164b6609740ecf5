"""The states of a member that speaks the consumer protocol (KIP-848), as a table.

    UNSUBSCRIBED     not a member; waits for the application to subscribe
    JOINING          heartbeats with epoch 0 until the coordinator accepts it
    RECONCILING      has a new target; the application applies it
    ACKNOWLEDGING    has its target, and reports it with the next heartbeat, immediately
    STABLE           has its target, and the coordinator knows
    PREPARE_LEAVING  the application gives everything up, in order; heartbeats, and accepts no new target
    LEAVING          the heartbeat that leaves is in flight
    FENCED           the coordinator has removed this member; its partitions are lost, then it joins again
    STALE            left, because the application did not ask for records; joins with its next call
    FATAL            cannot be a member; final until the application unsubscribes

Elsewhere: what causes an event (`member`), and the classic protocol (`classic.states`).
"""

from __future__ import annotations

import enum

from kclient.state_machine import StateTable


class ConsumerState(enum.Enum):
    """See the module."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    PREPARE_LEAVING = "prepare_leaving"
    LEAVING = "leaving"
    FENCED = "fenced"
    STALE = "stale"
    FATAL = "fatal"


class ConsumerEvent(enum.Enum):
    """The events that change the state of a member."""

    JOIN = "join"
    ASSIGNED = "assigned"
    RECONCILED = "reconciled"
    ACKNOWLEDGED = "acknowledged"
    PARTLY_ACKNOWLEDGED = "partly acknowledged"
    PREPARE_LEAVING = "prepare leaving"
    LEAVE = "leave"
    LEFT = "left"
    LOST = "lost"
    TOO_SLOW = "too slow"
    FAILED = "failed"


_ENDS_OF_MEMBERSHIP = {
    ConsumerEvent.PREPARE_LEAVING: ConsumerState.PREPARE_LEAVING,
    ConsumerEvent.LOST: ConsumerState.FENCED,
    ConsumerEvent.TOO_SLOW: ConsumerState.STALE,
    ConsumerEvent.FAILED: ConsumerState.FATAL,
}

STATES = StateTable(
    "member of a group",
    {
        ConsumerState.UNSUBSCRIBED: {ConsumerEvent.JOIN: ConsumerState.JOINING},
        ConsumerState.JOINING: {ConsumerEvent.ASSIGNED: ConsumerState.RECONCILING, **_ENDS_OF_MEMBERSHIP},
        ConsumerState.RECONCILING: {ConsumerEvent.RECONCILED: ConsumerState.ACKNOWLEDGING, **_ENDS_OF_MEMBERSHIP},
        ConsumerState.ACKNOWLEDGING: {
            ConsumerEvent.ASSIGNED: ConsumerState.RECONCILING,
            ConsumerEvent.ACKNOWLEDGED: ConsumerState.STABLE,
            ConsumerEvent.PARTLY_ACKNOWLEDGED: ConsumerState.RECONCILING,
            **_ENDS_OF_MEMBERSHIP,
        },
        ConsumerState.STABLE: {ConsumerEvent.ASSIGNED: ConsumerState.RECONCILING, **_ENDS_OF_MEMBERSHIP},
        ConsumerState.PREPARE_LEAVING: {
            ConsumerEvent.LEAVE: ConsumerState.LEAVING,
            ConsumerEvent.LEFT: ConsumerState.UNSUBSCRIBED,
            # There is nothing left to leave.
            ConsumerEvent.LOST: ConsumerState.UNSUBSCRIBED,
            ConsumerEvent.FAILED: ConsumerState.UNSUBSCRIBED,
        },
        ConsumerState.LEAVING: {ConsumerEvent.LEFT: ConsumerState.UNSUBSCRIBED},
        ConsumerState.FENCED: {
            ConsumerEvent.JOIN: ConsumerState.JOINING,
            ConsumerEvent.LEFT: ConsumerState.UNSUBSCRIBED,
        },
        ConsumerState.STALE: {
            ConsumerEvent.JOIN: ConsumerState.JOINING,
            ConsumerEvent.LEFT: ConsumerState.UNSUBSCRIBED,
        },
        ConsumerState.FATAL: {ConsumerEvent.LEFT: ConsumerState.UNSUBSCRIBED},
    },
)
"""A new assignment within RECONCILING is not a transition."""

IN_GROUP = frozenset(
    {ConsumerState.RECONCILING, ConsumerState.ACKNOWLEDGING, ConsumerState.STABLE, ConsumerState.PREPARE_LEAVING}
)
"""States in which this is a member for the coordinator, as far as is known."""

HEARTBEATS = IN_GROUP | {ConsumerState.JOINING}
"""States in which the member sends heartbeats."""
