"""What each error means to a transaction: tables, by request and error code.

There are three kinds for a program: what is retried inside, what an abort mends, and what ends the producer. Which
code is which depends on the request and, for the end of a transaction, on its version (KIP-360, 588, 890, 1050).
Elsewhere: what is done about it (`manager`).
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
    """The requests of a transaction; END_V2 is EndTxn where it bumps the epoch."""

    INIT = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"
    END_V2 = "EndTxn v5"
    PRODUCE = "Produce"


class Kind(enum.Enum):
    """What to do."""

    RETRY = "send the request again after a while"
    LOOK_UP = "look up the coordinator again, and send it again"
    REFUSED = "the call fails, and may be made again"
    ABORTABLE = "the transaction can only be aborted; then the producer goes on"
    NEW_EPOCH = "the same, and the producer needs a new epoch then, if the end of a transaction brings none"
    FENCED = "another producer has taken the transactional id"
    FATAL = "the producer cannot go on"


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
        # Nothing is open: whoever is given the permission, may try again.
        TransactionalIdAuthorizationError.code: Kind.REFUSED,
        ClusterAuthorizationError.code: Kind.REFUSED,
        TransactionAbortableError.code: Kind.REFUSED,
    },
    Api.ADD_PARTITIONS: {
        **_COMMON,
        TopicAuthorizationError.code: Kind.ABORTABLE,
        # These are said of each partition, and are not about any.
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
        # The consumer is no longer the one that read the records: what was made of them must not count (KIP-447).
        FencedInstanceIdError.code: Kind.ABORTABLE,
        UnknownMemberIdError.code: Kind.ABORTABLE,
        IllegalGenerationError.code: Kind.ABORTABLE,
        StaleMemberEpochError.code: Kind.ABORTABLE,
        FencedMemberEpochError.code: Kind.ABORTABLE,
        # With version 2 a transaction that timed out is found out here; its end tells whether it was that.
        InvalidProducerEpochError.code: Kind.ABORTABLE,
        # Java's producer ends with these, although nothing but the offsets of this transaction is wrong.
        OffsetMetadataTooLargeError.code: Kind.ABORTABLE,
        InvalidCommitOffsetSizeError.code: Kind.ABORTABLE,
    },
    Api.END: _COMMON,
    # The coordinator has aborted it, as when it timed out: an abort of the same epoch is answered with the next
    # epoch, and none can commit it any more. Java's producer ends here.
    Api.END_V2: {**_COMMON, InvalidTxnStateError.code: Kind.ABORTABLE},
    Api.PRODUCE: {
        TransactionalIdAuthorizationError.code: Kind.FATAL,
        ClusterAuthorizationError.code: Kind.FATAL,
        ProducerFencedError.code: Kind.FATAL,
        InvalidPidMappingError.code: Kind.FATAL,
        UnsupportedVersionError.code: Kind.FATAL,
    },
}
"""What is not here is retried if Kafka calls it retriable, and else: FATAL, or for a partition's own error in
AddPartitionsToTxn, and for Produce, ABORTABLE. A Produce with an old epoch is not fatal, nor are offsets, since the
transaction may have timed out under a producer that nobody replaced: its end tells (KIP-588)."""


def kind_of(api: Api, error: KafkaError) -> Kind:
    """What an error means as the answer to a request."""
    known = KINDS[api].get(error.code) if error.code is not None else None
    if known is not None:
        return known
    if api is Api.PRODUCE:
        return Kind.ABORTABLE
    if error.retriable:
        return Kind.RETRY
    return Kind.ABORTABLE if api is Api.ADD_PARTITIONS and error.topic is not None else Kind.FATAL


def worst(api: Api, errors: Sequence[KafkaError]) -> tuple[Kind, KafkaError]:
    """The error that decides among those of one answer, and what it means."""
    return max(((kind_of(api, error), error) for error in errors), key=lambda found: _SEVERITY.index(found[0]))


_SEVERITY = list(Kind)
"""In the order in which they stand there."""


def abortable(error: BaseException) -> KafkaError:
    """An error as calls raise it once the transaction can only be aborted.

    What was retried for too long becomes a TransactionAbortableError: to make the same call again would not help,
    as an error that calls itself retriable, or a timeout, suggests.
    """
    if not isinstance(error, KafkaError) or error.retriable or isinstance(error, KafkaTimeoutError):
        made: KafkaError = TransactionAbortableError(f"the transaction can only be aborted: {error}")
        made.__cause__ = error
        return made
    return marked(error, is_abortable=True)


def fatal(error: KafkaError, transactional_id: str, kind: Kind = Kind.FATAL) -> KafkaError:
    """An error as every call raises it once the producer cannot go on."""
    if kind is Kind.FENCED and not isinstance(error, ProducerFencedError):
        fenced = ProducerFencedError(
            f"another producer has taken the transactional id {transactional_id!r}, or a transaction of this one "
            "timed out; make a new producer if this one is to go on",
            broker=error.broker,
            api=error.api,
        )
        fenced.__cause__ = error
        return fenced
    return marked(error, is_fatal=True)


def marked(error: KafkaError, *, is_abortable: bool = False, is_fatal: bool = False) -> KafkaError:
    """A copy that says of itself whether an abort helps, or nothing does."""
    made = copied(error)
    made.abortable, made.fatal, made.retriable = is_abortable, is_fatal, False
    return made


def copied(error: KafkaError) -> KafkaError:
    """An error to raise once more, without where it was raised before."""
    made = error.without_frames()
    made.__cause__ = error.__cause__
    return made
