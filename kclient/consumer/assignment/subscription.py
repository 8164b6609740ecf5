"""The assigned partitions and their states: the only structure that both threads share.

Every method takes the buffer's lock itself, briefly. The application's thread assigns, seeks and pauses; the network
thread applies responses and metadata. Every change of a position drops the records fetched for the old one and starts a
new generation, so that a late response cannot be applied to the new position. Elsewhere: decoding and requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kclient.consumer.assignment.fetch_buffer import FetchBuffer
from kclient.consumer.assignment.fetched_piece import error_piece
from kclient.consumer.assignment.partition_state import FetchEvent, FetchState, PartitionState, Position
from kclient.consumer.assignment.reset import EARLIEST, NONE, ResetPolicy
from kclient.consumer.assignment.topics import TopicChoice
from kclient.errors import (
    IllegalStateError,
    KafkaError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from kclient.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from kclient.net.metadata import Cluster

_log = logging.getLogger(__name__)


class _TopicReplacedError(OffsetOutOfRangeError):
    """The topic was deleted and created again: the position belongs to a deleted log; seek."""


class Subscription:
    """The assigned partitions of one consumer.

    Parameters:
        buffer: their fetched records.
        policy: the start of partitions without a position.
        in_group: whether partitions start at committed offsets and are assigned by a group.
        on_change: called when `version` grew, to wake the network thread.

    Attributes:
        version: grows with every change that may require a request.
        topics: the subscribed topics; None if partitions are assigned manually.
        choice: the subscription that `topics` was derived from; only the brokers know what its `regex` matches.
        errors: errors of no single partition, to be raised from the application's next call.
    """

    def __init__(
        self,
        buffer: FetchBuffer,
        policy: ResetPolicy,
        *,
        in_group: bool = False,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.buffer = buffer
        self.lock = buffer.lock
        self.policy = policy
        self.in_group = in_group
        self.version = 0
        self.topics: tuple[str, ...] | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.errors: list[KafkaError] = []
        self.choice: TopicChoice | None = None
        # The number of partitions of each subscribed topic whose partitions were added, without a group.
        self._discovered: dict[str, int] = {}
        self._on_change = on_change

    def describe(self) -> str:
        """Describe what is read, for messages."""
        if self.choice is not None:
            return str(self.choice)
        if self.topics is not None:
            return ", ".join(self.topics)
        return ", ".join(map(str, self.partitions)) or "nothing"

    # -- the application's side

    def subscribe(self, choice: TopicChoice) -> None:
        """Read all partitions of these topics; they are added when the metadata has them."""
        with self.lock:
            if self.topics is None and self.partitions:
                raise IllegalStateError("partitions are assigned manually: unsubscribe() before subscribe()")
            kept = [topic for topic in self.topics or () if choice.matches(topic)]
            self.topics = tuple(dict.fromkeys((*choice.names, *kept)))
            self.choice = choice if choice.patterns or choice.regex is not None else None
            if self.in_group:
                # The assignment stays until the group changes it.
                self._changed()
                return
            self._discovered = {topic: count for topic, count in self._discovered.items() if topic in self.topics}
            self._replace(tp for tp in self.partitions if tp.topic in self.topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that stay keep their position."""
        with self.lock:
            if self.topics is not None:
                raise IllegalStateError("the consumer is subscribed to topics: unsubscribe() before assign()")
            self._replace(partitions)

    def assign_from_group(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, which the group assigned; those that stay keep their position."""
        with self.lock:
            self._replace(partitions)
            self._start()

    def unsubscribe(self) -> None:
        """Read no partition."""
        with self.lock:
            self.topics = self.choice = None
            self._discovered.clear()
            self._replace(())

    def state(self, tp: TopicPartition) -> PartitionState:
        """Return the state of an assigned partition.

        Raises:
            IllegalStateError: it is not assigned.
        """
        state = self.partitions.get(tp)
        reads_all = self.topics is not None and tp.topic in self.topics and not self.in_group
        if state is None and reads_all and tp.topic not in self._discovered:
            # Its partitions are not known yet, and a caller need not wait for them: all of them will be read.
            state = self.partitions[tp] = PartitionState(tp)
        if state is None:
            raise IllegalStateError(
                "the partition is not assigned to this consumer", topic=tp.topic, partition=tp.partition
            )
        return state

    def seek(self, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Set the position; with the epoch of the record before it, the log is checked for truncation."""
        with self.lock:
            state = self.state(tp)
            self._move(state, Position(offset, epoch), FetchEvent.SEEK if epoch < 0 else FetchEvent.SEEK_AND_VALIDATE)

    def request_reset(self, tp: TopicPartition, policy: ResetPolicy) -> None:
        """Look up the next position by a reset policy."""
        with self.lock:
            self._request_reset(self.state(tp), policy)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Neither fetch nor return records of these partitions; fetched records are kept."""
        with self.lock:
            for state in [self.state(tp) for tp in partitions]:
                state.paused = True
                self.buffer.park(state)
            self._changed()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo `pause`."""
        with self.lock:
            for state in [self.state(tp) for tp in partitions]:
                state.paused = False
            self._changed()

    def start_uninitialized(self) -> None:
        """Move partitions without a position to their committed offset, or to the reset policy.

        Raises:
            NoOffsetForPartitionError: there is neither.
        """
        with self.lock:
            self._start()

    def mark_returned(self) -> None:
        """Note that the application asks for records, so that the earlier ones count as processed."""
        with self.lock:
            for state in self.partitions.values():
                state.returned = None if state.replaced else state.position

    def truncated(self, state: PartitionState, error: LogTruncationError) -> None:
        """Handle a truncation that the application reached; without a policy the partition waits for a seek (lock
        held).
        """
        divergent = error.divergent_offsets[state.tp]
        if self.policy == NONE:
            raise error
        if divergent is None:
            _log.warning("%s: truncated below offset %s; resetting by policy", state.tp, state.position)
            self._request_reset(state, self.policy)
        else:
            _log.warning("%s: truncated; continuing from %d, where it diverges", state.tp, divergent.offset)
            # The response is as old as the wait for the application: the log may have been truncated again since.
            self._move(state, Position(divergent.offset, divergent.leader_epoch), FetchEvent.SEEK_AND_VALIDATE)

    def out_of_range(self, state: PartitionState, error: OffsetOutOfRangeError) -> None:
        """Handle an out-of-range offset that the application reached (lock held)."""
        if isinstance(error, _TopicReplacedError) and self._is_gone(state.tp):
            self._remove(state)
            return
        if self.policy == NONE:
            raise error
        # Nobody has read the records of the new topic: "latest" would skip existing ones.
        policy = EARLIEST if isinstance(error, _TopicReplacedError) else self.policy
        _log.info("%s: offset %s: %s; resetting to %s", state.tp, error.offset, error.message, policy.name)
        self._request_reset(state, policy)

    def rewind(self, state: PartitionState, position: Position) -> None:
        """Drop fetched records and fetch again from the application's position (lock held)."""
        unsure = state.state is FetchState.AWAITING_VALIDATION
        replaced = state.replaced
        self._move(state, position, FetchEvent.SEEK_AND_VALIDATE if unsure else FetchEvent.SEEK)
        if replaced:
            self._topic_replaced(state)

    # -- the network thread's side

    def committed(self, state: PartitionState, generation: int, found: OffsetAndMetadata | None) -> None:
        """Apply a committed offset from the coordinator; with None the reset policy decides."""
        with self.lock:
            if state.generation != generation or state.state is not FetchState.AWAITING_COMMITTED:
                return
            state.committed = None if found is None else found.offset
            if found is not None:
                epoch = -1 if found.leader_epoch is None else found.leader_epoch
                event = FetchEvent.SEEK if epoch < 0 else FetchEvent.SEEK_AND_VALIDATE
                self._move(state, Position(found.offset, epoch), event)
            elif self.policy == NONE:
                tp = state.tp
                self.fail(state, NoOffsetForPartitionError([tp], topic=tp.topic, partition=tp.partition))
            else:
                self._request_reset(state, self.policy)
            self.buffer.signal()

    def note_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note offsets that the coordinator has stored."""
        with self.lock:
            for tp, offset in offsets.items():
                state = self.partitions.get(tp)
                if state is not None:
                    state.committed = offset.offset

    def reset_to(self, state: PartitionState, generation: int, offset: int, epoch: int) -> None:
        """Apply the offset that a reset has found."""
        with self.lock:
            if state.generation == generation and state.state is FetchState.AWAITING_RESET:
                self._move(state, Position(offset, epoch), FetchEvent.OFFSET_FOUND)
                self.buffer.signal()

    def validated(self, state: PartitionState, generation: int, end_offset: int, end_epoch: int) -> None:
        """Apply a leader's response about the end of the last epoch read (-1: it does not know the epoch)."""
        with self.lock:
            if state.generation != generation or state.state is not FetchState.AWAITING_VALIDATION:
                return
            if end_offset >= state.fetch_offset:
                state.change(FetchEvent.VALIDATED)
                state.retry_at = 0.0
                state.failures = 0
                self._changed()
            else:
                self.diverged(state, end_offset, end_epoch)

    def diverged(self, state: PartitionState, end_offset: int, end_epoch: int) -> None:
        """Handle a log that differs from the fetched records from this offset on (-1: unknown) (lock held)."""
        position = state.position
        assert position is not None
        fetched_ahead = state.fetch_offset != position.offset
        if fetched_ahead and position.epoch >= 0:
            # Records that the application has not read are fetched again; whether its own position is still valid is a
            # separate request to the leader.
            self._move(state, position, FetchEvent.SEEK_AND_VALIDATE)
            return
        if fetched_ahead and end_offset >= position.offset:
            self._move(state, position, FetchEvent.SEEK)
            return
        divergent = None if end_offset < 0 else OffsetAndMetadata(end_offset, leader_epoch=end_epoch)
        error = LogTruncationError(
            {state.tp: divergent}, {state.tp: position.offset}, topic=state.tp.topic, partition=state.tp.partition
        )
        self._move(state, position, FetchEvent.SEEK_AND_VALIDATE)
        self.buffer.put(state, error_piece(position.offset, error))

    def fail(self, state: PartitionState, error: KafkaError) -> None:
        """Raise an error once all records before it were read."""
        with self.lock:
            if self.partitions.get(state.tp) is state and not state.blocked:
                self.buffer.put(state, error_piece(state.fetch_offset, error))

    def raise_soon(self, error: KafkaError) -> None:
        """Raise an error from the application's next call; equal errors are raised once."""
        with self.lock:
            if all((type(e), e.topic) != (type(error), error.topic) for e in self.errors):
                self.errors.append(error)
            self.buffer.signal()

    def update_metadata(self, cluster: Cluster) -> None:
        """Add new partitions of subscribed topics, and validate positions if the leader epoch has grown."""
        with self.lock:
            if self.choice is not None:
                self.topics = self.choice.select(cluster.topics, self.topics or ())
            if self.topics is not None and not self.in_group:
                self._discover(cluster)
            for state in self.partitions.values():
                self._check_topic_id(state, cluster.topic_id(state.tp.topic))
                info = cluster.partition(state.tp.topic, state.tp.partition)
                epoch = -1 if info is None or info.leader_epoch is None else info.leader_epoch
                if epoch <= state.leader_epoch:
                    continue
                first_seen = state.leader_epoch < 0
                state.leader_epoch = epoch
                if state.state is FetchState.FETCHING and state.fetch_epoch >= 0 and not first_seen:
                    state.generation += 1
                    state.change(FetchEvent.LEADER_CHANGED)
                state.retry_at = 0.0
            self._changed()
            # There may be an error to raise, or a partition to start.
            self.buffer.signal()

    def _check_topic_id(self, state: PartitionState, topic_id: UUID | None) -> None:
        """Notice a topic that was deleted and created again; records of the old one can still be read."""
        if topic_id is None or topic_id == state.topic_id:
            return
        replaced = state.topic_id is not None
        state.topic_id = topic_id
        if replaced and state.position is not None:
            state.generation += 1
            state.leader_epoch = -1
            self._topic_replaced(state)

    def _topic_replaced(self, state: PartitionState) -> None:
        """Handle a recreated topic: until the application gets there, nothing can be committed for the new one."""
        state.replaced = True
        state.returned = state.stored = None
        tp = state.tp
        self.fail(state, _TopicReplacedError(topic=tp.topic, partition=tp.partition, offset=state.fetch_offset))

    def _discover(self, cluster: Cluster) -> None:
        for topic in self.topics or ():
            known = cluster.partitions(topic)
            if known is None:
                continue
            # A partition that is added later has only new records: reading it from "latest" would skip those written
            # before the client noticed it.
            late = topic in self._discovered
            self._discovered[topic] = len(known)
            for info in known:
                tp = TopicPartition(topic, info.partition)
                if tp not in self.partitions:
                    self.partitions[tp] = state = PartitionState(tp)
                    if late:
                        self._request_reset(state, EARLIEST)
            self._remove_gone(topic, cluster.topic_id(topic))

    def _remove_gone(self, topic: str, topic_id: UUID | None) -> None:
        """Remove the partitions that a new topic of that name does not have.

        Those with records of the old topic stay until the application has read them; `out_of_range` removes them then.
        Without topic ids stale metadata cannot be distinguished from a new topic, and all stay.
        """
        for state in [state for tp, state in self.partitions.items() if tp.topic == topic and self._is_gone(tp)]:
            is_new = topic_id is not None and state.topic_id not in (None, topic_id)
            if (is_new and state.position is None) or (state.replaced and not state.pieces):
                self._remove(state)

    def _is_gone(self, tp: TopicPartition) -> bool:
        """Return whether the partition was added from metadata and the topic has fewer partitions now."""
        joined = self.topics is not None and not self.in_group
        return joined and tp.partition >= self._discovered.get(tp.topic, tp.partition + 1)

    def _remove(self, state: PartitionState) -> None:
        """Stop reading a partition that no longer exists (lock held)."""
        _log.info("%s: the topic was created again with fewer partitions", state.tp)
        state.generation += 1
        self.buffer.discard(state)
        del self.partitions[state.tp]
        self._changed()

    # -- shared

    def _start(self) -> None:
        waiting = [s for s in self.partitions.values() if s.state is FetchState.INITIALIZING]
        if self.in_group:
            for state in waiting:
                state.change(FetchEvent.ASK_COMMITTED)
            self._changed()
            return
        if waiting and self.policy == NONE:
            first = waiting[0].tp
            raise NoOffsetForPartitionError([s.tp for s in waiting], topic=first.topic, partition=first.partition)
        for state in waiting:
            self._request_reset(state, self.policy)

    def _replace(self, partitions: Iterable[TopicPartition]) -> None:
        kept = {tp: self.partitions.get(tp) or PartitionState(tp) for tp in partitions}
        for tp, state in self.partitions.items():
            if tp not in kept:
                state.generation += 1
                self.buffer.discard(state)
        self.partitions = kept
        self._changed()

    def _move(self, state: PartitionState, position: Position, event: FetchEvent) -> None:
        state.change(event)
        self.buffer.discard(state)
        state.generation += 1
        state.replaced = False
        state.error = None
        state.position = position
        state.fetch_offset, state.fetch_epoch = position
        state.reset = None
        state.retry_at = 0.0
        state.failures = 0
        self._changed()

    def _request_reset(self, state: PartitionState, policy: ResetPolicy) -> None:
        state.change(FetchEvent.RESET)
        self.buffer.discard(state)
        state.generation += 1
        state.replaced = False
        state.error = None
        state.reset = policy
        state.position = None
        state.retry_at = 0.0
        state.failures = 0
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._on_change()
