"""The outcome of each error code of a Produce response, as a table.

Elsewhere: acting on an outcome (`settlement`, `replacing`).
"""

from __future__ import annotations

import enum

from kclient.errors import (
    BrokerConnectionError,
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
"""The broker's errors after which the records may be in the log all the same."""


def outcome(code: int) -> Outcome:
    """Return what to do about an error code (0: none)."""
    known = OUTCOMES.get(code)
    if known is not None:
        return known
    return Outcome.RETRY if error_for(code).retriable else Outcome.REJECTED


def may_be_written(error: BaseException) -> bool:
    """Whether the records may be in the log although the attempt ended with this error, as with a lost connection."""
    if isinstance(error, BrokerConnectionError) or not isinstance(error, KafkaError):
        return False
    return error.code is None or error.code in MAYBE_WRITTEN
