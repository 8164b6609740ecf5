"""Produce (0), versions 3 to 13: appends record batches to partitions.

Each partition has its own result, with its error, the refused records and a message. With acks 0 there is no response;
an error closes the connection, as in Kafka. Acks 1 is answered when the records are appended, -1 (all) when the high
watermark has passed them, which with a single replica in sync is at the same time, or with REQUEST_TIMED_OUT after
`timeout_ms` (`refbroker.replication.delayed_produce`). If fewer replicas are in sync than `min.insync.replicas`
requires and than exist, -1 is NOT_ENOUGH_REPLICAS before the append, and NOT_ENOUGH_REPLICAS_AFTER_APPEND after it.
Other numbers are INVALID_REQUIRED_ACKS. The log checks the sequences of idempotent producers. zstd is
UNSUPPORTED_COMPRESSION_TYPE before version 7. Version 13 has topic ids. Internal topics are INVALID_TOPIC_EXCEPTION for
all clients but one.

The first batch of a transaction in a partition is appended after the transaction coordinator has confirmed that the
partition belongs to the transaction; from version 12 on, the request adds it (KIP-890). If it does not belong to it,
the error is TRANSACTION_ABORTABLE, before version 11 INVALID_TXN_STATE; an older epoch of the producer is
INVALID_PRODUCER_EPOCH; if the coordinator cannot tell, the error is NOT_ENOUGH_REPLICAS, which clients of all versions
retry. A coordinator on another broker, or one whose replicas are behind, answers later. An answer that comes after the
end of the transaction appends nothing. While the previous transaction is being completed, a client with version 12
waits up to `add.partitions.to.txn.retry.backoff.max.ms` before it gets CONCURRENT_TRANSACTIONS. Transactional records
of several producers are INVALID_PRODUCER_ID_MAPPING for all partitions.

Permissions: WRITE on the topic; for transactional records WRITE on the transactional id, without which they are
TRANSACTIONAL_ID_AUTHORIZATION_FAILED. InitProducerId checks IDEMPOTENT_WRITE on the cluster.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple
from uuid import UUID

from kclient.errors import (
    AuthorizationError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    CorruptRecordError,
    InvalidPidMappingError,
    InvalidRecordError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    InvalidTxnStateError,
    KafkaError,
    KafkaStorageError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    TransactionalIdAuthorizationError,
    UnsupportedCompressionTypeError,
)
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from kclient.records import batch_headers
from refbroker.coordinators.transactions.verification import NOTHING_TO_VERIFY, ClientSupport, Verification
from refbroker.handlers.answers import INTERNAL_TOPICS, LeaderHints
from refbroker.handlers.context import CloseConnectionError, Context, ErrorFree, Reply
from refbroker.handlers.services import ProduceServices
from refbroker.log import RejectedRecordsError, RejectedTimestampsError
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.log.verification import Verified
from refbroker.metadata.partitions import LocalPartition
from refbroker.replication.delayed_produce import AwaitedAppend
from refbroker.runtime.error_codes import code_of
from refbroker.runtime.eventual import then
from refbroker.security.permissions import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID

FIRST_WITH_ZSTD = 7
FIRST_WITH_LEADER_HINTS = 10
FIRST_WITH_ABORTABLE_ERROR = 11
FIRST_WITH_TRANSACTIONS_V2 = 12
FIRST_WITH_TOPIC_IDS = 13
ALL_REPLICAS = -1
# Kafka permits clients with this id to write to internal topics, for repair tools.
ADMIN_CLIENT = "__admin_client"

# The position of the second attribute byte in a batch, and its bits for transactions and codecs; the number of zstd.
_ATTRIBUTES, _TRANSACTIONAL, _CODEC, _ZSTD = 22, 0x10, 0x07, 4

# Errors that a healthy log returns too. They are not counted as failures, and their responses do not contain the log
# start offset.
_EXPECTED = (RecordTooLargeError, RecordBatchTooLargeError, CorruptRecordError, KafkaStorageError)

PartitionResult = ProduceResponse.PartitionProduceResponse
Refusals = dict[str | UUID, AuthorizationError]


class NotInTransactionError(InvalidTxnStateError):
    """A partition was not added to the transaction; the response contains the message."""


class UnableToVerifyError(NotEnoughReplicasError):
    """The transaction coordinator cannot tell now whether a partition belongs to the transaction; the response contains
    the message.
    """


class Transaction(NamedTuple):
    """The transaction of the records in a request.

    Attributes:
        sequences: the first sequence of each partition.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    sequences: dict[TopicPartitionKey, int]


def handle(context: Context[ProduceServices], request: ProduceRequest) -> Reply | asyncio.Future[Reply]:
    """Carry out a Produce request.

    Raises:
        CloseConnectionError: a batch could not be stored, and the client expects no response.
    """
    refusals = _refused_topics(context, request)
    try:
        transaction = _find_transaction(context, request, refusals)
    except KafkaError as error:
        return _refuse(context, request, error)
    if transaction is None:
        return _store(context, request, refusals, NOTHING_TO_VERIFY)
    verification = _verify(context, transaction)
    if isinstance(verification, asyncio.Future) or _has_to_wait(verification):
        _keep_records(request)
        return asyncio.get_running_loop().create_task(
            _store_when_verified(context, request, transaction, refusals, verification)
        )
    return _store(context, request, refusals, verification)


def _refused_topics(context: Context[ProduceServices], request: ProduceRequest) -> Refusals:
    """Return the topics that the client may not write to; unknown ids are reported as such."""
    refusals: Refusals = {}
    for topic in request.topic_data:
        key = _topic_key(context, topic)
        name = key if isinstance(key, str) else context.broker.partitions.topic_name(key)
        refusal = None if name is None else context.access.refusal(WRITE_TOPIC, name)
        if refusal is not None:
            refusals[key] = refusal
    return refusals


# Transactions


def _find_transaction(
    context: Context[ProduceServices], request: ProduceRequest, refusals: Refusals
) -> Transaction | None:
    """Return the transaction of the transactional records in a request, None if it has no such records.

    Raises:
        TransactionalIdAuthorizationError: they have no transactional id, or the client may not write with it.
        InvalidPidMappingError: they are of several producers.
    """
    producers: set[tuple[int, int]] = set()
    sequences: dict[TopicPartitionKey, int] = {}
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if records is None or len(records) <= _ATTRIBUTES or not records[_ATTRIBUTES] & _TRANSACTIONAL:
                continue
            _check_transactional_id(context, request.transactional_id)
            if _topic_key(context, topic) in refusals:
                continue
            name = context.broker.partitions.topic_name(_topic_key(context, topic))
            try:
                first = next(batch_headers(records), None)
            except CorruptRecordError:
                # The log reports what is wrong with the batch.
                continue
            if first is not None and first.is_transactional and first.has_producer_id and name is not None:
                producers.add((first.producer_id, first.producer_epoch))
                sequences[name, partition.index] = first.base_sequence
    if len(producers) > 1:
        raise InvalidPidMappingError("Transactional records contained more than one producer ID")
    if not producers or request.transactional_id is None:
        return None
    return Transaction(request.transactional_id, *producers.pop(), sequences)


def _check_transactional_id(context: Context[ProduceServices], transactional_id: str | None) -> None:
    # Otherwise anybody could keep the transaction of another producer open indefinitely.
    if transactional_id is None:
        raise TransactionalIdAuthorizationError
    refusal = context.access.refusal(WRITE_TRANSACTIONAL_ID, transactional_id)
    if refusal is not None:
        raise refusal


def _verify(context: Context[ProduceServices], transaction: Transaction) -> Verification | asyncio.Future[Verification]:
    """Verify the partitions of a transaction, with errors that the client's version supports."""
    support = ClientSupport.NONE
    if context.version >= FIRST_WITH_TRANSACTIONS_V2:
        support = ClientSupport.TRANSACTIONS_V2
    elif context.version >= FIRST_WITH_ABORTABLE_ERROR:
        support = ClientSupport.ABORTABLE_ERROR

    def as_understood(found: Verification) -> Verification:
        return found._replace(errors={key: _as_produce_error(error, support) for key, error in found.errors.items()})

    return then(context.broker.verifier.verify(*transaction, support), as_understood)


def _as_produce_error(error: KafkaError, support: ClientSupport) -> KafkaError:
    if isinstance(error, InvalidTxnStateError):
        return NotInTransactionError("Partition was not added to the transaction")
    temporary = isinstance(
        error, CoordinatorLoadInProgressError | CoordinatorNotAvailableError | NotCoordinatorError
    ) or (isinstance(error, ConcurrentTransactionsError) and support is not ClientSupport.TRANSACTIONS_V2)
    if temporary:
        return UnableToVerifyError(
            f"Unable to verify the partition has been added to the transaction. Underlying error: {type(error).name}"
        )
    return error


def _has_to_wait(verification: Verification) -> bool:
    """Return whether a client with transactions of version 2 has to wait for the end of its last transaction."""
    return any(isinstance(error, ConcurrentTransactionsError) for error in verification.errors.values())


def _keep_records(request: ProduceRequest) -> None:
    # The connection may reuse the memory of the request before the request is carried out.
    for topic in request.topic_data:
        for partition in topic.partition_data:
            if partition.records is not None:
                partition.records = bytes(partition.records)


async def _store_when_verified(
    context: Context[ProduceServices],
    request: ProduceRequest,
    transaction: Transaction,
    refusals: Refusals,
    verification: Verification | asyncio.Future[Verification],
) -> Reply:
    """Store the records when the coordinator has answered, and the previous transaction is complete.

    The verification is repeated until then, since a retry of the client would cost more.
    """
    config, loop = context.broker.config, asyncio.get_running_loop()
    backoff = config.integer("add.partitions.to.txn.retry.backoff.ms") / 1000
    deadline = loop.time() + config.integer("add.partitions.to.txn.retry.backoff.max.ms") / 1000
    while True:
        found = await verification if isinstance(verification, asyncio.Future) else verification
        if not _has_to_wait(found) or loop.time() >= deadline:
            stored = _store(context, request, refusals, found)
            return await stored if isinstance(stored, asyncio.Future) else stored
        await asyncio.sleep(backoff)
        verification = _verify(context, transaction)


# Records


def _topic_key(context: Context[ProduceServices], topic: ProduceRequest.TopicProduceData) -> str | UUID:
    return topic.topic_id if context.version >= FIRST_WITH_TOPIC_IDS else topic.name


def _store(
    context: Context[ProduceServices], request: ProduceRequest, refusals: Refusals, verification: Verification
) -> Reply | asyncio.Future[Reply]:
    broker = context.broker
    wanted = context.version >= FIRST_WITH_LEADER_HINTS
    hints = LeaderHints(broker.image, context.connection.listener, ProduceResponse.NodeEndpoint, wanted=wanted)
    now = broker.clock()
    failures: list[KafkaError] = []
    appends: list[AwaitedAppend] = []
    responses = []
    for topic in request.topic_data:
        name = _topic_key(context, topic)
        refusal = refusals.get(name)
        results = []
        for partition in topic.partition_data:
            found: LocalPartition | None = None
            try:
                if refusal is not None:
                    raise refusal
                found = _find(context, request.acks, name, partition, verification)
                result, last_offset = _append(context, request.acks, found, partition, now, verification)
                if request.acks == ALL_REPLICAS and found.log.high_watermark <= last_offset:
                    complete = partial(_complete, context, hints, failures, found.topic, result)
                    appends.append(AwaitedAppend(found.log, last_offset + 1, complete))
                results.append(result)
            except KafkaError as error:
                failures.append(error)
                result = _failed(context, name, partition.index, error, hints)
                if found is not None:
                    _count_failure(context, found.topic, error, partition)
                    if not isinstance(error, _EXPECTED):
                        result.log_start_offset = found.log.log_start_offset
                results.append(result)
        if results:
            responses.append(
                ProduceResponse.TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=results
                )
            )
    if request.acks == 0:
        if failures:
            raise CloseConnectionError(f"records sent with acks=0 could not be stored: {failures[-1]}")
        return None
    if appends:
        return broker.delayed_produces.wait(
            appends, request.timeout_ms, lambda: _response(responses, hints, failed=bool(failures))
        )
    return _response(responses, hints, failed=bool(failures))


def _response(
    responses: list[ProduceResponse.TopicProduceResponse], hints: LeaderHints, *, failed: bool
) -> ProduceResponse | ErrorFree:
    response = ProduceResponse(responses=responses, node_endpoints=hints.endpoints())
    return response if failed else ErrorFree(response)


def _refuse(context: Context[ProduceServices], request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """Return the same error for all partitions."""
    if request.acks == 0:
        raise CloseConnectionError(f"records sent with acks=0 could not be stored: {error}")
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionResult(
                        index=partition.index,
                        error_code=code_of(error),
                        error_message=error.message,
                        base_offset=-1,
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _find(
    context: Context[ProduceServices],
    acks: int,
    topic: str | UUID,
    wanted: ProduceRequest.PartitionProduceData,
    verification: Verification,
) -> LocalPartition:
    """Return the partition to append to, after all checks that do not need its log."""
    if acks not in (ALL_REPLICAS, 0, 1):
        raise InvalidRequiredAcksError
    found = context.broker.partitions.find(topic, wanted.index)
    if verification.errors and (found.topic, wanted.index) in verification.errors:
        raise verification.errors[found.topic, wanted.index]
    if found.topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT:
        raise InvalidTopicError(f"Cannot append to internal topic {found.topic}", topic=found.topic)
    if wanted.records is None or not len(wanted.records):
        raise InvalidRecordError("Record batches must not be empty", topic=found.topic, partition=wanted.index)
    if context.version < FIRST_WITH_ZSTD and _is_zstd(wanted.records):
        raise UnsupportedCompressionTypeError(topic=found.topic, partition=wanted.index)
    return found


def _is_zstd(records: bytes | memoryview) -> bool:
    return len(records) > _ATTRIBUTES and records[_ATTRIBUTES] & _CODEC == _ZSTD


def _append(
    context: Context[ProduceServices],
    acks: int,
    found: LocalPartition,
    wanted: ProduceRequest.PartitionProduceData,
    now: int,
    verification: Verification,
) -> tuple[PartitionResult, int]:
    """Append to a partition; return its result, and the offset of the last record."""
    assert wanted.records is not None
    if acks == ALL_REPLICAS:
        context.broker.partitions.check_in_sync(found)
    verified: Verified = False
    if verification is not NOTHING_TO_VERIFY:
        verified = verification.of((found.topic, wanted.index))
    stored = found.log.append(wanted.records, leader_epoch=found.state.leader_epoch, now_ms=now, verified=verified)
    context.broker.metrics.stored((found.topic, stored.last_offset - stored.base_offset + 1, len(wanted.records)))
    result = PartitionResult(
        index=wanted.index,
        base_offset=stored.base_offset,
        log_append_time_ms=stored.log_append_time_ms,
        log_start_offset=stored.log_start_offset,
    )
    return result, stored.last_offset


def _complete(
    context: Context[ProduceServices],
    hints: LeaderHints,
    failures: list[KafkaError],
    topic: str,
    result: PartitionResult,
    error: KafkaError | None,
) -> None:
    """Set the result of a partition when its records are replicated, or cannot be."""
    if error is not None:
        failures.append(error)
        result.error_code = code_of(error)
        _add_leader(context, topic, result, error, hints)


def _count_failure(
    context: Context[ProduceServices], topic: str, error: KafkaError, wanted: ProduceRequest.PartitionProduceData
) -> None:
    """Count an error of a log."""
    stats = context.broker.metrics.topics.of(topic)
    if isinstance(error, RecordTooLargeError | RecordBatchTooLargeError):
        stats.bytes_rejected += len(wanted.records or b"")
    elif not isinstance(error, _EXPECTED):
        stats.failed_produce += 1


def _failed(
    context: Context[ProduceServices], topic: str | UUID, partition: int, error: KafkaError, hints: LeaderHints
) -> PartitionResult:
    result = PartitionResult(index=partition, error_code=code_of(error), base_offset=-1)
    if isinstance(error, RejectedRecordsError | RejectedTimestampsError):
        result.error_message = error.message
        result.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(
                batch_index=record.batch_index, batch_index_error_message=record.message
            )
            for record in error.record_errors
        ]
    elif isinstance(error, InvalidRecordError | NotInTransactionError | UnableToVerifyError):
        result.error_message = error.message
    _add_leader(context, topic, result, error, hints)
    return result


def _add_leader(
    context: Context[ProduceServices], topic: str | UUID, result: PartitionResult, error: KafkaError, hints: LeaderHints
) -> None:
    leader = hints.add(error, context.broker.image.partition(topic, result.index))
    if leader is not None:
        result.current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
