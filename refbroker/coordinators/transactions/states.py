"""The states of a transactional id, and the transitions between them.

EMPTY                   the id has a producer id but no transaction
ONGOING                 a transaction is open, with partitions or a group's offsets
PREPARE_COMMIT          the transaction will commit; the markers are being written
PREPARE_ABORT           the transaction will abort; the markers are being written
COMPLETE_COMMIT         every partition has its commit marker
COMPLETE_ABORT          every partition has its abort marker
DEAD                    the id is unused and expires; never stored
PREPARE_EPOCH_FENCE     the producer of an open transaction is fenced, and the abort follows; never stored

PREPARE_COMMIT and PREPARE_ABORT have one successor each: a coordinator that loads one of them from its log continues
to write the markers. A producer of transactions version 2 may abort without knowing whether a transaction is open, so
PREPARE_ABORT also follows EMPTY and the two complete states. The numbers are those of Kafka's records.
"""

from __future__ import annotations

import enum

from kclient.state_machine import StateTable


class TransactionState(enum.IntEnum):
    """The state of a transactional id; the value is its number in records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name in the protocol, such as `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and its markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and is not complete."""
        return self is TransactionState.ONGOING or self.is_prepared

    @property
    def is_stored(self) -> bool:
        """Whether the state occurs in records."""
        return self not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)

    @property
    def may_expire(self) -> bool:
        """Whether an unused transactional id in this state expires."""
        return STATES.allows(self, TransactionEvent.EXPIRE)


class TransactionEvent(enum.Enum):
    """An event that changes the state of a transactional id."""

    INITIALIZE = "InitProducerId"
    ADD_PARTITIONS = "partitions added"
    COMMIT = "commit"
    ABORT = "abort"
    FENCE = "fence"
    COMPLETE = "all markers written"
    EXPIRE = "expire"


_S, _E = TransactionState, TransactionEvent
_NOTHING_OPEN = {
    _E.INITIALIZE: _S.EMPTY,
    _E.ADD_PARTITIONS: _S.ONGOING,
    _E.ABORT: _S.PREPARE_ABORT,
    _E.EXPIRE: _S.DEAD,
}

STATES = StateTable(
    "transactional id",
    {
        _S.EMPTY: _NOTHING_OPEN,
        _S.ONGOING: {
            _E.ADD_PARTITIONS: _S.ONGOING,
            _E.COMMIT: _S.PREPARE_COMMIT,
            _E.ABORT: _S.PREPARE_ABORT,
            _E.FENCE: _S.PREPARE_EPOCH_FENCE,
        },
        _S.PREPARE_COMMIT: {_E.COMPLETE: _S.COMPLETE_COMMIT},
        _S.PREPARE_ABORT: {_E.COMPLETE: _S.COMPLETE_ABORT},
        _S.COMPLETE_COMMIT: _NOTHING_OPEN,
        _S.COMPLETE_ABORT: _NOTHING_OPEN,
        _S.DEAD: {},
        _S.PREPARE_EPOCH_FENCE: {_E.ABORT: _S.PREPARE_ABORT},
    },
)

BY_TITLE = {state.title: state for state in TransactionState}
