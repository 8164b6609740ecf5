"""The owner's side of committed offsets: what its calls commit and ask for.

Which offsets count as processed: what an earlier call returned, once the next one asks for more. So an automatic
commit takes the positions that the last call began with (`PartitionState.returned`), and of a chunk that is iterated
over the records before the present one. An explicit `commit()` takes the positions as they are, since the
application says that it is done.

A consumer that is subscribed commits as a member of its group, in the generation in which its partitions are its
own, and only for these; one that assigns its partitions itself commits without being a member. Callbacks run in the
owner's calls, or in its event loop. Left out: requests (`commits`, `fetching`) and the timer (`auto_commit`).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kclient._offsets import GivenOffsets, checked_offsets
from kclient.config import ConsumerConfig
from kclient.consumer.assignment.partition_state import Position
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.committed.auto_commit import AutoCommit, Committable
from kclient.consumer.committed.offset_commit import Commit, CommitManager, Generations
from kclient.consumer.committed.offset_fetch import CommittedFetcher, CommittedLookup
from kclient.consumer.group.classic.states import Generation
from kclient.consumer.iteration.current_chunk import Place
from kclient.errors import CommitFailedError, FencedInstanceIdError, KafkaError, KafkaTimeoutError
from kclient.metrics import Metrics
from kclient.net.coordinator import Coordinator
from kclient.net.manager import Manager, Nodes
from kclient.net.operation import Operation, Result
from kclient.records import ConsumerRecord
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kclient.net.metadata import MetadataManager

_log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, KafkaError | None], Any]
"""Takes the offsets, and the error where they were not committed."""

ToCommit = ConsumerRecord | GivenOffsets | None
"""A record, up to and including which everything is processed; offsets by partition; or None for all positions."""

_MARGIN = 1.0
"""Seconds that the network thread may be late to end what has a deadline."""


class GroupOffsets:
    """The committed offsets of one consumer's group.

    Parameters:
        config: the consumer's options.
        subscription: what is assigned, and where it stands.
        coordinator, member: the group's, and what this consumer is in it.
        metadata, nodes: the cluster.
        place: where iteration stands; None outside of it, and before its first record. Any thread.
        random: for jitter.
        metrics: where commits are counted.
        submit: runs a function on the network thread.
        run_soon: runs callbacks in the owner's event loop, in order; None to run them in its calls.
        wake: wakes the owner.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        coordinator: Coordinator,
        member: Generations,
        metadata: MetadataManager,
        nodes: Nodes,
        place: Callable[[], Place | None],
        *,
        random: Random,
        metrics: Metrics,
        submit: Callable[[Callable[[], None]], None],
        run_soon: Callable[[Callable[[], None]], None] | None,
        wake: Callable[[], None],
    ) -> None:
        assert config.group_id is not None
        self.group = config.group_id
        self._instance_id = config.group_instance_id
        self._timeout = config.default_api_timeout_ms / 1000
        self._subscription = subscription
        self._member = member
        self._place = place
        self._submit = submit
        self._run_soon = run_soon or self._run_later
        self._wake = wake
        self._callbacks: deque[Callable[[], None]] = deque()
        self._final: tuple[Generation | None, Future[None]] | None = None
        self._left: Place | None = None
        self._only_earlier = False
        self.commits = CommitManager(
            config, coordinator, metadata, member, random=random, metrics=metrics, on_committed=self._on_committed
        )
        self.fetcher = CommittedFetcher(config, coordinator, subscription, metadata, nodes, member, random=random)
        self.automatic: AutoCommit | None = None
        if config.enable_auto_commit:
            self.automatic = AutoCommit(
                config, self.commits, self._earlier, random=random, on_fatal=subscription.raise_soon
            )

    @property
    def managers(self) -> list[Manager]:
        """What the network thread polls."""
        return [manager for manager in (self.automatic, self.commits, self.fetcher) if manager is not None]

    @property
    def commit_error(self) -> KafkaError | None:
        """Why the last automatic commit failed; None if it did not. Any thread."""
        return None if self.automatic is None else self.automatic.last_error

    # -- around the owner's calls

    def asked(self) -> None:
        """The application asks for records: what it has counts as processed."""
        self._left = None
        if self.automatic is not None:
            self._subscription.mark_returned()

    def left_iteration(self) -> None:
        """The application is about to leave the chunk it iterates over, without asking for the next record."""
        self._left = self._place() or self._left

    def failed(self) -> None:
        """The application failed, and may not have processed what it was given last: the end does not commit that."""
        self._only_earlier = True

    def run_callbacks(self) -> None:
        """Run the callbacks of commits that are done."""
        while self._callbacks:
            self._callbacks.popleft()()

    def fail_all(self, error: KafkaError) -> None:
        """End everything that is under way (network thread)."""
        self.commits.fail_all(error)
        self.fetcher.fail_all(error)

    # -- committing

    def commit(self, what: ToCommit, timeout: float) -> Operation[None]:
        """See `Consumer.commit`."""
        offsets = self._offsets(what)
        generation, refused = self._standing(offsets)
        if refused is not None:
            raise refused
        self._advance(offsets)
        future: Future[None] = Future()
        commit = Commit(
            offsets,
            generation,
            timeout=timeout,
            repeated=True,
            on_done=lambda error: _end(future, error),
            still_held=self._holding(offsets),
            ids=self._ids(offsets),
        )
        self._submit(lambda: self.commits.add(commit))
        try:
            yield Result(future, time.monotonic() + timeout + _MARGIN)
        finally:
            self.run_callbacks()

    def commit_async(self, what: ToCommit, callback: CommitCallback | None) -> None:
        """See `Consumer.commit_async`."""
        offsets = self._offsets(what)
        generation, refused = self._standing(offsets)

        def done(error: KafkaError | None) -> None:
            if callback is not None:
                self._run_soon(lambda: _call(callback, offsets, error))
            elif error is not None:
                _log.warning("%s", error)
            if isinstance(error, FencedInstanceIdError):
                self._subscription.raise_soon(error)

        if refused is None:
            self._advance(offsets)
        commit = Commit(
            offsets,
            generation,
            timeout=self._timeout,
            repeated=False,
            on_done=done,
            refused=refused,
            still_held=self._holding(offsets),
            ids=self._ids(offsets),
        )
        self._submit(lambda: self.commits.add(commit))

    def commit_before_rebalance(self, deadline: float) -> Operation[bool]:
        """Wait for the commits that are under way, and commit what is processed, if commits are automatic.

        Parameters:
            deadline: of `time.monotonic`.

        Returns:
            Whether that is over: committed, nothing to commit, or failed, which is logged. False: the deadline passed
            before; it goes on, and another call waits for it.
        """
        generation, _ = self._standing({})
        final = self._final
        if final is None or final[0] != generation:
            final = self._final = (generation, self._commit_processed(repeated=True))
        # What is waited for is cancelled when the wait ends, and the commit is to go on.
        shield: Future[None] = Future()
        final[1].add_done_callback(lambda _: _end(shield, None))
        try:
            yield Result(shield, deadline)
        except KafkaTimeoutError:
            return False
        finally:
            self.run_callbacks()
        self._final = None
        return True

    def commit_before_assign(self) -> None:
        """The application assigns other partitions: commit what is processed of the present ones, without waiting."""
        if self.automatic is not None:
            self._commit_processed(repeated=False)

    def _commit_processed(self, *, repeated: bool) -> Future[None]:
        future: Future[None] = Future()
        generation, _ = self._standing({})
        automatic = self.automatic
        member = generation is not None or self._subscription.topics is None
        offsets = self._processed() if automatic is not None and member else {}
        self._advance(offsets)

        def done(error: KafkaError | None) -> None:
            if automatic is not None and offsets:
                automatic.done(error)
            _end(future, None)

        commit = Commit(
            offsets,
            generation,
            timeout=self._timeout,
            repeated=repeated,
            on_done=done,
            still_held=self._holding(offsets),
            ids=self._ids(offsets),
        )
        self._submit(lambda: self.commits.add(commit))
        return future

    # -- asking

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float
    ) -> Operation[dict[TopicPartition, OffsetAndMetadata | None]]:
        """See `Consumer.committed`."""
        lookup = CommittedLookup([TopicPartition(*tp) for tp in partitions], timeout)
        self._submit(lambda: self.fetcher.add(lookup))
        found: dict[TopicPartition, OffsetAndMetadata | None] = yield Result(
            lookup.future, time.monotonic() + timeout + _MARGIN
        )
        return found

    def group_metadata(self) -> ConsumerGroupMetadata:
        """See `Consumer.group_metadata`."""
        # Who lost its membership says what it was, and is refused: transactional offsets of nobody are taken (KIP-447).
        generation = None if self._subscription.topics is None else self._member.last_generation()
        if generation is None:
            return ConsumerGroupMetadata(self.group, group_instance_id=self._instance_id)
        return ConsumerGroupMetadata(self.group, generation.id, generation.member_id, generation.instance_id)

    # -- which offsets

    def _offsets(self, what: ToCommit) -> Offsets:
        if what is None:
            positions = self._positions()
            place = self._place()
            if place is not None and place.state.tp in positions:
                positions[place.state.tp] = place.reached
            return _committable(positions)
        if isinstance(what, ConsumerRecord):
            offset = OffsetAndMetadata(what.offset + 1, leader_epoch=what.leader_epoch)
            return {TopicPartition(what.topic, what.partition): offset}
        return checked_offsets(what)

    def _holding(self, offsets: Offsets) -> Callable[[], bool]:
        """A function that tells whether the partitions have been this consumer's without a break since now."""
        states = {tp: self._subscription.partitions.get(tp) for tp in offsets}
        return lambda: all(self._subscription.partitions.get(tp) is state for tp, state in states.items())

    def _ids(self, offsets: Offsets) -> dict[str, UUID]:
        """The ids of the topics that are read, as far as they are known."""
        states = [state for tp in offsets if (state := self._subscription.partitions.get(tp)) is not None]
        return {state.tp.topic: state.topic_id for state in states if state.topic_id is not None}

    def _standing(self, offsets: Offsets) -> tuple[Generation | None, KafkaError | None]:
        """The generation to commit these in, and why they cannot be committed."""
        if self._subscription.topics is None:
            return None, None
        generation = self._member.generation_now()
        if generation is None:
            return None, self.commits.not_a_member() if offsets else None
        strange = [tp for tp in offsets if tp not in self._subscription.partitions]
        if strange:
            tp = strange[0]
            reason = "the partition is not assigned to this member of the group (any more)"
            return None, CommitFailedError(reason, topic=tp.topic, partition=tp.partition)
        return generation, None

    def _positions(self) -> dict[TopicPartition, Position]:
        with self._subscription.lock:
            states = self._subscription.partitions.values()
            return {state.tp: state.position for state in states if state.position is not None and not state.replaced}

    def _processed(self) -> Offsets:
        """What is committed when partitions are given up."""
        if self._only_earlier:
            found = self._earlier()
            return {} if found is None else found.offsets
        positions = self._positions()
        place, left = self._place(), self._left
        if place is not None and place.state.tp in positions:
            positions[place.state.tp] = place.present
        elif left is not None and positions.get(left.state.tp) == left.reached:
            positions[left.state.tp] = left.present
        return _committable(positions)

    def _earlier(self) -> Committable | None:
        """What earlier calls returned (any thread); None while that cannot be committed."""
        subscription = self._subscription
        with subscription.lock:
            generation = None
            if subscription.topics is not None:
                generation = self._member.generation_now()
                if generation is None:
                    return None
            positions = {tp: state.returned for tp, state in subscription.partitions.items() if state.returned}
            place = self._place()
            # Behind it is what the application has committed itself since it took the record.
            if place is not None and place.state.tp in positions:
                tp = place.state.tp
                positions[tp] = max(positions[tp], place.present, key=lambda position: position.offset)
            offsets = _committable(positions)
            return Committable(generation, offsets, self._ids(offsets), self._holding(offsets))

    def _advance(self, offsets: Offsets) -> None:
        """What the application commits, or gives up, is processed: an automatic commit must not go back behind it."""
        with self._subscription.lock:
            reached, place = self._positions(), self._place()
            if place is not None and place.state.tp in reached:
                reached[place.state.tp] = place.reached
            for tp in offsets.keys() & reached.keys():
                state, done = self._subscription.partitions[tp], offsets[tp]
                if state.returned is not None and state.returned.offset < done.offset <= reached[tp].offset:
                    state.returned = Position(done.offset, -1 if done.leader_epoch is None else done.leader_epoch)

    # -- shared

    def _on_committed(self, tp: TopicPartition, offset: OffsetAndMetadata) -> None:
        with self._subscription.lock:
            state = self._subscription.partitions.get(tp)
            if state is not None:
                state.committed = offset.offset

    def _run_later(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        self._wake()


def _committable(positions: Mapping[TopicPartition, Position]) -> Offsets:
    return {
        tp: OffsetAndMetadata(position.offset, leader_epoch=position.epoch if position.epoch >= 0 else None)
        for tp, position in positions.items()
    }


def _call(callback: CommitCallback, offsets: Offsets, error: KafkaError | None) -> None:
    try:
        callback(offsets, error)
    except Exception:  # noqa: BLE001 - user code; the next callback runs all the same
        _log.exception("the callback of a commit failed")


def _end(future: Future[None], error: KafkaError | None) -> None:
    try:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    except InvalidStateError:  # nobody waits any longer
        return
