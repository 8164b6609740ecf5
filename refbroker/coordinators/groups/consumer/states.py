"""The states of consumer groups and of their members.

A group's state is derived from its members and epochs, and is not stored:

EMPTY        the group has no members; it may have committed offsets
ASSIGNING    the group epoch is ahead of the epoch of the target assignment
RECONCILING  at least one member does not own its whole target assignment
STABLE       all members own their target assignments

A member's state is stored with its current assignment. A member may receive a newer target assignment in every state;
the table gives the next state.

STABLE                owns its whole target assignment of its epoch
UNREVOKED_PARTITIONS  must revoke partitions before it advances to the next epoch
UNRELEASED_PARTITIONS is at the target epoch, and waits for partitions that other members still own
UNKNOWN               a newer broker wrote a state that is unknown here; the member must rejoin
"""

from __future__ import annotations

import enum

from kclient.state_machine import StateTable


class ConsumerGroupState(enum.Enum):
    """The state of a consumer group; the value is its name in the protocol."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(enum.IntEnum):
    """The state of a member; the value is the number in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class MemberEvent(enum.Enum):
    """The outcome of reconciling a member with its target assignment at a heartbeat."""

    MUST_REVOKE = "must revoke"
    MUST_WAIT = "must wait"
    HAS_TARGET = "has target"


_S, _E = MemberState, MemberEvent
_AT_TARGET = {_E.HAS_TARGET: _S.STABLE, _E.MUST_WAIT: _S.UNRELEASED_PARTITIONS}

STATES = StateTable(
    "consumer group member",
    {
        _S.STABLE: {**_AT_TARGET, _E.MUST_REVOKE: _S.UNREVOKED_PARTITIONS},
        _S.UNREVOKED_PARTITIONS: {**_AT_TARGET, _E.MUST_REVOKE: _S.UNREVOKED_PARTITIONS},
        _S.UNRELEASED_PARTITIONS: {**_AT_TARGET, _E.MUST_REVOKE: _S.UNREVOKED_PARTITIONS},
        # The partitions of such a member are unknown, so it cannot be asked to revoke some: it continues with none.
        _S.UNKNOWN: _AT_TARGET,
    },
)
