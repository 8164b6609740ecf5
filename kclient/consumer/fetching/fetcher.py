"""Sends Fetch requests: to several brokers at once, one request in flight to each.

As soon as a response arrives the next request is sent, without waiting for the application, as long as there is room:
`prefetch_max_bytes` limits the bytes held and requested together. While a partition has enough unread data, no request
is sent to its broker: an incremental request without that partition could wait on the broker for fetch_max_wait_ms, and
delay the partition. Elsewhere: responses (`fetch_results`) and decoding (`collector`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from kclient.config import ISOLATION_LEVELS, ConsumerConfig
from kclient.consumer.assignment.partition_state import FetchState, PartitionState
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.fetching.fetch_results import FetchResults, PartitionFetch
from kclient.consumer.fetching.fetch_session import FetchSession, FetchTarget, SessionRequest, build_fetch
from kclient.errors import (
    FetchSessionIdNotFoundError,
    InvalidFetchSessionEpochError,
    KafkaError,
    error_from_code,
)
from kclient.net.backoff import retry_backoff
from kclient.net.manager import IDLE, NEVER, Manager, Nodes, Poll, Request
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.net.metadata import Cluster, MetadataManager
    from kclient.types import PartitionInfo

_log = logging.getLogger(__name__)

_NO_ID = UUID(int=0)
_IDS_FROM = 13
_LARGEST_USEFUL = 8 << 20
"""Larger responses gain nothing: they do not fit the caches, and delay the next request."""
_LEAST_AHEAD = 8 << 20
"""A partition with fewer unread bytes is fetched from; more gains nothing, and does not fit the caches."""
_SESSION_CODES = (FetchSessionIdNotFoundError.code, InvalidFetchSessionEpochError.code)


class Fetcher(Manager):
    """The manager of Fetch requests.

    Parameters:
        subscription: the partitions to fetch.
        metadata, nodes: the leaders, and the connections.
        config: the consumer's options.
        random: for jitter.
        on_fetched: receives (bytes, partitions, seconds) of each response, for metrics.
    """

    def __init__(
        self,
        subscription: Subscription,
        metadata: MetadataManager,
        nodes: Nodes,
        config: ConsumerConfig,
        *,
        random: Random,
        on_fetched: Callable[[int, int, float], None] = lambda size, partitions, seconds: None,
    ) -> None:
        self._subscription = subscription
        self._buffer = subscription.buffer
        self._metadata = metadata
        self._nodes = nodes
        self._config = config
        self._backoff = retry_backoff(config, random)
        self._results = FetchResults(subscription, metadata, self._backoff, config.metadata_max_age_ms / 1000)
        self._on_fetched = on_fetched
        self._isolation = ISOLATION_LEVELS[config.isolation_level]
        self._enough = max(2 * config.max_partition_fetch_bytes, _LEAST_AHEAD)
        self._timeout = (config.request_timeout_ms + config.fetch_max_wait_ms) / 1000
        self._sessions: dict[int, FetchSession] = {}
        self._reserved: dict[int, int] = {}
        self._node_retry_at: dict[int, float] = {}
        self._node_failures: dict[int, int] = {}
        self._seen = (-1, -1, -1)
        self._next_check = 0.0
        self._closed = False

    def poll(self, now: float) -> Poll:
        """Return requests to every broker that has no request in flight and room for a response."""
        if self._closed:
            return IDLE
        cluster = self._metadata.cluster
        seen = (self._subscription.version, cluster.version, self._buffer.releases)
        if seen == self._seen and now < self._next_check:
            return Poll([], self._next_check)
        self._seen = seen
        with self._subscription.lock:
            wanted, self._next_check = self._wanted(cluster, now)
            requests = [
                self._request(node, partitions, len(wanted), cluster, now)
                for node, partitions in wanted.items()
                if self._may_ask(node, partitions, len(wanted), now)
            ]
        return Poll(requests, self._next_check)

    def close(self) -> list[Request]:
        """Stop fetching; return the requests that close the sessions (nothing waits for their responses)."""
        self._closed = True
        requests = []
        for node, session in self._sessions.items():
            closing = session.closing_request()
            if closing is not None:
                requests.append(
                    Request(
                        node,
                        FetchRequest,
                        partial(self._build, closing, 1),
                        lambda response, now: None,
                        lambda error, now: None,
                        maximum_version=None if closing.uses_ids else _IDS_FROM - 1,
                    )
                )
        return requests

    def _wanted(self, cluster: Cluster, now: float) -> tuple[dict[int, list[PartitionState]], float]:
        """Return the partitions to fetch by broker, without brokers that must wait, and when to check again."""
        wanted: dict[int, list[PartitionState]] = {}
        enough: set[int] = set()
        look = NEVER
        for tp, state in self._subscription.partitions.items():
            if state.state is not FetchState.FETCHING or state.paused or state.blocked:
                continue
            if state.retry_at > now:
                look = min(look, state.retry_at)
                continue
            info = cluster.partition(tp.topic, tp.partition)
            node = self._node_for(state, info, cluster, now)
            if node is None:
                self._metadata.request_update()
                continue
            if state.unread >= self._enough:
                enough.add(node)
            else:
                wanted.setdefault(node, []).append(state)
        for node in enough:
            self._buffer.starved = True
            wanted.pop(node, None)
        return wanted, look

    def _node_for(self, state: PartitionState, info: PartitionInfo | None, cluster: Cluster, now: float) -> int | None:
        if info is None:
            return None
        if state.preferred_replica >= 0:
            if now < state.preferred_until and state.preferred_replica in cluster.brokers:
                return state.preferred_replica
            state.preferred_replica = -1
        return info.leader

    def _may_ask(self, node: int, partitions: list[PartitionState], sharing: int, now: float) -> bool:
        if node in self._reserved:
            return False
        retry_at = self._node_retry_at.get(node, 0.0)
        if retry_at > now:
            self._next_check = min(self._next_check, retry_at)
            return False
        if not self._nodes.ready(node, now):
            # The driver polls again when a connection is ready; a lost one may mean a new leader.
            self._next_check = min(self._next_check, self._nodes.retry_at(node) or NEVER)
            if self._nodes.connection_error(node) is not None:
                self._metadata.request_update()
                self._drop_replica(node)
            return False
        held = self._buffer.bytes + sum(self._reserved.values())
        if held and held + self._size(partitions, sharing) > self._config.prefetch_max_bytes:
            if self._buffer.first() is None and not self._reserved:
                self._evict_parked()
                return True
            self._buffer.starved = True
            return False
        return True

    def _evict_parked(self) -> None:
        """Drop the pieces of paused partitions if nothing else is left to read; they are fetched again after resume."""
        for state in self._buffer.parked():
            if state.position is not None:
                self._subscription.rewind(state, state.position)

    def _size(self, partitions: list[PartitionState], sharing: int) -> int:
        """Return the maximum size of a response; the brokers requested at the same time share the room."""
        config = self._config
        return min(
            config.fetch_max_bytes,
            max(config.max_partition_fetch_bytes, _LARGEST_USEFUL),
            sum(max(config.max_partition_fetch_bytes, state.least_bytes) for state in partitions),
            max(1, config.prefetch_max_bytes // sharing),
        )

    def _request(
        self, node: int, partitions: list[PartitionState], sharing: int, cluster: Cluster, now: float
    ) -> Request:
        version = self._nodes.api_version(node, FetchRequest)
        with_ids = version is None or version >= _IDS_FROM
        targets: dict[TopicPartition, FetchTarget] = {}
        fetches: dict[TopicPartition, PartitionFetch] = {}
        for state in partitions:
            tp = state.tp
            info = cluster.partition(tp.topic, tp.partition)
            epoch = -1 if info is None or info.leader_epoch is None else info.leader_epoch
            state.leader_epoch = max(state.leader_epoch, epoch)
            topic_id = cluster.topic_id(tp.topic)
            state.topic_id = state.topic_id or topic_id
            targets[tp] = FetchTarget(
                (topic_id if with_ids else None) or _NO_ID,
                state.fetch_offset,
                max(self._config.max_partition_fetch_bytes, state.least_bytes),
                epoch,
                state.fetch_epoch,
            )
            fetches[tp] = PartitionFetch(state, state.generation, state.fetch_offset, node)
        session = self._sessions.setdefault(node, FetchSession())
        size = self._size(partitions, sharing)
        request = session.next_request(targets)
        self._reserved[node] = size
        return Request(
            node,
            FetchRequest,
            partial(self._build, request, size),
            partial(self._answered, node, request, fetches, now),
            partial(self._failed, node),
            timeout=self._timeout,
            maximum_version=None if request.uses_ids else _IDS_FROM - 1,
        )

    def _build(self, request: SessionRequest, max_bytes: int, version: int) -> FetchRequest:
        config = self._config
        return build_fetch(
            request,
            version,
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=max_bytes,
            isolation_level=self._isolation,
            rack=config.client_rack,
        )

    def _answered(
        self,
        node: int,
        request: SessionRequest,
        fetches: dict[TopicPartition, PartitionFetch],
        sent_at: float,
        response: FetchResponse,
        now: float,
    ) -> None:
        self._reserved.pop(node, None)
        self._next_check = 0.0
        if self._closed:
            return
        if not self._sessions[node].accept(response):
            error = error_from_code(response.error_code, broker=node, api="Fetch")
            _log.log(
                logging.DEBUG if response.error_code in _SESSION_CODES else logging.WARNING,
                "%s; starting a new fetch session",
                error,
            )
            if response.error_code not in _SESSION_CODES:
                self._wait(node, now)
                self._metadata.request_update()
            return
        self._node_failures.pop(node, None)
        size, count = self._results.apply(response, fetches, request.topic_names(), now)
        self._on_fetched(size, count, now - sent_at)

    def _failed(self, node: int, error: KafkaError, now: float) -> None:
        self._reserved.pop(node, None)
        self._next_check = 0.0
        if self._closed:
            return
        _log.debug("fetch from broker %d failed: %s", node, error)
        self._sessions[node].fail()
        self._wait(node, now)
        self._drop_replica(node)
        self._metadata.request_update()
        if error.fatal:
            self._subscription.raise_soon(error)

    def _wait(self, node: int, now: float) -> None:
        failures = self._node_failures[node] = self._node_failures.get(node, 0) + 1
        self._node_retry_at[node] = now + self._backoff.seconds(failures)

    def _drop_replica(self, node: int) -> None:
        for state in self._subscription.partitions.values():
            if state.preferred_replica == node:
                state.preferred_replica = -1
