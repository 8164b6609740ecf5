"""The OffsetFetch requests: for assigned partitions that start, and for calls of the application.

Everything runs on the network thread; one OffsetFetch is in flight at a time. A partition without a committed offset
goes to the reset policy, but never because of an error: after a retriable error, such as UNSTABLE_OFFSET_COMMIT while a
transaction with newer offsets is open, the request is repeated; other errors are raised.

A member that uses the consumer protocol sends its member id and epoch. If the coordinator has another epoch, or no
longer knows the member, the next heartbeat is sent immediately and learns so; then the offsets are requested again,
with the new epoch or without a member id. Elsewhere: committing (`offset_commit`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from functools import partial
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.partition_state import FetchState, PartitionState
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.committed.generations import GenerationSource
from kclient.consumer.committed.messages import IDS_FROM, CommittedAnswer, build_fetch, read_fetch, topic_ids
from kclient.consumer.committed.offset_commit import MOVED
from kclient.consumer.group.generation import Generation
from kclient.errors import (
    GroupIdNotFoundError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    error_from_code,
)
from kclient.net.backoff import retry_backoff
from kclient.net.coordinator import Coordinator
from kclient.net.manager import NEVER, Manager, Nodes, Poll, Request
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kclient.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kclient.net.metadata import MetadataManager

_log = logging.getLogger(__name__)

_NOT_THE_MEMBER = (StaleMemberEpochError, UnknownMemberIdError)
"""Errors for a member id or epoch that is not current."""


class CommittedLookup:
    """One call of the application for the committed offsets of some partitions."""

    def __init__(self, partitions: Iterable[TopicPartition], timeout: float) -> None:
        self.partitions = tuple(dict.fromkeys(partitions))
        self.timeout = timeout
        self.deadline = NEVER
        self.results: dict[TopicPartition, OffsetAndMetadata | None] = {}
        self.last_error: KafkaError | None = None
        self.future: Future[dict[TopicPartition, OffsetAndMetadata | None]] = Future()

    @property
    def left(self) -> list[TopicPartition]:
        """The partitions without a result."""
        return [tp for tp in self.partitions if tp not in self.results]


class CommittedFetcher(Manager):
    """The manager of OffsetFetch requests.

    Parameters:
        config: the consumer's options.
        coordinator: the group's coordinator.
        subscription: its partitions wait for their committed offset.
        metadata: the ids of topics.
        nodes: the connections.
        member: this consumer's membership.
        random: for jitter.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: Coordinator,
        subscription: Subscription,
        metadata: MetadataManager,
        nodes: Nodes,
        member: GenerationSource,
        *,
        random: Random,
    ) -> None:
        assert config.group_id is not None
        self._group = config.group_id
        self._coordinator = coordinator
        self._subscription = subscription
        self._metadata = metadata
        self._nodes = nodes
        self._member = member
        self._by_epochs = config.uses_consumer_protocol
        self._backoff = retry_backoff(config, random)
        self._lookups: list[CommittedLookup] = []
        self._asking = False
        self._failures = 0
        self._retry_at = 0.0
        self._raised: KafkaError | None = None

    # -- network thread

    def add(self, lookup: CommittedLookup) -> None:
        """Start a lookup."""
        self._lookups.append(lookup)
        self._coordinator.want()

    def fail_all(self, error: KafkaError) -> None:
        """Fail every lookup."""
        for lookup in self._lookups[:]:
            self._end(lookup, error)

    def poll(self, now: float) -> Poll:
        """Return a request for all wanted offsets, if the coordinator is known."""
        deadline = self._expire(now)
        if self._asking:
            return Poll([], deadline)
        states = self._waiting()
        if not states and not self._lookups:
            return Poll([], NEVER)
        fatal = self._coordinator.fatal_error
        if fatal is not None:
            self._fatal(fatal, bool(states))
            return Poll([], deadline)
        if now < self._retry_at:
            return Poll([], min(deadline, self._retry_at))
        node = self._node(now)
        if node is None:
            return Poll([], deadline)
        return Poll([self._request(node, states)], deadline)

    def _expire(self, now: float) -> float:
        deadline = NEVER
        for lookup in self._lookups[:]:
            if lookup.deadline == NEVER:
                lookup.deadline = now + lookup.timeout
            if lookup.future.done():
                self._lookups.remove(lookup)
            elif not lookup.left:
                self._end(lookup)
            elif now >= lookup.deadline:
                last = lookup.last_error or self._coordinator.last_error
                because = f"; the last error: {last}" if last is not None else ""
                text = f"committed offsets were not known within {lookup.timeout:g} s{because}"
                self._end(lookup, KafkaTimeoutError(text, api="OffsetFetch"))
            else:
                deadline = min(deadline, lookup.deadline)
        return deadline

    def _waiting(self) -> dict[TopicPartition, tuple[PartitionState, int]]:
        with self._subscription.lock:
            return {
                tp: (state, state.generation)
                for tp, state in self._subscription.partitions.items()
                if state.state is FetchState.AWAITING_COMMITTED and not state.blocked
            }

    def _fatal(self, error: KafkaError, positions: bool) -> None:
        """Report a fatal coordinator error once per attempt; the partitions keep waiting."""
        self.fail_all(error)
        if error is not self._raised and positions:
            self._raised = error
            self._subscription.raise_soon(error)
        elif positions and not self._subscription.errors:
            self._coordinator.want()

    def _node(self, now: float) -> int | None:
        """Return the node to ask; not the connection of a JoinGroup, whose response may take as long as the
        rebalance.
        """
        coordinator = self._coordinator
        if self._by_epochs or not self._member.rebalancing:
            return coordinator.node if coordinator.ready(now) else None
        coordinator.want()
        broker = coordinator.broker
        return broker if broker is not None and self._nodes.ready(broker, now) else None

    def _request(self, node: int, states: Mapping[TopicPartition, tuple[PartitionState, int]]) -> Request:
        wanted = dict.fromkeys(states)
        for lookup in self._lookups:
            wanted.update(dict.fromkeys(lookup.left))
        ids = topic_ids(self._metadata.cluster, wanted)
        by_epochs = self._by_epochs and self._subscription.topics is not None
        generation = self._member.generation_now() if by_epochs else None
        self._asking = True
        return Request(
            node,
            OffsetFetchRequest,
            partial(build_fetch, self._group, generation, list(wanted), ids),
            partial(self._answered, node, generation, list(wanted), states, ids),
            partial(self._not_answered, list(wanted), states),
            maximum_version=IDS_FROM - 1 if ids is None else None,
        )

    def _answered(
        self,
        node: int,
        generation: Generation | None,
        wanted: list[TopicPartition],
        states: Mapping[TopicPartition, tuple[PartitionState, int]],
        ids: Mapping[str, UUID] | None,
        response: OffsetFetchResponse,
        now: float,
    ) -> None:
        self._asking = False
        broker = self._coordinator.broker_of(node)
        code, answers = read_fetch(response, self._group, ids)
        if code == GroupIdNotFoundError.code and generation is None:
            # For a group that does not exist Kafka, and kfake, respond that each partition has no committed offset.
            code, answers = 0, dict.fromkeys(wanted, CommittedAnswer(0, None))
        if code:
            refusal = error_from_code(code, broker=broker, api="OffsetFetch")
            if generation is not None:
                self._member.on_refused(generation, refusal, now)
            self._handle_errors(dict.fromkeys(wanted, refusal), states, now)
            return
        self._coordinator.confirm()
        errors: dict[TopicPartition, KafkaError] = {}
        for tp in wanted:
            answer = answers.get(tp)
            if answer is None:
                text = "the broker's response did not contain the partition"
                errors[tp] = ProtocolError(text, topic=tp.topic, partition=tp.partition, api="OffsetFetch")
            elif answer.code:
                errors[tp] = error_from_code(
                    answer.code, topic=tp.topic, partition=tp.partition, broker=broker, api="OffsetFetch"
                )
            else:
                self._found(tp, answer.offset, states)
        self._handle_errors(errors, states, now)

    def _not_answered(
        self,
        wanted: list[TopicPartition],
        states: Mapping[TopicPartition, tuple[PartitionState, int]],
        error: KafkaError,
        now: float,
    ) -> None:
        self._asking = False
        self._handle_errors(dict.fromkeys(wanted, error), states, now, lost=error.retriable)

    def _found(
        self,
        tp: TopicPartition,
        offset: OffsetAndMetadata | None,
        states: Mapping[TopicPartition, tuple[PartitionState, int]],
    ) -> None:
        for lookup in self._lookups:
            if tp in lookup.partitions:
                lookup.results[tp] = offset
        if tp in states:
            state, generation = states[tp]
            _log.debug("%s: committed: %s", tp, offset)
            self._subscription.committed(state, generation, offset)

    def _handle_errors(
        self,
        errors: Mapping[TopicPartition, KafkaError],
        states: Mapping[TopicPartition, tuple[PartitionState, int]],
        now: float,
        *,
        lost: bool = False,
    ) -> None:
        """Repeat the request after retriable errors, and raise the others."""
        if not errors:
            self._failures = 0
        else:
            self._failures += 1
            self._retry_at = now + self._backoff.seconds(self._failures)
        moved = next((error for error in errors.values() if lost or isinstance(error, MOVED)), None)
        if moved is not None and self._coordinator.node is not None:
            self._coordinator.forget(self._coordinator.node, moved, now)
        if any(error.refreshes_metadata for error in errors.values()):
            self._metadata.request_update()
        for tp, error in errors.items():
            may_pass = error.retriable or isinstance(error, _NOT_THE_MEMBER)
            _log.log(logging.DEBUG if may_pass else logging.WARNING, "%s: committed offset: %s", tp, error)
            for lookup in self._lookups[:]:
                if tp not in lookup.left:
                    continue
                lookup.last_error = error
                if not may_pass:
                    self._end(lookup, error)
            if tp in states and not may_pass:
                self._raise(error, *states[tp])
        for lookup in self._lookups[:]:
            if not lookup.left:
                self._end(lookup)

    def _raise(self, error: KafkaError, state: PartitionState, generation: int) -> None:
        if error.topic is None:
            # It concerns the group, and is raised once instead of for every partition.
            self._subscription.raise_soon(error)
        elif state.generation == generation:
            self._subscription.fail(state, error)

    def _end(self, lookup: CommittedLookup, error: KafkaError | None = None) -> None:
        if lookup in self._lookups:
            self._lookups.remove(lookup)
        try:
            if error is not None:
                lookup.future.set_exception(error)
            else:
                lookup.future.set_result({tp: lookup.results[tp] for tp in lookup.partitions})
        except InvalidStateError:  # its caller stopped waiting
            return
