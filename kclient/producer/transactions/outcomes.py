"""The effect of each error on a transaction: tables, by request and error code.

An error is retried internally, requires an abort, or ends the producer. Which of these depends on the request and, for
the end of a transaction, on its version (KIP-360, 588, 890, 1050). Elsewhere: the reaction (`manager`).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from kclient.errors import (
    ClusterAuthorizationError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupAuthorizationError,
    IllegalGenerationError,
    InvalidCommitOffsetSizeError,
    InvalidPidMappingError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    ProducerFencedError,
    RequestTimedOutError,
    StaleMemberEpochError,
    TopicAuthorizationError,
    TransactionAbortableError,
    TransactionalIdAuthorizationError,
    UnknownMemberIdError,
    UnknownProducerIdError,
    UnsupportedVersionError,
)


class Api(enum.Enum):
    """The requests of a transaction; END_V2 is EndTxn that bumps the epoch."""

    INIT = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"
    END_V2 = "EndTxn v5"
    PRODUCE = "Produce"


class Kind(enum.Enum):
    """The reaction to an error."""

    RETRY = "send the request again after a backoff"
    LOOK_UP = "look up the coordinator again, and send it again"
    REFUSED = "the call fails, and may be repeated"
    ABORTABLE = "the transaction can only be aborted; then the producer continues"
    NEW_EPOCH = "the same, and the producer then needs a new epoch, if the end of a transaction brings none"
    FENCED = "another producer has taken the transactional id"
    FATAL = "the producer can only be closed"


_LOOK_UP = {CoordinatorNotAvailableError.code: Kind.LOOK_UP, NotCoordinatorError.code: Kind.LOOK_UP}
_FENCED = {InvalidProducerEpochError.code: Kind.FENCED, ProducerFencedError.code: Kind.FENCED}
_COMMON = {
    **_LOOK_UP,
    **_FENCED,
    UnknownProducerIdError.code: Kind.NEW_EPOCH,
    TransactionAbortableError.code: Kind.ABORTABLE,
}

KINDS: dict[Api, dict[int, Kind]] = {
    Api.INIT: {
        **_LOOK_UP,
        **_FENCED,
        # No transaction is open: the call may be repeated once the permission is granted.
        TransactionalIdAuthorizationError.code: Kind.REFUSED,
        ClusterAuthorizationError.code: Kind.REFUSED,
        TransactionAbortableError.code: Kind.REFUSED,
    },
    Api.ADD_PARTITIONS: {
        **_COMMON,
        TopicAuthorizationError.code: Kind.ABORTABLE,
        # These are reported for each partition, and concern none in particular.
        TransactionalIdAuthorizationError.code: Kind.FATAL,
        InvalidTxnStateError.code: Kind.FATAL,
        InvalidPidMappingError.code: Kind.FATAL,
    },
    Api.ADD_OFFSETS: {**_COMMON, GroupAuthorizationError.code: Kind.ABORTABLE},
    Api.COMMIT_OFFSETS: {
        **_COMMON,
        RequestTimedOutError.code: Kind.LOOK_UP,
        GroupAuthorizationError.code: Kind.ABORTABLE,
        TopicAuthorizationError.code: Kind.ABORTABLE,
        # The consumer no longer owns what it has read: the results must not be committed (KIP-447).
        FencedInstanceIdError.code: Kind.ABORTABLE,
        UnknownMemberIdError.code: Kind.ABORTABLE,
        IllegalGenerationError.code: Kind.ABORTABLE,
        StaleMemberEpochError.code: Kind.ABORTABLE,
        FencedMemberEpochError.code: Kind.ABORTABLE,
        # With version 2 a transaction that timed out is detected here; its end shows whether it was that.
        InvalidProducerEpochError.code: Kind.ABORTABLE,
        # The Java producer fails with these, although only the offsets of this transaction are affected.
        OffsetMetadataTooLargeError.code: Kind.ABORTABLE,
        InvalidCommitOffsetSizeError.code: Kind.ABORTABLE,
    },
    Api.END: _COMMON,
    # The coordinator has aborted it, for example after a timeout: the response to an abort of the same epoch has the
    # next epoch, and no producer can commit it. The Java producer fails here.
    Api.END_V2: {**_COMMON, InvalidTxnStateError.code: Kind.ABORTABLE},
    Api.PRODUCE: {
        TransactionalIdAuthorizationError.code: Kind.FATAL,
        ClusterAuthorizationError.code: Kind.FATAL,
        ProducerFencedError.code: Kind.FATAL,
        InvalidPidMappingError.code: Kind.FATAL,
        UnsupportedVersionError.code: Kind.FATAL,
    },
}
"""Other errors are retried if Kafka calls them retriable. The rest is FATAL, or ABORTABLE for errors of single
partitions in AddPartitionsToTxn and for Produce. An old epoch is not fatal for Produce and for offsets, because the
transaction may have timed out without another producer: its end shows which (KIP-588).
"""


def kind_of(api: Api, error: KafkaError) -> Kind:
    """Return the kind of an error in the response to a request."""
    known = KINDS[api].get(error.code) if error.code is not None else None
    if known is not None:
        return known
    if api is Api.PRODUCE:
        return Kind.ABORTABLE
    if error.retriable:
        return Kind.RETRY
    return Kind.ABORTABLE if api is Api.ADD_PARTITIONS and error.topic is not None else Kind.FATAL


def worst(api: Api, errors: Sequence[KafkaError]) -> tuple[Kind, KafkaError]:
    """Return the error of a response that decides, and its kind."""
    return max(((kind_of(api, error), error) for error in errors), key=lambda found: _SEVERITY.index(found[0]))


_SEVERITY = list(Kind)
"""In the order of the enum."""


def abortable(error: BaseException) -> KafkaError:
    """Return the error that calls raise once the transaction can only be aborted.

    A retriable error or a timeout becomes a TransactionAbortableError, because repeating the same call would not help.
    """
    if not isinstance(error, KafkaError) or error.retriable or isinstance(error, KafkaTimeoutError):
        made: KafkaError = TransactionAbortableError(f"the transaction can only be aborted: {error}")
        made.__cause__ = error
        return made
    return marked(error, is_abortable=True)


def fatal(error: KafkaError, transactional_id: str, kind: Kind = Kind.FATAL) -> KafkaError:
    """Return the error that every call raises after a fatal error."""
    if kind is Kind.FENCED and not isinstance(error, ProducerFencedError):
        fenced = ProducerFencedError(
            f"another producer has taken the transactional id {transactional_id!r}, or a transaction of this one "
            "timed out; make a new producer to continue",
            broker=error.broker,
            api=error.api,
        )
        fenced.__cause__ = error
        return fenced
    return marked(error, is_fatal=True)


def marked(error: KafkaError, *, is_abortable: bool = False, is_fatal: bool = False) -> KafkaError:
    """Return a copy that says whether an abort helps, or nothing does."""
    made = copied(error)
    made.abortable, made.fatal, made.retriable = is_abortable, is_fatal, False
    return made


def copied(error: KafkaError) -> KafkaError:
    """Return a copy to raise again, without its traceback."""
    made = error.without_frames()
    made.__cause__ = error.__cause__
    return made
