"""The states of a transactional id, and what leads from one to the next.

EMPTY                   it has a producer id; nothing has been written with it
ONGOING                 a transaction is open: it has partitions, or a group's offsets
PREPARE_COMMIT          it is decided to commit; the markers are being written
PREPARE_ABORT           it is decided to abort; the markers are being written
COMPLETE_COMMIT         every partition has its marker
COMPLETE_ABORT          every partition has its marker
DEAD                    the id has not been used for long and goes; never stored
PREPARE_EPOCH_FENCE     the producer of an open transaction is shut out, and that is to be aborted; never stored

From PREPARE_COMMIT and PREPARE_ABORT there is one way only, whatever happens: a coordinator that finds one of them in
its log goes on writing markers. A producer of transactions version 2 may abort what it does not know to be open, so
that PREPARE_ABORT also comes after EMPTY and the two complete states. The numbers are those of Kafka's records.
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
        """The name that clients see, such as `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and markers are on their way."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that is not complete."""
        return self is TransactionState.ONGOING or self.is_prepared

    @property
    def is_stored(self) -> bool:
        """Whether records have it."""
        return self not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)

    @property
    def may_expire(self) -> bool:
        """Whether an id that is not used goes after a time."""
        return STATES.allows(self, TransactionEvent.EXPIRE)


class TransactionEvent(enum.Enum):
    """What changes the state of a transactional id."""

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
