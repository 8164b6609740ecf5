"""The state of one assigned partition, with the table of its transitions.

    INITIALIZING        assigned, no position yet
    AWAITING_COMMITTED  in a group: asks the coordinator for the committed offset
    AWAITING_RESET      asks for an offset by its reset policy
    AWAITING_VALIDATION asks the new leader whether the log still contains the position (KIP-320)
    FETCHING            has a valid position; records flow unless it is paused

`position` is the next record for the application, `fetch_offset` the next one to fetch; the records between them are in
`pieces`. Elsewhere: changes to it, and their lock (`subscription`).
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kclient.consumer.assignment.fetched_piece import FetchedPiece
from kclient.consumer.assignment.reset import ResetPolicy
from kclient.state_machine import StateTable
from kclient.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kclient.errors import KafkaError


class FetchState(enum.Enum):
    """See the module."""

    INITIALIZING = "initializing"
    AWAITING_COMMITTED = "awaiting_committed"
    AWAITING_RESET = "awaiting_reset"
    AWAITING_VALIDATION = "awaiting_validation"
    FETCHING = "fetching"


class FetchEvent(enum.Enum):
    """The events that change the state of a partition."""

    ASK_COMMITTED = "ask for the committed offset"
    RESET = "reset"
    OFFSET_FOUND = "offset found"
    SEEK = "seek"
    SEEK_AND_VALIDATE = "seek and validate"
    LEADER_CHANGED = "leader changed"
    VALIDATED = "validated"


_MOVES = {
    FetchEvent.RESET: FetchState.AWAITING_RESET,
    FetchEvent.SEEK: FetchState.FETCHING,
    FetchEvent.SEEK_AND_VALIDATE: FetchState.AWAITING_VALIDATION,
}

STATES = StateTable(
    "partition",
    {
        FetchState.INITIALIZING: {FetchEvent.ASK_COMMITTED: FetchState.AWAITING_COMMITTED, **_MOVES},
        FetchState.AWAITING_COMMITTED: _MOVES,
        FetchState.AWAITING_RESET: {FetchEvent.OFFSET_FOUND: FetchState.FETCHING, **_MOVES},
        FetchState.AWAITING_VALIDATION: {FetchEvent.VALIDATED: FetchState.FETCHING, **_MOVES},
        FetchState.FETCHING: {FetchEvent.LEADER_CHANGED: FetchState.AWAITING_VALIDATION, **_MOVES},
    },
)
"""No event leads back to INITIALIZING, or to a committed offset."""


class Position(NamedTuple):
    """The next record to read, and the leader epoch of the one before it (-1 if unknown)."""

    offset: int
    epoch: int = -1


class PartitionState:
    """One assigned partition.

    Attributes:
        generation: grows whenever the fetch offset changes other than by fetching; a response to a request of an older
            generation is dropped.
        drops: how often fetched records were dropped; records taken before the last drop are not read further. A leader
            change starts a generation, but drops nothing.
        fetch_offset, fetch_epoch: where the next fetch starts, and the epoch of the batch before it.
        returned: the position when the application last asked for records; earlier records count as processed.
        stored: the offset to commit that the application has stored; used with enable_auto_offset_store=False.
        committed: the offset that the group has committed, as far as is known.
        replaced: whether the topic was deleted and created again, and the position belongs to the old one.
        topic_id: of the topic that is read; another one under the same name has another id.
        leader_epoch: the leader's epoch for which the position is known to be valid.
        blocked: whether `pieces` contains an error; nothing is fetched until it has been raised.
        error: the error that the last call raised instead of returning records; None after a call that returned some.
        retry_at: the earliest time of the next request (driver's clock).
        least_bytes: a size limit large enough for a batch that the last response cut off.
        preferred_replica, preferred_until: the nearby replica to read from, and until when (KIP-392).
        high_watermark, last_stable_offset, log_start_offset: from the last response, -1 before the first.
    """

    __slots__ = (
        "blocked",
        "committed",
        "drops",
        "error",
        "failures",
        "fetch_epoch",
        "fetch_offset",
        "generation",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "least_bytes",
        "log_start_offset",
        "paused",
        "pieces",
        "position",
        "preferred_replica",
        "preferred_until",
        "replaced",
        "reset",
        "retry_at",
        "returned",
        "state",
        "stored",
        "topic_id",
        "tp",
        "unread",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.state = FetchState.INITIALIZING
        self.position: Position | None = None
        self.returned: Position | None = None
        self.stored: OffsetAndMetadata | None = None
        self.committed: int | None = None
        self.replaced = False
        self.fetch_offset = -1
        self.fetch_epoch = -1
        self.leader_epoch = -1
        self.generation = 0
        self.drops = 0
        self.paused = False
        self.blocked = False
        self.error: KafkaError | None = None
        self.reset: ResetPolicy | None = None
        self.topic_id: UUID | None = None
        self.retry_at = 0.0
        self.failures = 0
        self.least_bytes = 0
        self.preferred_replica = -1
        self.preferred_until = 0.0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.pieces: deque[FetchedPiece] = deque()
        self.unread = 0

    def __repr__(self) -> str:
        return f"<PartitionState {self.tp} {self.state.value} at {self.position}>"

    def change(self, event: FetchEvent) -> None:
        """Change the state.

        Raises:
            IllegalStateError: the event is not possible in this state.
        """
        self.state = STATES.next_state(self.state, event, str(self.tp))

    def failed(self, error: KafkaError) -> None:
        """Record that a call raises an error instead of returning records."""
        self.error = error.without_frames()

    def lag(self, read_committed: bool) -> int | None:
        """Return the number of offsets between position and end; None while either is unknown."""
        end = self.last_stable_offset if read_committed else self.high_watermark
        return None if end < 0 or self.position is None else max(0, end - self.position.offset)
