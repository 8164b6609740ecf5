"""Applies a Fetch response to each partition: data to the buffer, watermarks, errors by kind.

It runs on the network thread and reads batch headers only; the reader decodes the records. Elsewhere: sessions and
requests (`fetch_session`, `fetcher`).
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING, NamedTuple

from kclient.consumer.assignment.fetched_piece import FetchedPiece, ResponseMemory
from kclient.consumer.assignment.partition_state import FetchState, PartitionState
from kclient.consumer.assignment.subscription import Subscription
from kclient.errors import (
    InvalidMetadataError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
    UnknownServerError,
    error_from_code,
)
from kclient.types import Node, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kclient.net.backoff import Backoff
    from kclient.net.metadata import MetadataManager
    from kclient.protocol.messages.fetch import FetchResponse

_log = logging.getLogger(__name__)

# Base offset, length, leader epoch, magic; then, with magic 2, the delta of the last offset.
_HEADER = struct.Struct(">qiib6xi")
_MAGIC_2_HEADER = 61
_LEGACY_HEADER = 14
_BEFORE_LENGTH = 12

_WAIT_AND_REFRESH = (InvalidMetadataError, UnknownLeaderEpochError, OffsetNotAvailableError, UnknownServerError)
"""Errors after which a later request, to a leader from updated metadata, may succeed."""


class PartitionFetch(NamedTuple):
    """One partition of a Fetch request, to recognize a response that is out of date."""

    state: PartitionState
    generation: int
    offset: int
    node: int


class DataEnd(NamedTuple):
    """The content of fetched data according to its batch headers.

    `offset` follows the last complete batch (-1 without one); `size` is that of the complete batches; `cut_off` is the
    size of an incomplete first batch.
    """

    offset: int
    epoch: int
    size: int
    cut_off: int


def data_end(data: memoryview | bytes) -> DataEnd:
    """Walk the batch headers without decoding records; stop at anything that is not a batch."""
    position, total = 0, len(data)
    offset = epoch = -1
    unpack = _HEADER.unpack_from
    while position + _HEADER.size <= total:
        base, length, batch_epoch, magic, last_delta = unpack(data, position)
        if length < (_LEGACY_HEADER if magic < 2 else _MAGIC_2_HEADER - _BEFORE_LENGTH):
            break
        end = position + _BEFORE_LENGTH + length
        if end > total:
            if position == 0:
                return DataEnd(-1, -1, 0, _BEFORE_LENGTH + length)
            break
        if magic >= 2:
            offset, epoch = base + last_delta + 1, batch_epoch
        else:
            offset, epoch = base + 1, -1
        position = end
    return DataEnd(offset, epoch, position, 0)


class FetchResults:
    """Applies responses to the subscription.

    Parameters:
        subscription, metadata: updated by the responses.
        backoff: the waits after failures.
        replica_seconds: how long a preferred replica is used (KIP-392).
    """

    def __init__(
        self,
        subscription: Subscription,
        metadata: MetadataManager,
        backoff: Backoff,
        replica_seconds: float,
    ) -> None:
        self._subscription = subscription
        self._metadata = metadata
        self._backoff = backoff
        self._replica_seconds = replica_seconds

    def apply(
        self,
        response: FetchResponse,
        fetches: dict[TopicPartition, PartitionFetch],
        names: dict[UUID, str],
        now: float,
    ) -> tuple[int, int]:
        """Apply every partition of a response.

        Returns:
            The bytes of records, and the number of partitions that had records.
        """
        memory: ResponseMemory | None = None
        total = count = 0
        leaders: dict[TopicPartition, tuple[int, int]] = {}
        with self._subscription.lock:
            for topic in response.responses:
                name = topic.topic or names.get(topic.topic_id, "")
                for data in topic.partitions:
                    tp = TopicPartition(name, data.partition_index)
                    fetch = fetches.get(tp)
                    if fetch is None or not self._is_current(fetch):
                        continue
                    if data.current_leader.leader_id >= 0 and data.current_leader.leader_epoch >= 0:
                        leaders[tp] = (data.current_leader.leader_id, data.current_leader.leader_epoch)
                    if data.error_code:
                        self._error(fetch, data.error_code, now)
                        continue
                    records = data.records
                    if records and memory is None:
                        memory = ResponseMemory(_held_bytes(records))
                    size = self._data(fetch, data, memory, now)
                    total += size
                    count += size > 0
        if leaders:
            nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
            self._metadata.update_leaders(leaders, nodes)
        return total, count

    def _is_current(self, fetch: PartitionFetch) -> bool:
        state = fetch.state
        return (
            state.generation == fetch.generation
            and state.fetch_offset == fetch.offset
            and state.state is FetchState.FETCHING
            and self._subscription.partitions.get(state.tp) is state
        )

    def _data(
        self, fetch: PartitionFetch, data: FetchResponse.PartitionData, memory: ResponseMemory | None, now: float
    ) -> int:
        state = fetch.state
        state.failures = 0
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            state.preferred_replica = data.preferred_read_replica
            state.preferred_until = now + self._replica_seconds
        diverging = data.diverging_epoch
        if diverging.epoch >= 0 and diverging.end_offset >= 0:
            self._subscription.diverged(state, diverging.end_offset, diverging.epoch)
            return 0
        records = data.records
        if not records:
            return 0
        end = data_end(records)
        if end.cut_off:
            state.least_bytes = end.cut_off
            return 0
        if end.offset <= state.fetch_offset:
            # Brokers do not respond like this. The reader finds out what is wrong, and where.
            piece = FetchedPiece(state.fetch_offset, records, end_offset=state.fetch_offset, memory=memory)
            self._subscription.buffer.put(state, piece)
            state.blocked = True
            return len(records)
        aborted = tuple((txn.producer_id, txn.first_offset) for txn in data.aborted_transactions or ())
        piece = FetchedPiece(
            state.fetch_offset,
            records if end.size == len(records) else records[: end.size],
            end_offset=end.offset,
            end_epoch=end.epoch,
            aborted=aborted,
            memory=memory,
        )
        state.fetch_offset = end.offset
        state.fetch_epoch = end.epoch
        self._subscription.buffer.put(state, piece)
        return end.size

    def _error(self, fetch: PartitionFetch, code: int, now: float) -> None:
        state = fetch.state
        tp = state.tp
        from_replica = state.preferred_replica == fetch.node
        state.preferred_replica = -1
        error = error_from_code(
            code, topic=tp.topic, partition=tp.partition, offset=fetch.offset, broker=fetch.node, api="Fetch"
        )
        if isinstance(error, OffsetOutOfRangeError):
            # A follower may be behind; only the leader's response counts.
            if not from_replica:
                self._subscription.fail(state, error)
        elif isinstance(error, _WAIT_AND_REFRESH):
            _log.log(logging.WARNING if state.failures else logging.DEBUG, "%s; fetching again after a pause", error)
            state.failures += 1
            state.retry_at = now + self._backoff.seconds(state.failures)
            self._metadata.request_update()
        else:
            self._subscription.fail(state, error)


def _held_bytes(records: memoryview | bytes) -> int:
    """Return the memory that stays allocated as long as this piece of it is used."""
    return memoryview(records.obj).nbytes if isinstance(records, memoryview) else len(records)
