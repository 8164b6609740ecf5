"""What the sender does with each error code of a Produce response: a table.

Leaves out how it does it (`sender`, `replacing`).
"""

from __future__ import annotations

import enum

from kclient.errors import (
    ClusterAuthorizationError,
    DuplicateSequenceError,
    KafkaError,
    NotEnoughReplicasAfterAppendError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordTooLargeError,
    RequestTimedOutError,
    TransactionalIdAuthorizationError,
    UnknownProducerIdError,
    UnsupportedVersionError,
    error_for,
)


class Outcome(enum.Enum):
    """What to do with a batch."""

    DELIVERED = "the broker has it"
    RETRY = "send it again after a while"
    SPLIT = "make smaller batches of it"
    OUT_OF_ORDER = "send it again; if nothing before it is missing, under new numbers"
    REJECTED = "its records fail, or those the broker names"
    FATAL = "the producer cannot go on"


OUTCOMES: dict[int, Outcome] = {
    0: Outcome.DELIVERED,
    # It arrived before, and the broker has forgotten its offset.
    DuplicateSequenceError.code: Outcome.DELIVERED,
    RecordTooLargeError.code: Outcome.SPLIT,
    OutOfOrderSequenceError.code: Outcome.OUT_OF_ORDER,
    UnknownProducerIdError.code: Outcome.OUT_OF_ORDER,
    ClusterAuthorizationError.code: Outcome.FATAL,
    TransactionalIdAuthorizationError.code: Outcome.FATAL,
    ProducerFencedError.code: Outcome.FATAL,
    UnsupportedVersionError.code: Outcome.FATAL,
}
"""By error code; for all others it depends on whether Kafka calls the error retriable."""

MAYBE_WRITTEN = (RequestTimedOutError.code, NotEnoughReplicasAfterAppendError.code)
"""After these the records may be in the log all the same."""


def outcome(code: int) -> Outcome:
    """What to do about an error code (0: none)."""
    known = OUTCOMES.get(code)
    if known is not None:
        return known
    return Outcome.RETRY if error_for(code).retriable else Outcome.REJECTED


def is_certain(error: BaseException | None) -> bool:
    """Whether an error tells that the batch was not written; a lost connection, for one, does not."""
    if not isinstance(error, KafkaError) or error.code is None:
        return False
    return error.code not in MAYBE_WRITTEN
