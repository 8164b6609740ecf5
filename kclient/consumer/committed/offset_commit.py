"""The queue of commits and the OffsetCommit requests.

Everything runs on the network thread. One request is in flight at a time, so that commits take effect in the order of
the calls. A commit that is retried (`commit()`) stays at the head of the queue until its timeout; others
(`commit_async()`, automatic ones) fail with a retriable error, and the caller commits newer offsets later, so that
older offsets never overwrite newer ones. Queued commits are sent as one request.

Every commit of a member has a generation. Once that has ended the commit is not sent, because its partitions may belong
to others; the coordinator refuses a request that is in flight then. The same applies to a topic that was deleted and
created again in the meantime, because the offsets belong to the old one. Requests therefore use topic ids if the broker
supports them, and commits for deleted topics end at once.

Elsewhere: which offsets (`selection`), when (`group_offsets`, `auto_commit`), and reading them (`offset_fetch`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kclient.config import ConsumerConfig
from kclient.consumer.committed.generations import GenerationSource, not_a_member
from kclient.consumer.committed.messages import IDS_FROM, INSTANCE_FROM, build_commit, read_commit
from kclient.consumer.committed.selection import OffsetsToCommit
from kclient.consumer.group.generation import Generation
from kclient.errors import (
    CommitFailedError,
    CoordinatorNotAvailableError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    ProtocolError,
    RebalanceInProgressError,
    RequestTimedOutError,
    RetriableCommitFailedError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_from_code,
)
from kclient.metrics import Metrics
from kclient.net.backoff import retry_backoff
from kclient.net.coordinator import Coordinator
from kclient.net.manager import NEVER, Manager, Poll, Request
from kclient.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kclient.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kclient.net.metadata import MetadataManager

_log = logging.getLogger(__name__)

MOVED = (NotCoordinatorError, CoordinatorNotAvailableError, RequestTimedOutError)
"""Errors after which the coordinator is looked up again."""
_NO_MEMBER = (UnknownMemberIdError, IllegalGenerationError, FencedMemberEpochError, GroupIdNotFoundError)
"""Errors for a consumer that is not a member, or not in this generation."""
UNKNOWN_TOPIC = (UnknownTopicOrPartitionError, UnknownTopicIdError)
"""Errors that are transient, unless the topic was deleted."""


class Commit:
    """One commit.

    Parameters:
        what: the offsets to commit.
        timeout: seconds, from when the network thread receives it.
        repeated: whether it is retried after a retriable error.
        on_done: receives the error or None, on the network thread.
    """

    def __init__(
        self,
        what: OffsetsToCommit,
        *,
        timeout: float,
        repeated: bool,
        on_done: Callable[[KafkaError | None], None],
    ) -> None:
        self.left = dict(what.offsets)
        self.refused = what.refused
        self.still_held = what.still_held
        self.generation = what.generation
        self.timeout = timeout
        self.repeated = repeated
        self.deadline = NEVER
        self.ids: Mapping[str, UUID | None] = what.ids
        self.last_error: KafkaError | None = None
        self.done = False
        self._on_done = on_done

    def end(self, error: KafkaError | None = None) -> None:
        """Report the result, once."""
        if not self.done:
            self.done = True
            self._on_done(error)


class CommitManager(Manager):
    """The manager of OffsetCommit requests.

    Parameters:
        config: the consumer's options.
        coordinator: the group's coordinator.
        metadata: the ids of topics.
        member: the source of the current generation.
        random: for jitter.
        metrics: counts the commits.
        on_committed: receives the stored offsets by partition, before the commits end.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: Coordinator,
        metadata: MetadataManager,
        member: GenerationSource,
        *,
        random: Random,
        metrics: Metrics,
        on_committed: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], None],
    ) -> None:
        assert config.group_id is not None
        self._group = config.group_id
        self._coordinator = coordinator
        self._metadata = metadata
        self._member = member
        self._by_epochs = config.uses_consumer_protocol
        self._backoff = retry_backoff(config, random)
        self._on_committed = on_committed
        self._latency = metrics.histogram("commit_latency")
        self._sent = metrics.counter("commit_total")
        self._failed = metrics.counter("commit_failed_total")
        self._queue: deque[Commit] = deque()
        self._under_way: list[Commit] = []
        self._asking = False
        self._failures = 0
        self._retry_at = 0.0

    @property
    def busy(self) -> bool:
        """Whether a commit is queued or in flight."""
        return bool(self._queue or self._under_way)

    # -- network thread

    def add(self, commit: Commit) -> None:
        """Commit this after all earlier commits."""
        topics = {tp.topic for tp in commit.left}
        commit.ids = {topic: commit.ids.get(topic) or self._metadata.cluster.topic_id(topic) for topic in topics}
        self._queue.append(commit)
        # Even if the coordinator lookup failed with a fatal error before.
        self._coordinator.want()

    def fail_all(self, error: KafkaError) -> None:
        """Fail every commit; one in flight may still take effect."""
        waiting = [*self._under_way, *self._queue]
        self._under_way.clear()
        self._queue.clear()
        for commit in waiting:
            self._end(commit, error)

    def poll(self, now: float) -> Poll:
        """Return the next request, if there is a commit and a coordinator."""
        deadline = self._expire(now)
        if self._asking:
            return Poll([], deadline)
        queue = self._queue
        while queue and self._needs_no_request(queue[0]):
            queue.popleft()
        if not queue:
            return Poll([], deadline)
        fatal = self._coordinator.fatal_error
        if fatal is not None:
            self.fail_all(fatal)
            return Poll([], NEVER)
        if now < self._retry_at:
            return Poll([], min(deadline, self._retry_at))
        if not self._coordinator.ready(now):
            return Poll([], deadline)
        return Poll([self._request(now)], deadline)

    def _expire(self, now: float) -> float:
        """Fail the commits whose timeout has passed; return when to check again."""
        deadline = NEVER
        for commit in [*self._under_way, *self._queue]:
            if commit.deadline == NEVER:
                commit.deadline = now + commit.timeout
            if now >= commit.deadline:
                self._end(commit, self._too_late(commit))
            else:
                deadline = min(deadline, commit.deadline)
        if any(commit.done for commit in self._queue):
            self._queue = deque(commit for commit in self._queue if not commit.done)
        return deadline

    def _too_late(self, commit: Commit) -> KafkaError:
        last = commit.last_error or self._coordinator.last_error
        because = f"; the last error: {last}" if last is not None else ""
        error = KafkaTimeoutError(
            f"offsets were not committed within {commit.timeout:g} s{because}", api="OffsetCommit"
        )
        return error if commit.repeated else _for_now(error)

    def _needs_no_request(self, commit: Commit) -> bool:
        """Return whether the commit has ended without a request, or must not be sent."""
        if commit.refused is not None or not commit.left:
            self._end(commit, commit.refused)
        elif replaced := [topic for topic, topic_id in commit.ids.items() if self._is_replaced(topic, topic_id)]:
            text = "the topic was deleted and created again; the offsets belong to the deleted one"
            self._end(commit, UnknownTopicIdError(text, topic=replaced[0], api="OffsetCommit"))
        elif isinstance(commit.last_error, UNKNOWN_TOPIC) and all(map(self._is_gone, commit.left)):
            topic = next(iter(commit.left)).topic
            self._end(commit, UnknownTopicOrPartitionError("the topic was deleted", topic=topic, api="OffsetCommit"))
        elif commit.generation is not None and not self._is_of_this_generation(commit, commit.generation):
            self._end(commit, not_a_member(self._member))
        return commit.done

    def _is_of_this_generation(self, commit: Commit, generation: Generation) -> bool:
        now = self._member.generation_now()
        if self._by_epochs and now is not None and now.member_id == generation.member_id and commit.still_held():
            # The epochs of the consumer protocol grow without taking partitions away.
            commit.generation = now
        return commit.generation == now

    def _is_replaced(self, topic: str, topic_id: UUID | None) -> bool:
        return topic_id is not None and self._metadata.cluster.topic_id(topic) not in (None, topic_id)

    def _is_gone(self, tp: TopicPartition) -> bool:
        info = self._metadata.cluster.topics.get(tp.topic)
        if info is None or isinstance(info.error, UnknownTopicOrPartitionError):
            return True
        # A recreated topic may have fewer partitions.
        return 0 < len(info.partitions) <= tp.partition

    def _request(self, now: float) -> Request:
        node = self._coordinator.node
        assert node is not None
        head = self._queue.popleft()
        self._under_way = [head]
        named = dict(head.ids)
        while self._queue and self._goes_along(head, self._queue[0], named):
            named.update(self._queue[0].ids)
            self._under_way.append(self._queue.popleft())
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for commit in self._under_way:
            offsets.update(commit.left)
        self._asking = True
        self._sent.add()
        known = {topic: topic_id for topic, topic_id in named.items() if topic_id is not None}
        ids = known if len(known) == len(named) else None
        static = head.generation is not None and head.generation.instance_id is not None
        return Request(
            node,
            OffsetCommitRequest,
            partial(build_commit, self._group, head.generation, offsets, ids),
            partial(self._answered, node, now, offsets, ids),
            partial(self._not_answered, node),
            minimum_version=INSTANCE_FROM if static else None,
            maximum_version=IDS_FROM - 1 if ids is None else None,
        )

    def _goes_along(self, head: Commit, commit: Commit, ids: Mapping[str, UUID | None]) -> bool:
        same = all(ids.get(topic, topic_id) == topic_id for topic, topic_id in commit.ids.items())
        return same and not head.repeated and not commit.repeated and commit.generation == head.generation

    def _answered(
        self,
        node: int,
        sent_at: float,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        ids: Mapping[str, UUID] | None,
        response: OffsetCommitResponse,
        now: float,
    ) -> None:
        self._asking = False
        self._latency.record(1000 * (now - sent_at))
        codes = read_commit(response, ids)
        broker = self._coordinator.broker_of(node)
        errors: dict[TopicPartition, KafkaError] = {}
        stored: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp, offset in offsets.items():
            context: dict[str, Any] = {"topic": tp.topic, "partition": tp.partition, "offset": offset.offset}
            code = codes.get(tp)
            if code is None:
                errors[tp] = ProtocolError(
                    "the broker's response did not contain the partition", api="OffsetCommit", **context
                )
            elif code:
                errors[tp] = error_from_code(code, broker=broker, api="OffsetCommit", **context)
            else:
                stored[tp] = offset
        if stored:
            self._on_committed(stored)
        moved = next((error for error in errors.values() if isinstance(error, MOVED)), None)
        if moved is not None:
            self._coordinator.forget(node, moved, now)
        else:
            self._coordinator.confirm()
        if any(error.refreshes_metadata for error in errors.values()):
            self._metadata.request_update()
        self._handle_errors(errors, now)

    def _not_answered(self, node: int, error: KafkaError, now: float) -> None:
        self._asking = False
        if error.retriable:
            self._coordinator.forget(node, error, now)
        self._handle_errors({tp: error for commit in self._under_way for tp in commit.left}, now)

    def _handle_errors(self, errors: Mapping[TopicPartition, KafkaError], now: float) -> None:
        """Decide about each commit of the request."""
        commits, self._under_way = self._under_way, []
        if errors:
            self._failures += 1
            self._retry_at = now + self._backoff.seconds(self._failures)
        else:
            self._failures = 0
        for commit in reversed(commits):
            commit.left = {tp: offset for tp, offset in commit.left.items() if tp in errors}
            if commit.left and commit.repeated and not commit.done and _may_pass(self._error_of(commit, errors)):
                commit.last_error = error = self._error_of(commit, errors)
                _log.info("%s; committing again", error)
                self._queue.appendleft(commit)
                if commit.generation is not None and isinstance(error, StaleMemberEpochError):
                    self._member.on_refused(commit.generation, error, now)
        for commit in commits:
            if not commit.left:
                self._end(commit)
            elif commit not in self._queue:
                error = self._error_of(commit, errors)
                meaning = self._meaning(error, commit)
                if commit.generation is not None:
                    self._member.on_refused(commit.generation, error, now)
                self._end(commit, meaning)

    def _error_of(self, commit: Commit, errors: Mapping[TopicPartition, KafkaError]) -> KafkaError:
        """Return the worst error of the commit's partitions."""
        own = [errors[tp] for tp in commit.left]
        return next((error for error in own if not _may_pass(error)), own[0])

    def _meaning(self, error: KafkaError, commit: Commit) -> KafkaError:
        """Return the error of the coordinator or the connection as the caller should see it."""
        if isinstance(error, _NO_MEMBER):
            if commit.generation is None:
                text = "members of the group now read these partitions; leave the commits to them, or subscribe()"
                return _caused(CommitFailedError(text, api="OffsetCommit"), error)
            if commit.generation != self._member.generation_now():
                return not_a_member(self._member, error)
            return _caused(CommitFailedError(error, api="OffsetCommit"), error)
        if isinstance(error, RebalanceInProgressError):
            text = "the offsets were not committed, because the group is rebalancing: poll() to join, then commit again"
            return _caused(RebalanceInProgressError(text, api="OffsetCommit"), error)
        return _for_now(error) if _may_pass(error) else error

    def _end(self, commit: Commit, error: KafkaError | None = None) -> None:
        if commit.done:
            return
        if error is not None:
            self._failed.add()
        commit.end(error)


def _may_pass(error: KafkaError) -> bool:
    """Return whether a retry may succeed; the member's next heartbeat updates a stale epoch."""
    return error.retriable or isinstance(error, StaleMemberEpochError)


def _for_now(error: KafkaError) -> KafkaError:
    return _caused(RetriableCommitFailedError(error, api="OffsetCommit"), error)


def _caused(error: KafkaError, cause: KafkaError) -> KafkaError:
    error.__cause__ = cause
    return error
