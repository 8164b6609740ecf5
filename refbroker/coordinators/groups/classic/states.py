"""The states of a classic group, and from which one may come into which.

EMPTY                   no members; there may be offsets
PREPARING_REBALANCE     waits for its members to join
COMPLETING_REBALANCE    everybody knows the generation; waits for the leader's assignment
STABLE                  everybody has the assignment, or can ask for it
DEAD                    the group is gone, or another broker has it
"""

from __future__ import annotations

import enum

from kclient.errors import IllegalStateError


class GroupState(enum.Enum):
    """The state of a classic group; the value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = GroupState

TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.PREPARING_REBALANCE: frozenset({_S.EMPTY, _S.COMPLETING_REBALANCE, _S.DEAD}),
    _S.COMPLETING_REBALANCE: frozenset({_S.STABLE, _S.PREPARING_REBALANCE, _S.DEAD}),
    _S.STABLE: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.DEAD: frozenset({_S.DEAD}),
}
"""The states that may follow each state."""


def check_transition(group_id: str, state: GroupState, following: GroupState) -> None:
    """See that a group may go from one state to another.

    Raises:
        IllegalStateError: it may not.
    """
    if following not in TRANSITIONS[state]:
        raise IllegalStateError(f"the group {group_id} cannot go from {state.value} to {following.value}")
