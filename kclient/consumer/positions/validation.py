"""Asks a new leader whether its log still contains the consumer's position (KIP-320).

OffsetForLeaderEpoch with the epoch of the last record fetched: the leader returns the end of that epoch in its log; an
end below the position means that records were lost in a leader change. `subscription` handles the result. Brokers that
support only v2 do not accept it from consumers; positions then count as valid.
"""

from __future__ import annotations

import logging
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from kclient._topics import by_topic
from kclient.config import ConsumerConfig
from kclient.consumer.assignment.partition_state import FetchState, PartitionState
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.positions.answers import matched
from kclient.consumer.positions.leaders import Leaders
from kclient.errors import KafkaError, UnknownTopicOrPartitionError, error_from_code
from kclient.net.backoff import retry_backoff
from kclient.net.manager import Manager, Nodes, Poll, Request
from kclient.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.net.metadata import MetadataManager

_log = logging.getLogger(__name__)

_FOR_CONSUMERS = 3
_ANY_OFFSET = 2**63 - 1


class _Question(NamedTuple):
    state: PartitionState
    generation: int
    epoch: int


class ValidationManager(Manager):
    """The manager of OffsetForLeaderEpoch requests.

    Parameters:
        subscription: the partitions to validate.
        metadata, nodes: the leaders, and the connections.
        config: the consumer's options.
        random: for jitter.
    """

    def __init__(
        self,
        subscription: Subscription,
        metadata: MetadataManager,
        nodes: Nodes,
        config: ConsumerConfig,
        *,
        random: Random,
    ) -> None:
        self._subscription = subscription
        self._metadata = metadata
        self._nodes = nodes
        self._leaders = Leaders(metadata, nodes)
        self._request_seconds = config.request_timeout_ms / 1000
        self._backoff = retry_backoff(config, random)

    def poll(self, now: float) -> Poll:
        """Return a request for each leader of partitions that wait for validation."""
        by_node: dict[int, dict[TopicPartition, _Question]] = {}
        with self._subscription.lock:
            waiting, deadline = self._leaders.of_waiting(self._subscription, FetchState.AWAITING_VALIDATION, now)
            for state, node in waiting:
                version = self._nodes.api_version(node, OffsetForLeaderEpochRequest)
                if version is None or version < _FOR_CONSUMERS or state.fetch_epoch < 0:
                    self._subscription.validated(state, state.generation, _ANY_OFFSET, state.fetch_epoch)
                    continue
                state.retry_at = now + 2 * self._request_seconds
                by_node.setdefault(node, {})[state.tp] = _Question(state, state.generation, state.fetch_epoch)
        return Poll([self._request(node, questions) for node, questions in by_node.items()], deadline)

    def _request(self, node: int, questions: dict[TopicPartition, _Question]) -> Request:
        return Request(
            node,
            OffsetForLeaderEpochRequest,
            partial(self._build, questions),
            partial(self._answered, node, questions),
            partial(self._failed, questions),
            minimum_version=_FOR_CONSUMERS,
        )

    def _build(self, questions: dict[TopicPartition, _Question], version: int) -> OffsetForLeaderEpochRequest:
        topics = by_topic((tp.topic, _entry(tp, question)) for tp, question in questions.items())
        return OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name, partitions=entries)
                for name, entries in topics.items()
            ],
        )

    def _answered(
        self,
        node: int,
        questions: dict[TopicPartition, _Question],
        response: OffsetForLeaderEpochResponse,
        now: float,
    ) -> None:
        answers = (
            (TopicPartition(topic.topic, answer.partition), answer)
            for topic in response.topics
            for answer in topic.partitions
        )
        for tp, question, answer in matched(questions, answers):
            code = UnknownTopicOrPartitionError.code if answer is None else answer.error_code
            if answer is None or code:
                error = error_from_code(
                    code, topic=tp.topic, partition=tp.partition, broker=node, api="OffsetForLeaderEpoch"
                )
                self._error(question, error, now)
                continue
            end = -1 if answer.leader_epoch < 0 else answer.end_offset
            self._subscription.validated(question.state, question.generation, end, answer.leader_epoch)

    def _failed(self, questions: dict[TopicPartition, _Question], error: KafkaError, now: float) -> None:
        for question in questions.values():
            self._error(question, error, now)

    def _error(self, question: _Question, error: KafkaError, now: float) -> None:
        state = question.state
        if state.generation != question.generation:
            return
        _log.debug("%s: validating the position failed: %s", state.tp, error)
        state.failures += 1
        state.retry_at = now + self._backoff.seconds(state.failures)
        if error.retriable or error.refreshes_metadata:
            self._metadata.request_update()
        else:
            self._subscription.fail(state, error)


def _entry(tp: TopicPartition, question: _Question) -> OffsetForLeaderEpochRequest.OffsetForLeaderPartition:
    return OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=tp.partition, current_leader_epoch=question.state.leader_epoch, leader_epoch=question.epoch
    )
