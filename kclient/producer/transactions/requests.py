"""The requests of a transaction: their messages, versions, and the errors in their responses.

A step is one request to a coordinator, retried until it has a final response. Its request versions depend on the
version of transactions (KIP-890). Elsewhere: when a step is sent, and the meaning of its response (`manager`,
`outcomes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from kclient._topics import by_topic
from kclient.errors import KafkaError, OperationNotAttemptedError, ProtocolError, error_from_code
from kclient.producer.transactions.outcomes import Api
from kclient.protocol import Message
from kclient.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.end_txn import EndTxnRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

_LAST_COMMIT_OFFSETS_OF_V1 = 4
_LAST_END_OF_V1 = 4
_LAST_ADD_PARTITIONS_OF_CLIENTS = 3
_INIT_WITH_EPOCH = 3
_COMMIT_OFFSETS_WITH_MEMBER = 3


class ProducerIdentity(NamedTuple):
    """The producer of the transaction, as in every request."""

    transactional_id: str
    producer_id: int
    epoch: int


class Step:
    """One request to a coordinator.

    Attributes:
        group_id: the group whose coordinator receives it; None for the transaction's coordinator.
        minimum_version, maximum_version: see `kclient.net.manager.Request`.
        waits_without_limit: False if it is given up after delivery_timeout_ms.
        attempts: how often it was sent.
        retry_at: the earliest time of the next attempt.
        first_due: when it could first have been sent; 0.0 before.
        last_error: why the last attempt failed.
        lost: whether an attempt had no response: the coordinator may have executed it, or may do so later.
    """

    api: Api
    request_type: ClassVar[type[Message]]
    group_id: str | None = None
    minimum_version: int | None = None
    maximum_version: int | None = None
    waits_without_limit: ClassVar[bool] = True

    def __init__(self, producer: ProducerIdentity) -> None:
        self.producer = producer
        self.attempts = 0
        self.retry_at = 0.0
        self.first_due = 0.0
        self.last_error: KafkaError | None = None
        self.lost = False

    def build(self, version: int) -> Message:
        """Return the message for a version."""
        raise NotImplementedError

    def errors(self, response: Any) -> list[KafkaError]:
        """Return the errors in a response."""
        if response.error_code:
            return [error_from_code(response.error_code, api=self.api.value.split()[0])]
        return []


class InitStep(Step):
    """Requests a producer id; with the current one, its next epoch (KIP-360)."""

    api = Api.INIT
    request_type = InitProducerIdRequest

    def __init__(self, producer: ProducerIdentity, timeout_ms: int) -> None:
        super().__init__(producer)
        self._timeout_ms = timeout_ms
        if producer.producer_id >= 0:
            self.minimum_version = _INIT_WITH_EPOCH

    def build(self, version: int) -> InitProducerIdRequest:
        """Return the message for a version."""
        return InitProducerIdRequest(
            transactional_id=self.producer.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
        )


class AddPartitionsStep(Step):
    """Adds partitions to the transaction, before the first batch of each; only with version 1."""

    api = Api.ADD_PARTITIONS
    request_type = AddPartitionsToTxnRequest
    maximum_version = _LAST_ADD_PARTITIONS_OF_CLIENTS

    def __init__(self, producer: ProducerIdentity, partitions: Iterable[TopicPartition]) -> None:
        super().__init__(producer)
        self.partitions = tuple(partitions)

    def build(self, version: int) -> AddPartitionsToTxnRequest:
        """Return the message for a version."""
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.producer.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=partitions)
                for topic, partitions in by_topic(self.partitions).items()
            ],
        )

    def errors(self, response: Any) -> list[KafkaError]:
        """Return the errors of partitions, without those that were not attempted because of others."""
        codes = {
            TopicPartition(topic.name, answer.partition_index): answer.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for answer in topic.results_by_partition
        }
        return _partition_errors(self, self.partitions, codes)


class AddOffsetsStep(Step):
    """Adds the offsets of a group to the transaction; only with version 1."""

    api = Api.ADD_OFFSETS
    request_type = AddOffsetsToTxnRequest
    waits_without_limit = False

    def __init__(self, producer: ProducerIdentity, added_group: str) -> None:
        super().__init__(producer)
        self.added_group = added_group

    def build(self, version: int) -> AddOffsetsToTxnRequest:
        """Return the message for a version."""
        return AddOffsetsToTxnRequest(
            transactional_id=self.producer.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            group_id=self.added_group,
        )


class CommitOffsetsStep(Step):
    """Stores offsets with the group's coordinator, which become visible when the transaction is committed."""

    api = Api.COMMIT_OFFSETS
    request_type = TxnOffsetCommitRequest
    waits_without_limit = False

    group_id: str

    def __init__(
        self,
        producer: ProducerIdentity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        *,
        is_v2: bool,
    ) -> None:
        super().__init__(producer)
        self.group_id = group.group_id
        self._group = group
        self._left = dict(offsets)
        if is_v2:
            self.minimum_version = _LAST_COMMIT_OFFSETS_OF_V1 + 1
        else:
            self.maximum_version = _LAST_COMMIT_OFFSETS_OF_V1
            if group != ConsumerGroupMetadata(group.group_id):
                # Without the member id the coordinator could not refuse a consumer that lost its partitions (KIP-447).
                self.minimum_version = _COMMIT_OFFSETS_WITH_MEMBER

    def build(self, version: int) -> TxnOffsetCommitRequest:
        """Return the message for a version, with the offsets that are not stored yet."""
        topics = by_topic((tp.topic, _offset_to_commit(tp.partition, offset)) for tp, offset in self._left.items())
        return TxnOffsetCommitRequest(
            transactional_id=self.producer.transactional_id,
            group_id=self._group.group_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            generation_id=self._group.generation_id,
            member_id=self._group.member_id,
            group_instance_id=self._group.group_instance_id,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)
                for topic, partitions in topics.items()
            ],
        )

    def errors(self, response: Any) -> list[KafkaError]:
        """Return the errors of partitions; stored offsets are not sent again."""
        codes = {
            TopicPartition(topic.name, answer.partition_index): answer.error_code
            for topic in response.topics
            for answer in topic.partitions
        }
        errors = _partition_errors(self, self._left, codes)
        for tp in [tp for tp in self._left if codes.get(tp) == 0]:
            del self._left[tp]
        return errors


class EndStep(Step):
    """Commits or aborts the transaction."""

    request_type = EndTxnRequest

    def __init__(self, producer: ProducerIdentity, *, commit: bool, is_v2: bool) -> None:
        super().__init__(producer)
        self.commit = commit
        self.api = Api.END_V2 if is_v2 else Api.END
        if is_v2:
            self.minimum_version = _LAST_END_OF_V1 + 1
        else:
            self.maximum_version = _LAST_END_OF_V1

    def build(self, version: int) -> EndTxnRequest:
        """Return the message for a version."""
        return EndTxnRequest(
            transactional_id=self.producer.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=self.commit,
        )


def _offset_to_commit(
    partition: int, offset: OffsetAndMetadata
) -> TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _partition_errors(
    step: Step, asked: Iterable[TopicPartition], codes: Mapping[TopicPartition, int]
) -> list[KafkaError]:
    errors: list[KafkaError] = []
    for tp in asked:
        code = codes.get(tp)
        if code is None:
            text = "the broker's response did not contain the partition"
            errors.append(ProtocolError(text, topic=tp.topic, partition=tp.partition, api=step.api.value))
        elif code and code != OperationNotAttemptedError.code:
            errors.append(error_from_code(code, topic=tp.topic, partition=tp.partition, api=step.api.value))
    return errors
