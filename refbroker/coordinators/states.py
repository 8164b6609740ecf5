"""The states of a shard, which is the state machine of one partition, and what leads from one to the next.

LOADING     its log is being replayed
ACTIVE      answers requests
FAILED      its log could not be replayed
CLOSED      this broker does not lead the partition any more, or leads it in a newer epoch

Elsewhere: the states of what a shard holds, as groups and transactions.
"""

from __future__ import annotations

import enum

from kclient.state_machine import StateTable


class ShardState(enum.Enum):
    """Where a partition's state machine stands."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class ShardEvent(enum.Enum):
    """What changes the state of a shard."""

    LOADED = "loaded"
    LOAD_FAILED = "load failed"
    UNLOAD = "unload"


_S, _E = ShardState, ShardEvent

STATES = StateTable(
    "shard",
    {
        _S.LOADING: {_E.LOADED: _S.ACTIVE, _E.LOAD_FAILED: _S.FAILED, _E.UNLOAD: _S.CLOSED},
        _S.ACTIVE: {_E.UNLOAD: _S.CLOSED},
        _S.FAILED: {_E.UNLOAD: _S.CLOSED},
        # A load may end after its partition was given up: that changes nothing any more.
        _S.CLOSED: {},
    },
)
