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

from kclient.state_machine import StateTable


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


class MemberEvent(enum.Enum):
    """What a member's heartbeat brings it to, on its way to the target assignment."""

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
        # Nobody knows what such a member has, so that it cannot be asked for a part of it: it goes on with nothing.
        _S.UNKNOWN: _AT_TARGET,
    },
)
