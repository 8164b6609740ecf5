"""The producers of partitions: describe them, find hanging transactions, and abort one.

A transaction hangs if a partition waits for its marker and the coordinator does not know the transaction, for example
after a record that arrived behind the marker. The partition's last stable offset then does not advance until
`abort_transaction` writes the marker (KIP-664). Elsewhere: transactional ids (`transactions`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kclient._topics import by_topic
from kclient.admin.arguments import duration, number, optional, partition, partitions, several
from kclient.admin.core import AdminCore, Outcomes
from kclient.admin.topic_descriptions import describe_topics, list_topics
from kclient.admin.transactions import TransactionDescription, describe_transactions, list_transactions
from kclient.errors import (
    AdminError,
    ConfigError,
    IllegalStateError,
    InvalidProducerEpochError,
    KafkaError,
    NotLeaderOrFollowerError,
    TransactionalIdNotFoundError,
    TransactionCoordinatorFencedError,
    UnknownTopicOrPartitionError,
    error_from_code,
)
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.net.runtime import current
from kclient.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kclient.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kclient.types import TopicPartition

MAX_TRANSACTION_TIMEOUT = 900.0
"""Seconds; the default of the brokers' transaction.max.timeout.ms."""

_AT_ONCE = 500
"""The number of partitions per request of a search, so that it does not overload a broker."""


class ProducerState(msgspec.Struct, frozen=True):
    """A producer that has recently written to a partition.

    Attributes:
        last_sequence: the sequence number of its last record; None after the marker of a transaction's end.
        last_timestamp: the timestamp of its last batch, in milliseconds since the epoch.
        coordinator_epoch: the coordinator epoch of its last marker; None without one.
        transaction_start_offset: the first offset of its open transaction in this partition; None without one.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class HangingTransaction(msgspec.Struct, frozen=True):
    """A transaction that its coordinator will not end.

    Attributes:
        start_offset: its first offset, for `Admin.abort_transaction`.
        transactional_id: the id that has, or had, the producer id; None if no coordinator knows it.
    """

    partition: TopicPartition
    start_offset: int
    producer: ProducerState
    transactional_id: str | None


def describe_producers(
    core: AdminCore, wanted: Iterable[TopicPartition], broker_id: int | None, deadline: Deadline
) -> Operation[dict[TopicPartition, tuple[ProducerState, ...]]]:
    """Ask the leaders, or one replica."""
    keys = partitions(wanted, deadline.name)
    optional(broker_id, int, f"{deadline.name}(broker_id=)")

    def ask(node: int, asked: list[TopicPartition]) -> Operation[Outcomes[TopicPartition, tuple[ProducerState, ...]]]:
        request = DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(name=name, partition_indexes=numbers)
                for name, numbers in by_topic(asked).items()
            ]
        )
        answer: DescribeProducersResponse = yield from core.request(
            node, DescribeProducersRequest, lambda version: request, deadline
        )
        return {
            TopicPartition(topic.name, each.partition_index): _producers(topic.name, each, broker_id)
            for topic in answer.topics
            for each in topic.partitions
        }

    def attempt(pending: list[TopicPartition]) -> Operation[Outcomes[TopicPartition, tuple[ProducerState, ...]]]:
        if broker_id is not None:
            return (yield from core.gather({broker_id: ask(broker_id, pending)}, {broker_id: pending}))
        by_leader, errors = yield from core.leaders(pending, deadline)
        found = yield from core.gather({node: ask(node, asked) for node, asked in by_leader.items()}, by_leader)
        return {**errors, **found}

    return (yield from core.keyed(keys, attempt, deadline))


def find_hanging_transactions(
    core: AdminCore,
    topics: str | Iterable[str] | None,
    broker_id: int | None,
    max_transaction_timeout: float,
    deadline: Deadline,
) -> Operation[list[HangingTransaction]]:
    """Find transactions that are open for longer than allowed, in partitions that no coordinator has in a
    transaction.
    """
    names = None if topics is None else several(topics, str, f"{deadline.name}(topics=)")
    optional(broker_id, int, f"{deadline.name}(broker_id=)")
    longest = duration(max_transaction_timeout, f"{deadline.name}(max_transaction_timeout=)")
    oldest = current().time_ms() - longest * 1000
    everywhere = yield from _partitions(core, names, broker_id, deadline)
    candidates: list[tuple[TopicPartition, int, ProducerState]] = []
    for first in range(0, len(everywhere), _AT_ONCE):
        described = yield from _producers_of_what_is_there(
            core, everywhere[first : first + _AT_ONCE], broker_id, names is not None, deadline
        )
        candidates += [
            (key, producer.transaction_start_offset, producer)
            for key, producers in described.items()
            for producer in producers
            if producer.transaction_start_offset is not None and producer.last_timestamp < oldest
        ]
    if not candidates:
        return []
    ids = yield from _transactional_ids(core, {producer.producer_id for _, _, producer in candidates}, deadline)
    known = yield from _known(core, ids.values(), deadline)
    hanging = []
    for key, start, producer in candidates:
        transactional_id = ids.get(producer.producer_id)
        description = None if transactional_id is None else known.get(transactional_id)
        if description is None or key not in description.partitions:
            hanging.append(HangingTransaction(key, start, producer, transactional_id))
    return hanging


def abort_transaction(
    core: AdminCore,
    where: TopicPartition,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    deadline: Deadline,
) -> Operation[None]:
    """Send the missing marker to the partition's leader."""
    key = partition(where, deadline.name)
    named = (producer_id, producer_epoch)
    if (start_offset is None) == (None in named) or (start_offset is not None and named != (None, None)):
        raise ConfigError("abort_transaction takes either start_offset, or producer_id and producer_epoch")
    if start_offset is None:
        marker = (
            number(producer_id, f"{deadline.name}(producer_id=)"),
            number(producer_epoch, f"{deadline.name}(producer_epoch=)"),
            optional(coordinator_epoch, int, f"{deadline.name}(coordinator_epoch=)"),
        )
    else:
        number(start_offset, f"{deadline.name}(start_offset=)")
        found = yield from _open_at(core, key, start_offset, deadline)
        marker = (found.producer_id, found.producer_epoch, found.coordinator_epoch)
    try:
        yield from _write_marker(core, key, *marker, deadline)
    except AdminError as failed:
        raise failed.errors[key] from None


def _open_at(core: AdminCore, key: TopicPartition, start_offset: int, deadline: Deadline) -> Operation[ProducerState]:
    try:
        producers = (yield from describe_producers(core, [key], None, deadline))[key]
    except AdminError as failed:
        raise failed.errors[key] from None
    starts = sorted(each.transaction_start_offset for each in producers if each.transaction_start_offset is not None)
    for each in producers:
        if each.transaction_start_offset == start_offset:
            return each
    others = f"; open ones start at {', '.join(map(str, starts))}" if starts else ", and no transaction is open there"
    raise IllegalStateError(
        f"no open transaction starts at offset {start_offset}{others}", topic=key.topic, partition=key.partition
    )


def _write_marker(
    core: AdminCore,
    key: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int | None,
    deadline: Deadline,
) -> Operation[dict[TopicPartition, None]]:
    kind = WriteTxnMarkersRequest
    request = kind(
        markers=[
            kind.WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=False,
                topics=[kind.WritableTxnMarkerTopic(name=key.topic, partition_indexes=[key.partition])],
                # A partition that never had a marker of this producer has no epoch to compare; 0 is the lowest.
                coordinator_epoch=max(0, coordinator_epoch or 0),
            )
        ]
    )

    def ask(node: int) -> Operation[Outcomes[TopicPartition, None]]:
        answer: WriteTxnMarkersResponse = yield from core.request(node, kind, lambda version: request, deadline)
        return {
            TopicPartition(topic.name, each.partition_index): _marker_error(key, each.error_code)
            for one in answer.markers
            for topic in one.topics
            for each in topic.partitions
        }

    def attempt(pending: list[TopicPartition]) -> Operation[Outcomes[TopicPartition, None]]:
        by_leader, errors = yield from core.leaders(pending, deadline)
        found = yield from core.gather({node: ask(node) for node in by_leader}, by_leader)
        return {**errors, **found}

    return (yield from core.keyed([key], attempt, deadline))


def _marker_error(key: TopicPartition, code: int) -> KafkaError | None:
    if not code:
        return None
    text = None
    if code == InvalidProducerEpochError.code:
        text = "the producer has a newer epoch in the partition: another transaction of it is open"
    elif code == TransactionCoordinatorFencedError.code:
        text = "the partition has had a marker with a higher coordinator epoch; describe_producers tells which"
    elif code == UnknownTopicOrPartitionError.code:
        # Brokers return this if they are no longer the leader, although the metadata said so.
        code = NotLeaderOrFollowerError.code
    return error_from_code(code, text, topic=key.topic, partition=key.partition, api="WriteTxnMarkers")


def _partitions(
    core: AdminCore, topics: list[str] | None, broker_id: int | None, deadline: Deadline
) -> Operation[list[TopicPartition]]:
    """Return the partitions of some topics or of all, on one broker if it is given."""
    missing: dict[str, BaseException] = {}
    if topics is not None:
        described = yield from describe_topics(core, topics, deadline)
    else:
        listed = yield from list_topics(core, True, deadline)
        try:
            described = yield from describe_topics(core, listed, deadline)
        except AdminError as error:
            described, missing = error.results, error.errors
    _raise_unless_deleted(missing)
    return [
        TopicPartition(name, info.partition)
        for name, topic in described.items()
        for info in topic.partitions
        if broker_id is None or broker_id in info.replicas
    ]


def _producers_of_what_is_there(
    core: AdminCore, keys: list[TopicPartition], broker_id: int | None, must_exist: bool, deadline: Deadline
) -> Operation[dict[TopicPartition, tuple[ProducerState, ...]]]:
    """Describe producers; ignore topics that were deleted during a search of all topics."""
    try:
        return (yield from describe_producers(core, keys, broker_id, deadline))
    except AdminError as error:
        if must_exist:
            raise
        _raise_unless_deleted(error.errors)
        return error.results


def _raise_unless_deleted(errors: dict[str, BaseException] | dict[TopicPartition, BaseException]) -> None:
    for error in errors.values():
        if not isinstance(error, UnknownTopicOrPartitionError):
            raise error


def _transactional_ids(core: AdminCore, producer_ids: set[int], deadline: Deadline) -> Operation[dict[int, str]]:
    """Return the transactional ids of producer ids; every broker must respond, or an id may seem unused."""
    listed = yield from list_transactions(core, (), producer_ids, None, None, deadline)
    return {each.producer_id: each.transactional_id for each in listed.values()}


def _known(
    core: AdminCore, transactional_ids: Iterable[str], deadline: Deadline
) -> Operation[dict[str, TransactionDescription]]:
    """Return the descriptions of the ids that still exist."""
    try:
        return (yield from describe_transactions(core, transactional_ids, deadline))
    except AdminError as error:
        for each in error.errors.values():
            if not isinstance(each, TransactionalIdNotFoundError):
                raise
        return error.results


def _producers(
    topic: str, answer: DescribeProducersResponse.PartitionResponse, broker_id: int | None
) -> tuple[ProducerState, ...] | KafkaError:
    if answer.error_code:
        error = error_from_code(
            answer.error_code, answer.error_message, topic=topic, partition=answer.partition_index, broker=broker_id
        )
        if broker_id is not None and isinstance(error, NotLeaderOrFollowerError):
            error.retriable = False  # the replica was chosen by the caller, and no other one will be asked
        return error
    return tuple(
        ProducerState(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence if each.last_sequence >= 0 else None,
            each.last_timestamp,
            each.coordinator_epoch if each.coordinator_epoch >= 0 else None,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for each in answer.active_producers
    )
