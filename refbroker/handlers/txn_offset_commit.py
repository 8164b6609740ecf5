"""TxnOffsetCommit (28), versions 0 to 5: stores offsets of a group in a transaction (KIP-98, KIP-447).

The offsets are stored immediately and become valid when the transaction is committed. Each partition has its own
result: one that does not exist is UNKNOWN_TOPIC_OR_PARTITION, metadata longer than `offset.metadata.max.bytes`
OFFSET_METADATA_TOO_LARGE. An error of the producer, the member or the coordinator is returned for each partition that
exists. From version 3 on, the producer may send the member and the generation for which it commits. Elsewhere: the
rules (`refbroker.coordinators.groups.offset_requests`).

The group's partition of `__consumer_offsets` must belong to the transaction: AddOffsetsToTxn adds it, or from version 5
on this request. If it does not, the error is TRANSACTION_ABORTABLE, before version 4 INVALID_TXN_STATE; an older epoch
of the producer is INVALID_PRODUCER_EPOCH. Before version 2, COORDINATOR_LOAD_IN_PROGRESS is replaced by
COORDINATOR_NOT_AVAILABLE, because clients of that time did not handle it.

Permissions: WRITE on the transactional id, READ on the group, READ on the topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kclient.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidGroupIdError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from refbroker.coordinators.transactions.verification import ClientSupport
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices
from refbroker.runtime.error_codes import code_of
from refbroker.runtime.eventual import then
from refbroker.security.permissions import READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID

FIRST_WITH_LOAD_IN_PROGRESS = 2
FIRST_WITH_ABORTABLE_ERROR = 4
FIRST_WITH_TRANSACTIONS_V2 = 5

RequestTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
ResponseTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
ResponsePartition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


def handle(
    context: Context[TransactionServices], request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
    """Carry out a TxnOffsetCommit request."""
    answers: dict[str, ResponseTopic] = {}
    topics, access = context.broker.image.topics, context.access
    accepted: list[RequestTopic] = []
    refusal = access.refusal(WRITE_TRANSACTIONAL_ID, request.transactional_id) or access.refusal(
        READ_GROUP, request.group_id
    )
    for topic in request.topics:
        error = refusal or access.refusal(READ_TOPIC, topic.name)
        if error is not None:
            _refuse(answers, topic.name, [one.partition_index for one in topic.partitions], error)
            continue
        partitions = topics[topic.name].partitions if topic.name in topics else {}
        known = [one for one in topic.partitions if one.partition_index in partitions]
        unknown = [one.partition_index for one in topic.partitions if one.partition_index not in partitions]
        if known:
            accepted.append(RequestTopic(name=topic.name, partitions=known))
        _refuse(answers, topic.name, unknown, UnknownTopicOrPartitionError())
    if not accepted:
        return TxnOffsetCommitResponse(topics=list(answers.values()))
    request.topics = accepted

    def failed(failure: KafkaError) -> TxnOffsetCommitResponse:
        if context.version < FIRST_WITH_LOAD_IN_PROGRESS and isinstance(failure, CoordinatorLoadInProgressError):
            failure = CoordinatorNotAvailableError(failure.message)
        failures: dict[str, ResponseTopic] = {}
        for topic in accepted:
            _refuse(failures, topic.name, [one.partition_index for one in topic.partitions], failure)
        return TxnOffsetCommitResponse(topics=list(failures.values()))

    def respond(stored: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        for answered in stored.topics:
            _add(answers, answered.name, answered.partitions)
        return TxnOffsetCommitResponse(topics=list(answers.values()))

    if not request.group_id:
        return respond(failed(InvalidGroupIdError()))
    broker = context.broker
    committed = broker.groups.commit_offsets_in_transaction(request, broker.verifier, _support(context.version), failed)
    return then(committed, respond)


def _support(version: int) -> ClientSupport:
    if version >= FIRST_WITH_TRANSACTIONS_V2:
        return ClientSupport.TRANSACTIONS_V2
    return ClientSupport.ABORTABLE_ERROR if version >= FIRST_WITH_ABORTABLE_ERROR else ClientSupport.NONE


def _refuse(answers: dict[str, ResponseTopic], name: str, partitions: Iterable[int], error: KafkaError) -> None:
    code = code_of(error)
    _add(answers, name, [ResponsePartition(partition_index=number, error_code=code) for number in partitions])


def _add(answers: dict[str, ResponseTopic], name: str, partitions: list[ResponsePartition]) -> None:
    if partitions:
        answers.setdefault(name, ResponseTopic(name=name)).partitions.extend(partitions)
