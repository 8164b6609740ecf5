"""Transactions as their coordinators know them: list and describe them (KIP-664), fence producers.

Elsewhere: ending a prepared transaction (`prepared_transactions`), and the producers of partitions (`producers`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from kclient.admin.arguments import duration, optional, several
from kclient.admin.coordinators import at_coordinators
from kclient.admin.core import AdminCore, Outcomes
from kclient.admin.groups import named
from kclient.errors import AdminError, KafkaError, error_from_code, raise_for_code
from kclient.net.coordinator import TRANSACTION
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kclient.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kclient.types import Node, TopicPartition

_DURATION_FROM = 1
_PATTERN_FROM = 2


class TransactionState(Enum):
    """The state of a transactional id, by Kafka's names.

    In a PREPARE state the outcome is decided, and not all partitions have the marker yet.
    """

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"


class TransactionListing(msgspec.Struct, frozen=True):
    """A transactional id in the list.

    Attributes:
        coordinator: the coordinator's broker.
    """

    transactional_id: str
    state: TransactionState
    producer_id: int
    coordinator: int


class TransactionDescription(msgspec.Struct, frozen=True):
    """A transactional id and its current or last transaction.

    Attributes:
        timeout_ms: after how long the coordinator aborts an open transaction, in milliseconds.
        start_timestamp: when the transaction began, in milliseconds since the epoch; None if there was none yet.
        partitions: those with records of the transaction and without its marker.
        coordinator: the coordinator's broker.
    """

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_timestamp: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator: Node


class FencedProducer(msgspec.Struct, frozen=True):
    """The new producer id and epoch of a transactional id; producers with an older epoch are refused."""

    producer_id: int
    epoch: int


def list_transactions(
    core: AdminCore,
    states: Iterable[TransactionState],
    producer_ids: Iterable[int],
    min_duration: float | None,
    transactional_id_pattern: str | None,
    deadline: Deadline,
) -> Operation[dict[str, TransactionListing]]:
    """Ask all brokers, because each knows only the transactional ids that it coordinates."""
    name = deadline.name
    request = ListTransactionsRequest(
        state_filters=[state.value for state in several(states, TransactionState, f"{name}(states=)")],
        producer_id_filters=several(producer_ids, int, f"{name}(producer_ids=)"),
        duration_filter=-1 if min_duration is None else int(duration(min_duration, f"{name}(min_duration=)") * 1000),
        transactional_id_pattern=optional(transactional_id_pattern, str, f"{name}(transactional_id_pattern=)"),
    )
    first = None if min_duration is None else _DURATION_FROM
    if transactional_id_pattern is not None:
        first = _PATTERN_FROM

    def ask(node: int) -> Operation[Outcomes[int, list[TransactionListing]]]:
        answer: ListTransactionsResponse = yield from core.request(
            node, ListTransactionsRequest, lambda version: request, deadline, first
        )
        raise_for_code(answer.error_code, api="ListTransactions", broker=node)
        return {node: [_listed(each, node) for each in answer.transaction_states]}

    def attempt(pending: list[int]) -> Operation[Outcomes[int, list[TransactionListing]]]:
        return (yield from core.gather({node: ask(node) for node in pending}, {node: [node] for node in pending}))

    metadata = yield from core.ask_metadata([], deadline)
    try:
        found = yield from core.keyed((broker.node_id for broker in metadata.brokers), attempt, deadline)
    except AdminError as error:
        raise AdminError(_by_id(error.results.values()), error.errors) from None
    return _by_id(found.values())


def describe_transactions(
    core: AdminCore, transactional_ids: str | Iterable[str], deadline: Deadline
) -> Operation[dict[str, TransactionDescription]]:
    def ask(node: Node, asked: list[str]) -> Operation[Outcomes[str, TransactionDescription]]:
        answer: DescribeTransactionsResponse = yield from core.request(
            node.node_id,
            DescribeTransactionsRequest,
            lambda version: DescribeTransactionsRequest(transactional_ids=asked),
            deadline,
        )
        return {each.transactional_id: _described(each, node) for each in answer.transaction_states}

    return (
        yield from at_coordinators(core, several(transactional_ids, str, deadline.name), ask, deadline, TRANSACTION)
    )


def fence_producers(
    core: AdminCore, transactional_ids: str | Iterable[str], deadline: Deadline
) -> Operation[dict[str, FencedProducer]]:
    """Fence producers as a new producer of the id would: abort the open transaction and raise the epoch."""

    def ask(node: Node, asked: list[str]) -> Operation[Outcomes[str, FencedProducer]]:
        found: Outcomes[str, FencedProducer] = {}
        for transactional_id in asked:
            try:
                found[transactional_id] = yield from _fence(core, node, transactional_id, deadline)
            except KafkaError as error:
                found[transactional_id] = error
        return found

    return (
        yield from at_coordinators(core, several(transactional_ids, str, deadline.name), ask, deadline, TRANSACTION)
    )


def _fence(core: AdminCore, node: Node, transactional_id: str, deadline: Deadline) -> Operation[FencedProducer]:
    # The timeout applies to the id until its next producer sets one. No transaction is open that it could end, but the
    # coordinator also waits this long for the replicas of its log.
    timeout_ms = core.config.request_timeout_ms
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    answer: InitProducerIdResponse = yield from core.request(
        node.node_id, InitProducerIdRequest, lambda version: request, deadline
    )
    raise_for_code(answer.error_code, api="InitProducerId")
    return FencedProducer(answer.producer_id, answer.producer_epoch)


def _by_id(found: Iterable[list[TransactionListing]]) -> dict[str, TransactionListing]:
    listed = {each.transactional_id: each for several_of_one in found for each in several_of_one}
    return dict(sorted(listed.items()))


def _listed(answer: ListTransactionsResponse.TransactionState, node: int) -> TransactionListing:
    state = named(TransactionState, answer.transaction_state)
    return TransactionListing(answer.transactional_id, state, answer.producer_id, node)


def _described(
    answer: DescribeTransactionsResponse.TransactionState, coordinator: Node
) -> TransactionDescription | KafkaError:
    if answer.error_code:
        return error_from_code(answer.error_code, api="DescribeTransactions")
    partitions = (TopicPartition(topic.topic, number) for topic in answer.topics for number in topic.partitions)
    return TransactionDescription(
        answer.transactional_id,
        named(TransactionState, answer.transaction_state),
        answer.producer_id,
        answer.producer_epoch,
        answer.transaction_timeout_ms,
        answer.transaction_start_time_ms if answer.transaction_start_time_ms >= 0 else None,
        tuple(sorted(partitions)),
        coordinator,
    )
