"""The ListOffsets requests: resets of partitions without a position, and lookups of the application.

They ask each leader at once for a special time (earliest, latest) or a timestamp, and again after a metadata update if
a leader moved. A lookup ends when all its partitions have a result, one of them fails, or its timeout has passed.
Elsewhere: validation of positions (`validation`) and committed offsets (`committed`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from kclient._topics import by_topic
from kclient.config import ISOLATION_LEVELS, ConsumerConfig
from kclient.consumer.assignment.partition_state import FetchState, PartitionState
from kclient.consumer.assignment.reset import LATEST
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.positions.answers import matched
from kclient.consumer.positions.leaders import Leaders, why_missing
from kclient.errors import (
    AuthorizationError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    OffsetNotAvailableError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
    UnsupportedForMessageFormatError,
    error_from_code,
)
from kclient.net.backoff import retry_backoff
from kclient.net.manager import NEVER, Manager, Nodes, Poll, Request
from kclient.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kclient.types import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from kclient.net.metadata import MetadataManager

_log = logging.getLogger(__name__)

_NOT_FOUND = -1


class _Question(NamedTuple):
    """The request for one partition, and its origin: a partition state (a reset) or a lookup."""

    timestamp: int
    state: PartitionState | None
    generation: int
    lookup: Lookup | None


class Lookup:
    """One call of the application: offsets of some partitions by time."""

    def __init__(self, targets: Mapping[TopicPartition, int], timeout: float) -> None:
        self.targets = dict(targets)
        self.timeout = timeout
        self.deadline = -1.0
        self.results: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        self.asked: set[TopicPartition] = set()
        self.retry_at = 0.0
        self.failures = 0
        self.last_error: KafkaError | None = None
        self.future: Future[dict[TopicPartition, OffsetAndTimestamp | None]] = Future()

    def open(self) -> list[TopicPartition]:
        """Return the partitions that have no result and no request in flight."""
        return [tp for tp in self.targets if tp not in self.results and tp not in self.asked]


class OffsetsManager(Manager):
    """The manager of ListOffsets requests.

    Parameters:
        subscription: the partitions that need a reset.
        metadata, nodes: the leaders, and the connections.
        config: the consumer's options.
        random: for jitter.
        wall_clock: milliseconds since the epoch, for resets by duration.
    """

    def __init__(
        self,
        subscription: Subscription,
        metadata: MetadataManager,
        nodes: Nodes,
        config: ConsumerConfig,
        *,
        random: Random,
        wall_clock: Callable[[], int],
    ) -> None:
        self._subscription = subscription
        self._metadata = metadata
        self._leaders = Leaders(metadata, nodes)
        self._config = config
        self._backoff = retry_backoff(config, random)
        self._wall_clock = wall_clock
        self._isolation = ISOLATION_LEVELS[config.isolation_level]
        self._lookups: list[Lookup] = []

    def add(self, lookup: Lookup) -> None:
        """Start a lookup (network thread)."""
        for tp in lookup.targets:
            self._metadata.add_topic(tp.topic)
        self._lookups.append(lookup)

    def poll(self, now: float) -> Poll:
        """Return requests for everything that was not requested yet and has a reachable leader."""
        by_node: dict[int, dict[TopicPartition, list[_Question]]] = {}
        deadline = self._collect_resets(by_node, now)
        if self._lookups:
            deadline = min(deadline, self._collect_lookups(by_node, now))
        requests = []
        for node, questions in by_node.items():
            # A request cannot have two questions about one partition: the second one waits.
            while questions:
                now_asked = {tp: waiting.pop(0) for tp, waiting in questions.items()}
                questions = {tp: waiting for tp, waiting in questions.items() if waiting}
                requests.append(self._request(node, now_asked))
        return Poll(requests, deadline)

    def fail_all(self, error: KafkaError) -> None:
        """Fail every lookup (network thread)."""
        for lookup in self._lookups:
            if not lookup.future.done():
                lookup.future.set_exception(error)
        self._lookups.clear()

    def _collect_resets(self, by_node: dict[int, dict[TopicPartition, list[_Question]]], now: float) -> float:
        with self._subscription.lock:
            waiting, deadline = self._leaders.of_waiting(self._subscription, FetchState.AWAITING_RESET, now)
            for state, node in waiting:
                # A reset is not requested again before its request has ended.
                state.retry_at = now + 2 * self._config.request_timeout_ms / 1000
                assert state.reset is not None
                question = _Question(state.reset.timestamp(self._wall_clock()), state, state.generation, None)
                by_node.setdefault(node, {}).setdefault(state.tp, []).append(question)
        return deadline

    def _collect_lookups(self, by_node: dict[int, dict[TopicPartition, list[_Question]]], now: float) -> float:
        deadline = NEVER
        for lookup in self._lookups[:]:
            if lookup.deadline < 0:
                lookup.deadline = now + lookup.timeout
            if not lookup.targets:
                self._end(lookup)
            elif self._metadata.fatal_error is not None:
                self._end(lookup, self._metadata.fatal_error)
            elif now >= lookup.deadline:
                self._end(lookup, self._too_late(lookup))
            elif not lookup.future.done():
                deadline = min(deadline, lookup.deadline)
                if lookup.retry_at > now:
                    deadline = min(deadline, lookup.retry_at)
                    continue
                for tp in lookup.open():
                    error = self._metadata.topic_error(tp.topic)
                    if isinstance(error, AuthorizationError | InvalidTopicError):
                        self._end(lookup, error)
                        break
                    node, look_at = self._leaders.reachable(tp, now)
                    if node is None:
                        deadline = min(deadline, look_at)
                        continue
                    lookup.asked.add(tp)
                    question = _Question(lookup.targets[tp], None, 0, lookup)
                    by_node.setdefault(node, {}).setdefault(tp, []).append(question)
            else:
                self._lookups.remove(lookup)
        return deadline

    def _request(self, node: int, questions: dict[TopicPartition, _Question]) -> Request:
        return Request(
            node,
            ListOffsetsRequest,
            partial(self._build, questions),
            partial(self._answered, node, questions),
            partial(self._failed, questions),
            minimum_version=2 if self._isolation else None,
        )

    def _build(self, questions: dict[TopicPartition, _Question], version: int) -> ListOffsetsRequest:
        topics = by_topic((tp.topic, self._entry(tp, question.timestamp)) for tp, question in questions.items())
        message = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=entries) for name, entries in topics.items()
            ],
        )
        if version >= 2:
            message.isolation_level = self._isolation
        if version >= 10:
            message.timeout_ms = self._config.request_timeout_ms
        return message

    def _entry(self, tp: TopicPartition, timestamp: int) -> ListOffsetsRequest.ListOffsetsPartition:
        info = self._metadata.cluster.partition(tp.topic, tp.partition)
        epoch = -1 if info is None or info.leader_epoch is None else info.leader_epoch
        return ListOffsetsRequest.ListOffsetsPartition(
            partition_index=tp.partition, current_leader_epoch=epoch, timestamp=timestamp
        )

    def _answered(
        self,
        node: int,
        questions: dict[TopicPartition, _Question],
        response: ListOffsetsResponse,
        now: float,
    ) -> None:
        answers = (
            (TopicPartition(topic.name, answer.partition_index), answer)
            for topic in response.topics
            for answer in topic.partitions
        )
        for tp, question, answer in matched(questions, answers):
            code = UnknownTopicOrPartitionError.code if answer is None else answer.error_code
            if answer is not None and not code:
                self._take(tp, question, answer, now)
                continue
            error = error_from_code(code, topic=tp.topic, partition=tp.partition, broker=node, api="ListOffsets")
            if isinstance(error, UnsupportedForMessageFormatError):
                self._take(tp, question, ListOffsetsResponse.ListOffsetsPartitionResponse(offset=_NOT_FOUND), now)
            else:
                self._error(tp, question, error, now)

    def _take(
        self,
        tp: TopicPartition,
        question: _Question,
        answer: ListOffsetsResponse.ListOffsetsPartitionResponse,
        now: float,
    ) -> None:
        state, lookup = question.state, question.lookup
        if state is not None:
            if answer.offset >= 0:
                self._subscription.reset_to(state, question.generation, answer.offset, answer.leader_epoch)
            elif question.timestamp >= 0 and state.generation == question.generation:
                # No record is as recent as the duration requires: start with the next one.
                self._subscription.request_reset(tp, LATEST)
            else:
                self._error(tp, question, OffsetNotAvailableError(topic=tp.topic, partition=tp.partition), now)
        if lookup is not None:
            lookup.asked.discard(tp)
            epoch = answer.leader_epoch if answer.leader_epoch >= 0 else None
            lookup.results[tp] = (
                OffsetAndTimestamp(answer.offset, answer.timestamp, epoch) if answer.offset >= 0 else None
            )
            if len(lookup.results) == len(lookup.targets):
                self._end(lookup)

    def _failed(self, questions: dict[TopicPartition, _Question], error: KafkaError, now: float) -> None:
        for tp, question in questions.items():
            self._error(tp, question, error, now)

    def _error(self, tp: TopicPartition, question: _Question, error: KafkaError, now: float) -> None:
        again = error.retriable or error.refreshes_metadata or isinstance(error, UnknownLeaderEpochError)
        state, lookup = question.state, question.lookup
        if again:
            self._metadata.request_update()
        if state is not None and state.generation == question.generation:
            _log.debug("%s: looking up the offset to start from failed: %s", tp, error)
            state.failures += 1
            state.retry_at = now + self._backoff.seconds(state.failures)
            if not again:
                self._subscription.fail(state, error)
        if lookup is not None:
            lookup.asked.discard(tp)
            lookup.last_error = error
            if again:
                lookup.failures += 1
                lookup.retry_at = now + self._backoff.seconds(lookup.failures)
            else:
                self._end(lookup, error)

    def _end(self, lookup: Lookup, error: KafkaError | None = None) -> None:
        if lookup in self._lookups:
            self._lookups.remove(lookup)
        if lookup.future.done():
            return
        if error is not None:
            lookup.future.set_exception(error)
        else:
            lookup.future.set_result({tp: lookup.results[tp] for tp in lookup.targets})

    def _too_late(self, lookup: Lookup) -> KafkaError:
        missing = [tp for tp in lookup.targets if tp not in lookup.results]
        for tp in missing:
            error = why_missing(self._metadata, tp)
            if error is not None:
                return error
        names = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        last = lookup.last_error or self._metadata.last_error
        because = f"; the last error: {last}" if last else ""
        return KafkaTimeoutError(f"no response within {lookup.timeout:g} s about the offsets of {names}{because}")
