"""The outcome of each error code of a Produce response, as a table, and the errors of records that failed.

Elsewhere: acting on an outcome (`settlement`, `replacing`).
"""

from __future__ import annotations

import enum

from kclient.errors import (
    BrokerConnectionError,
    BrokerError,
    ClusterAuthorizationError,
    DeliveryUnknownError,
    DuplicateSequenceError,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordNotDeliveredError,
    RecordTooLargeError,
    RequestTimedOutError,
    TransactionalIdAuthorizationError,
    UnknownProducerIdError,
    UnknownServerError,
    UnsupportedVersionError,
    error_for,
)


class Outcome(enum.Enum):
    """What to do with a batch."""

    DELIVERED = "the broker has stored it"
    RETRY = "send it again after a backoff"
    SPLIT = "split it into smaller batches"
    OUT_OF_ORDER = "send it again; with new numbers if no earlier batch is missing"
    REJECTED = "fail its records, or those that the broker names"
    FATAL = "stop the producer"


OUTCOMES: dict[int, Outcome] = {
    0: Outcome.DELIVERED,
    # The broker has stored it before, and no longer knows its offset.
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

MAYBE_WRITTEN = (
    UnknownServerError.code,
    # With acks=all a broker that loses its leadership after the append may return this error.
    NotLeaderOrFollowerError.code,
    RequestTimedOutError.code,
    NotEnoughReplicasAfterAppendError.code,
    KafkaStorageError.code,
)
"""Errors after which the broker may nevertheless have written the records."""


def outcome(code: int) -> Outcome:
    """Return what to do about an error code (0: none)."""
    known = OUTCOMES.get(code)
    if known is not None:
        return known
    return Outcome.RETRY if error_for(code).retriable else Outcome.REJECTED


def may_be_written(error: BaseException) -> bool:
    """Return whether the records may be in the log although the attempt failed, for example by a lost connection."""
    if isinstance(error, BrokerConnectionError) or not isinstance(error, KafkaError):
        return False
    return error.code is None or error.code in MAYBE_WRITTEN


def record_error(reason: BaseException, count: int, topic: str, partition: int, *, certain: bool) -> BaseException:
    """Return the error with which the records of a batch fail.

    Parameters:
        reason: why the batch was given up.
        count: the number of records.
        topic: the topic of the batch.
        partition: the partition of the batch.
        certain: whether no broker can have written the batch.
    """
    if isinstance(reason, RecordNotDeliveredError):
        return reason
    records = "1 record" if count == 1 else f"{count} records"
    if not certain:
        made: KafkaError = DeliveryUnknownError(
            f"{records} may or may not have been written: {_text(reason)}", topic=topic, partition=partition
        )
    elif isinstance(reason, BrokerError):
        return reason
    else:
        were = "was" if count == 1 else "were"
        made = RecordNotDeliveredError(
            f"{records} {were} not delivered: {_text(reason)}", topic=topic, partition=partition
        )
        made.retriable = isinstance(reason, KafkaError) and reason.retriable
    made.__cause__ = reason
    if isinstance(reason, KafkaError):
        made.fatal, made.abortable = reason.fatal, reason.abortable
    return made


def _text(reason: BaseException) -> str:
    return str(reason) if isinstance(reason, KafkaError) else f"{type(reason).__name__}: {reason}"
