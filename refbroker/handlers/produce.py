"""Produce (0), versions 3 to 13: appends record batches to partitions.

Each partition for itself, with its error, the records that were refused and a text. acks 0 gets no answer
(an error closes the connection, which is how Kafka tells such a client), 1 and -1 (all) the same one,
since there is a single replica; -1 is NOT_ENOUGH_REPLICAS when fewer are in sync than `min.insync.replicas`
asks for and than there are, another number INVALID_REQUIRED_ACKS. Sequences of idempotent producers are checked by
the log. Version 13 names topics by id. Kafka's internal topics are the broker's own, INVALID_TOPIC_EXCEPTION for all
clients but one.
Transactional batches are refused by the log, as no transaction can have begun.
"""

from __future__ import annotations

from uuid import UUID

from kclient.errors import (
    InvalidRecordError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    KafkaError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
)
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from refbroker.dispatch import CloseConnectionError, Context
from refbroker.handlers.answers import INTERNAL_TOPICS, LeaderHints, code_of
from refbroker.log import RejectedRecordsError, RejectedTimestampsError

FIRST_WITH_LEADER_HINTS = 10
FIRST_WITH_TOPIC_IDS = 13
ALL_REPLICAS = -1
# Kafka lets clients of this name write to internal topics, for tools that mend them.
ADMIN_CLIENT = "__admin_client"

PartitionResult = ProduceResponse.PartitionProduceResponse


def handle(context: Context, request: ProduceRequest) -> ProduceResponse | None:
    """Carry out a Produce request.

    Raises:
        CloseConnectionError: a batch could not be stored, and the client wants no answer.
    """
    broker = context.broker
    wanted = context.version >= FIRST_WITH_LEADER_HINTS
    hints = LeaderHints(broker.metadata.image, ProduceResponse.NodeEndpoint, wanted=wanted)
    now = broker.clock()
    failure: KafkaError | None = None
    responses = []
    for topic in request.topic_data:
        name: str | UUID = topic.topic_id if context.version >= FIRST_WITH_TOPIC_IDS else topic.name
        results = []
        for partition in topic.partition_data:
            try:
                results.append(_append(context, request.acks, name, partition, now))
            except KafkaError as error:
                failure = error
                _count_failure(context, name, error, partition)
                results.append(_failed(context, name, partition.index, error, hints))
        responses.append(
            ProduceResponse.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results)
        )
    if request.acks == 0:
        if failure is not None:
            raise CloseConnectionError(f"records sent with acks=0 could not be stored: {failure}")
        return None
    return ProduceResponse(responses=responses, node_endpoints=hints.endpoints())


def _append(
    context: Context, acks: int, topic: str | UUID, wanted: ProduceRequest.PartitionProduceData, now: int
) -> PartitionResult:
    if acks not in (ALL_REPLICAS, 0, 1):
        raise InvalidRequiredAcksError
    found = context.broker.partitions.find(topic, wanted.index)
    if found.topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT:
        raise InvalidTopicError(f"Cannot append to internal topic {found.topic}", topic=found.topic)
    if wanted.records is None or not len(wanted.records):
        raise InvalidRecordError("Record batches must not be empty", topic=found.topic, partition=wanted.index)
    if acks == ALL_REPLICAS:
        context.broker.partitions.check_in_sync(found)
    stored = found.log.append(wanted.records, leader_epoch=found.state.leader_epoch, now_ms=now)
    context.broker.metrics.stored((found.topic, stored.last_offset - stored.base_offset + 1, len(wanted.records)))
    return PartitionResult(
        index=wanted.index,
        base_offset=stored.base_offset,
        log_append_time_ms=stored.log_append_time_ms,
        log_start_offset=stored.log_start_offset,
    )


def _count_failure(
    context: Context, topic: str | UUID, error: KafkaError, wanted: ProduceRequest.PartitionProduceData
) -> None:
    context.broker.metrics.has_failed = True
    name = context.broker.partitions.topic_name(topic)
    if name is not None:
        stats = context.broker.metrics.topics.of(name)
        stats.failed_produce += 1
        if isinstance(error, RecordTooLargeError | RecordBatchTooLargeError):
            stats.bytes_rejected += len(wanted.records or b"")


def _failed(
    context: Context, topic: str | UUID, partition: int, error: KafkaError, hints: LeaderHints
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
    elif isinstance(error, InvalidRecordError):
        result.error_message = error.message
    leader = hints.add(error, context.broker.partitions.state(topic, partition))
    if leader is not None:
        result.current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    return result
