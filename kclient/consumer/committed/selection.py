"""The offsets of a commit.

A record counts as processed once the application asks for the records after it. `committable_position` applies this
rule to one partition; `OffsetSelector` applies it to all assigned partitions, and adds the generation in which the
offsets are committed: a subscribed consumer commits as a member of its group, in the generation of its assignment, and
only for its partitions; one with a manual assignment commits without being a member. Elsewhere: when a commit is made
(`group_offsets`, `auto_commit`), and how it is sent (`offset_commit`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from kclient._offsets import GivenOffsets, checked_offsets
from kclient.consumer.assignment.partition_state import PartitionState, Position
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.committed.generations import GenerationSource, not_a_member
from kclient.consumer.group.generation import Generation
from kclient.consumer.iteration.current_chunk import Place
from kclient.errors import CommitFailedError, IllegalStateError, KafkaError
from kclient.records import ConsumerRecord
from kclient.types import OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

ToCommit = ConsumerRecord | GivenOffsets | None
"""A record that is processed with all records before it; offsets by partition; or None for all positions."""


class CommitMode(enum.Enum):
    """Which records count as processed.

    ALL: all returned records, including the current one of an iteration, which `commit()` confirms. LEFT: all except
    the current one, which may not be processed, because the application gives up its partitions. EARLIER: those that
    were returned before the application last asked for records, for the timer, which may expire at any moment.
    """

    ALL = "all"
    LEFT = "left"
    EARLIER = "earlier"


def committable_position(
    state: PartitionState, place: Place | None, left: Place | None, mode: CommitMode
) -> Position | None:
    """Return the position to commit for a partition; None if there is nothing to commit.

    Parameters:
        state: the partition.
        place: the place of the iteration, in any partition; None outside of a chunk.
        left: where the application left its last chunk, in any partition; None once it asked for more records.
        mode: what counts as processed.
    """
    if mode is CommitMode.LEFT and place is None and left is not None and state.position == left.reached:
        # The call that gives the partition up has ended the iteration. After a seek the record is no longer the current
        # one.
        place = left
    current = place if place is not None and place.state is state else None
    if mode is CommitMode.EARLIER:
        if state.returned is None or current is None:
            return state.returned
        # The current record is followed by what the application has committed itself since it took that record.
        return max(state.returned, current.present, key=lambda position: position.offset)
    if state.position is None or state.replaced:
        return None
    if current is None:
        return state.position
    return current.reached if mode is CommitMode.ALL else current.present


def committable_offsets(
    states: Iterable[PartitionState], place: Place | None, left: Place | None, mode: CommitMode
) -> Offsets:
    """Return the offsets to commit, without the partitions that have none; parameters as for `committable_position`."""
    found = {state.tp: committable_position(state, place, left, mode) for state in states}
    return {
        tp: OffsetAndMetadata(position.offset, leader_epoch=position.epoch if position.epoch >= 0 else None)
        for tp, position in found.items()
        if position is not None
    }


def stored_offsets(states: Iterable[PartitionState]) -> Offsets:
    """Return the offsets that the application has stored."""
    return {state.tp: state.stored for state in states if state.stored is not None}


def _always() -> bool:
    return True


def _given_offsets(offsets: ConsumerRecord | GivenOffsets) -> Offsets:
    """Return the next offset of each partition: those given, or the one after a record."""
    if not isinstance(offsets, ConsumerRecord):
        return checked_offsets(offsets)
    next_offset = OffsetAndMetadata(offsets.offset + 1, leader_epoch=offsets.leader_epoch)
    return {TopicPartition(offsets.topic, offsets.partition): next_offset}


class OffsetsToCommit(NamedTuple):
    """The offsets of one commit, and the generation in which they are committed.

    Attributes:
        offsets: what to commit; empty to wait for the commits before it.
        generation: the generation of the assignment; None for a consumer that is not a member.
        ids: the known ids of the topics.
        still_held: returns whether all the partitions have been assigned without interruption since then.
        refused: why they cannot be committed.
    """

    offsets: Offsets = MappingProxyType({})
    generation: Generation | None = None
    ids: Mapping[str, UUID] = MappingProxyType({})
    still_held: Callable[[], bool] = _always
    refused: KafkaError | None = None


class OffsetSelector:
    """The offsets that one consumer may commit now.

    Parameters:
        subscription: the assigned partitions.
        member: this consumer's membership.
        place: returns the place of the iteration; None outside of it, and before its first record. Any thread.
        stored_only: whether only the offsets that the application has stored count as processed.
    """

    def __init__(
        self,
        subscription: Subscription,
        member: GenerationSource,
        place: Callable[[], Place | None],
        *,
        stored_only: bool = False,
    ) -> None:
        self._stored_only = stored_only
        self._subscription = subscription
        self._member = member
        self._place = place
        self._left: Place | None = None

    # -- around the application's calls

    def asked(self) -> None:
        """Mark the current record as processed, because the application asks for more."""
        self._left = None

    def left_iteration(self) -> None:
        """Note where the application leaves the chunk it iterates over, without asking for the next record."""
        self._left = self._place() or self._left

    # -- what may be committed

    def requested(self, offsets: ToCommit) -> OffsetsToCommit:
        """Return the offsets that the application wants to commit, or why they are refused."""
        if offsets is None:
            with self._subscription.lock:
                chosen: Offsets = self._offsets(CommitMode.ALL)
        else:
            chosen = _given_offsets(offsets)
        generation, refused = self._standing(chosen)
        return self._named(chosen, generation)._replace(refused=refused)

    def processed(self, mode: CommitMode) -> OffsetsToCommit | None:
        """Return the processed offsets (any thread); None while this consumer is subscribed but not a member."""
        with self._subscription.lock:
            generation = self.generation()
            if generation is None and self._subscription.topics is not None:
                return None
            return self._named(self._offsets(mode), generation)

    def generation(self) -> Generation | None:
        """Return the current generation to commit in; None for a consumer without membership (any thread)."""
        return None if self._subscription.topics is None else self._member.generation_now()

    def last_generation(self) -> Generation | None:
        """Return the generation of the current assignment, even if it is lost; None without membership (any thread)."""
        return None if self._subscription.topics is None else self._member.last_generation()

    def store(self, offsets: ConsumerRecord | GivenOffsets) -> None:
        """Store offsets to commit; all of them, or none with an error. Any thread.

        Raises:
            IllegalStateError: the option enable_auto_offset_store is on, or a partition is not assigned.
        """
        if not self._stored_only:
            raise IllegalStateError("store_offsets() needs the option enable_auto_offset_store=False")
        chosen = _given_offsets(offsets)
        with self._subscription.lock:
            states = {tp: self._subscription.state(tp) for tp in chosen}
            for tp, state in states.items():
                # Offsets of a deleted topic do not apply to the one created in its place.
                if not state.replaced:
                    state.stored = chosen[tp]

    def advance(self, offsets: Offsets) -> None:
        """Mark the offsets of a commit as processed: an automatic commit must not go back behind them."""
        with self._subscription.lock:
            if self._stored_only:
                for tp, stored in stored_offsets(self._subscription.partitions.values()).items():
                    if tp in offsets and stored.offset < offsets[tp].offset:
                        self._subscription.partitions[tp].stored = offsets[tp]
                return
            reached = self._offsets(CommitMode.ALL)
            for tp in offsets.keys() & reached.keys():
                state, done = self._subscription.partitions[tp], offsets[tp]
                if state.returned is not None and state.returned.offset < done.offset <= reached[tp].offset:
                    state.returned = Position(done.offset, -1 if done.leader_epoch is None else done.leader_epoch)

    def _offsets(self, mode: CommitMode) -> Offsets:
        states = self._subscription.partitions.values()
        if self._stored_only:
            return stored_offsets(states)
        return committable_offsets(states, self._place(), self._left, mode)

    def _standing(self, offsets: Offsets) -> tuple[Generation | None, KafkaError | None]:
        """Return the generation to commit these offsets in, and why they cannot be committed."""
        if self._subscription.topics is None:
            return None, None
        generation = self._member.generation_now()
        if generation is None:
            return None, not_a_member(self._member) if offsets else None
        strange = next((tp for tp in offsets if tp not in self._subscription.partitions), None)
        if strange is not None:
            reason = "the partition is not assigned to this member of the group"
            return None, CommitFailedError(reason, topic=strange.topic, partition=strange.partition)
        return generation, None

    def _named(self, offsets: Offsets, generation: Generation | None) -> OffsetsToCommit:
        subscription = self._subscription
        states = {tp: subscription.partitions.get(tp) for tp in offsets}
        known = [state for state in states.values() if state is not None]
        ids = {state.tp.topic: state.topic_id for state in known if state.topic_id is not None}
        return OffsetsToCommit(
            offsets,
            generation,
            ids,
            still_held=lambda: all(subscription.partitions.get(tp) is state for tp, state in states.items()),
        )
