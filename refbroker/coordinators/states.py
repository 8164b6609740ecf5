"""The states of a shard, which is the state machine of one coordinator partition, and the transitions between them.

LOADING     the log is being replayed
ACTIVE      the shard serves requests
FAILED      the log could not be replayed
CLOSED      this broker no longer leads the partition, or leads it in a newer leader epoch

Elsewhere: the packages `groups` and `transactions` have the states of groups and transactions.
"""

from __future__ import annotations

import enum

from kclient.state_machine import StateTable


class ShardState(enum.Enum):
    """The state of a shard."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class ShardEvent(enum.Enum):
    """An event that changes the state of a shard."""

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
        # A load that ends after its partition was unloaded has no effect.
        _S.CLOSED: {},
    },
)
