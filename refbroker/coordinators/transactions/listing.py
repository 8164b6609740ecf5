"""Responses to DescribeTransactions and ListTransactions (KIP-664)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kclient.errors import InvalidRequestError, TransactionalIdNotFoundError
from kclient.protocol.messages.describe_transactions import DescribeTransactionsResponse
from kclient.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from refbroker.coordinators.patterns import compile_pattern
from refbroker.coordinators.transactions.metadata import TransactionMetadata
from refbroker.coordinators.transactions.states import BY_TITLE

if TYPE_CHECKING:
    from refbroker.coordinators.transactions.coordinator import TransactionCoordinator

Description = DescribeTransactionsResponse.TransactionState


def describe(coordinator: TransactionCoordinator, transactional_id: str) -> Description:
    """Return the state of a transactional id.

    Raises:
        InvalidRequestError: the transactional id is empty.
        TransactionalIdNotFoundError: no producer has the transactional id.
        CoordinatorLoadInProgressError, NotCoordinatorError: this broker cannot read its state.
    """
    if not transactional_id:
        raise InvalidRequestError("the transactional id is empty")
    shard = coordinator.shard(transactional_id)
    metadata = shard.transactions.get(transactional_id)
    if metadata is None:
        raise TransactionalIdNotFoundError(f"no producer has the transactional id {transactional_id}")
    partitions = shard.completion.unmarked(metadata) if metadata.state.is_prepared else metadata.partitions
    return Description(
        transactional_id=transactional_id,
        transaction_state=metadata.state.title,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_timestamp_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[
            DescribeTransactionsResponse.TopicData(topic=topic, partitions=[number for _, number in group])
            for topic, group in itertools.groupby(sorted(partitions), lambda partition: partition[0])
        ],
    )


def list_transactions(
    coordinator: TransactionCoordinator, request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsResponse:
    """Return the transactional ids that match a request's filters.

    Raises:
        CoordinatorLoadInProgressError: the state of a partition is being loaded.
        InvalidRegularExpressionError: the pattern is invalid.
    """
    shards = coordinator.runtime.shards()
    wanted = request.transactional_id_pattern
    pattern = compile_pattern("Transaction ID pattern", wanted) if wanted else None
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in BY_TITLE],
        transaction_states=[
            ListTransactionsResponse.TransactionState(
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                transaction_state=metadata.state.title,
            )
            for shard in shards
            for metadata in shard.transactions.values()
            if _is_wanted(metadata, request, now_ms)
            and (pattern is None or pattern.fullmatch(metadata.transactional_id))
        ],
    )


def _is_wanted(metadata: TransactionMetadata, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and metadata.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and metadata.state.title not in request.state_filters:
        return False
    return request.duration_filter < 0 or now_ms - metadata.start_timestamp_ms > request.duration_filter
