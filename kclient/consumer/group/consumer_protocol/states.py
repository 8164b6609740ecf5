"""The states of a member that speaks the consumer protocol (KIP-848), as a table.

    UNSUBSCRIBED     no member, or not any more; waits for the owner to subscribe
    JOINING          heartbeats with epoch 0 until the coordinator takes it in
    RECONCILING      was assigned something else than it has; its owner works on that
    ACKNOWLEDGING    has what it was assigned, and tells so with the next heartbeat, at once
    STABLE           has what it was assigned, and the coordinator knows
    PREPARE_LEAVING  its owner gives everything up, in order; heartbeats, and takes nothing new
    LEAVING          the heartbeat that leaves is out
    FENCED           the coordinator knows this member no more; what it had is lost, then it joins again
    STALE            left, since the application asked for no records for too long; joins with its next call
    FATAL            cannot be a member; final until the owner unsubscribes

Left out: what causes a transition (`consumer_member`), and the classic protocol (`states`).
"""

from __future__ import annotations

import enum


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


_ENDS = frozenset({ConsumerState.PREPARE_LEAVING, ConsumerState.FENCED, ConsumerState.FATAL})

CONSUMER_TRANSITIONS: dict[ConsumerState, frozenset[ConsumerState]] = {
    ConsumerState.UNSUBSCRIBED: frozenset({ConsumerState.JOINING}),
    ConsumerState.JOINING: _ENDS | {ConsumerState.RECONCILING, ConsumerState.STABLE},
    ConsumerState.RECONCILING: _ENDS | {ConsumerState.ACKNOWLEDGING, ConsumerState.STABLE},
    ConsumerState.ACKNOWLEDGING: _ENDS | {ConsumerState.RECONCILING, ConsumerState.STABLE},
    ConsumerState.STABLE: _ENDS | {ConsumerState.RECONCILING},
    ConsumerState.PREPARE_LEAVING: frozenset({ConsumerState.LEAVING, ConsumerState.UNSUBSCRIBED}),
    ConsumerState.LEAVING: frozenset({ConsumerState.UNSUBSCRIBED, ConsumerState.STALE}),
    ConsumerState.FENCED: frozenset({ConsumerState.JOINING, ConsumerState.UNSUBSCRIBED}),
    ConsumerState.STALE: frozenset({ConsumerState.JOINING, ConsumerState.UNSUBSCRIBED}),
    ConsumerState.FATAL: frozenset({ConsumerState.UNSUBSCRIBED}),
}
"""From which state to which; a new assignment within RECONCILING or ACKNOWLEDGING is no transition."""

IN_GROUP = frozenset(
    {ConsumerState.RECONCILING, ConsumerState.ACKNOWLEDGING, ConsumerState.STABLE, ConsumerState.PREPARE_LEAVING}
)
"""States in which the coordinator takes this for a member, as far as is known."""

HEARTBEATS = IN_GROUP | {ConsumerState.JOINING}
"""States in which it heartbeats."""
