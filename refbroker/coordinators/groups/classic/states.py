"""The states of a classic group and their transitions.

- EMPTY: no members; there may be committed offsets.
- PREPARING_REBALANCE: waits for its members to join.
- COMPLETING_REBALANCE: all members know the generation; waits for the leader's assignment.
- STABLE: all members have the assignment, or can request it.
- DEAD: the group was deleted, or another broker coordinates it.
"""

from __future__ import annotations

import enum

from kclient.state_machine import StateTable


class GroupState(enum.Enum):
    """The state of a classic group; the value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(enum.Enum):
    """The events that change the state of a classic group."""

    REBALANCE = "rebalance"
    MEMBERS_JOINED = "members joined"
    NO_MEMBERS_LEFT = "no members left"
    ASSIGNMENT_STORED = "assignment stored"
    UNLOAD = "unload"


_S, _E = GroupState, GroupEvent

STATES = StateTable(
    "classic group",
    {
        _S.EMPTY: {_E.REBALANCE: _S.PREPARING_REBALANCE, _E.UNLOAD: _S.DEAD},
        _S.PREPARING_REBALANCE: {
            _E.MEMBERS_JOINED: _S.COMPLETING_REBALANCE,
            _E.NO_MEMBERS_LEFT: _S.EMPTY,
            _E.UNLOAD: _S.DEAD,
        },
        _S.COMPLETING_REBALANCE: {
            _E.ASSIGNMENT_STORED: _S.STABLE,
            _E.REBALANCE: _S.PREPARING_REBALANCE,
            _E.UNLOAD: _S.DEAD,
        },
        _S.STABLE: {_E.REBALANCE: _S.PREPARING_REBALANCE, _E.UNLOAD: _S.DEAD},
        _S.DEAD: {_E.UNLOAD: _S.DEAD},
    },
)
