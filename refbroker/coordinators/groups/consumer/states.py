"""The states of consumer groups and of their members.

A group's state follows from what it has, and is not stored:

EMPTY        no members; there may be offsets
ASSIGNING    its epoch is ahead of its target assignment
RECONCILING  some member does not have yet what it is to have
STABLE       everybody has it

A member's state is stored with what it has. In every state it may be told of a newer target assignment; the table
says where it goes from there.

STABLE                has all it is to have at its epoch
UNREVOKED_PARTITIONS  has to give up partitions before it may come to the next epoch
UNRELEASED_PARTITIONS is at the target's epoch, and waits for partitions that others still have
UNKNOWN               in a state that a newer broker has written; has to join anew
"""

from __future__ import annotations

import enum

from kclient.errors import IllegalStateError


class ConsumerGroupState(enum.Enum):
    """The state of a consumer group; the value is the name that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(enum.IntEnum):
    """The state of a member; the value is the one in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


_S = MemberState
_KNOWN = frozenset({_S.STABLE, _S.UNREVOKED_PARTITIONS, _S.UNRELEASED_PARTITIONS})

TRANSITIONS: dict[MemberState, frozenset[MemberState]] = {
    _S.STABLE: _KNOWN,
    _S.UNREVOKED_PARTITIONS: _KNOWN,
    _S.UNRELEASED_PARTITIONS: _KNOWN,
    _S.UNKNOWN: _KNOWN,
}
"""The states that may follow each state; nobody goes to UNKNOWN."""


def check_transition(member_id: str, state: MemberState, following: MemberState) -> MemberState:
    """See that a member may go from one state to another, and give the latter.

    Raises:
        IllegalStateError: it may not.
    """
    if following not in TRANSITIONS[state]:
        raise IllegalStateError(f"the member {member_id} cannot go from {state.name} to {following.name}")
    return following
