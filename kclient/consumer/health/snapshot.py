"""The health of a consumer at one moment: the state of each partition, and why it waits.

The reasons (`StallReason`) are tried in order. Records that are ready and not read have a reason too: the application
does not ask for them, its calls fail or are still in progress, or other partitions have their turn. "Last progress" is
as exact as snapshots are frequent (`monitor`). Elsewhere: when a snapshot is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kclient.consumer.assignment.partition_state import FetchState, PartitionState
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.group.rebalance_steps import Member
from kclient.consumer.health.poll_tracker import PollTracker
from kclient.consumer.health.progress import GroupProgress, Progress
from kclient.consumer.health.report import ConsumerHealth, PartitionHealth, StallReason
from kclient.consumer.iteration.current_chunk import Place
from kclient.errors import KafkaError
from kclient.types import Connectivity, ConnectivityState, TopicPartition

if TYPE_CHECKING:
    from kclient.net.coordinator import Coordinator
    from kclient.net.metadata import MetadataManager

_SLOW = 1.0
"""Seconds for which records may be ready before that counts as waiting for the application."""


class GroupView(NamedTuple):
    """The group as the health check sees it; the defaults are those without a group.

    Attributes:
        member, coordinator: None without a group.
        rebalancing: returns whether partitions are being added or revoked.
        commit_error: returns why the last automatic commit failed.
    """

    member: Member | None = None
    coordinator: Coordinator | None = None
    rebalancing: Callable[[], bool] = lambda: False
    commit_error: Callable[[], KafkaError | None] = lambda: None

    @property
    def error(self) -> KafkaError | None:
        """Why the coordinator is unknown; None if it is known."""
        coordinator = self.coordinator
        return None if coordinator is None or coordinator.node is not None else coordinator.last_error

    @property
    def state(self) -> str | None:
        """The state of the member."""
        return None if self.member is None else str(self.member.state.value)


class HealthView:
    """A consumer as a snapshot sees it; any thread.

    Parameters:
        subscription: the assigned partitions.
        metadata: the leaders.
        place: returns the application's place within a chunk; None outside of one. Any thread.
        poll_tracker: the application's calls for records.
        group: the group.
        connectivity: returns whether any broker is reachable. Any thread.
        reads_committed: whether the last stable offset is the end of a partition.

    Attributes:
        progress: of the assigned partitions (under the subscription's lock).
        group_progress: that of the member.
    """

    def __init__(
        self,
        subscription: Subscription,
        metadata: MetadataManager,
        place: Callable[[], Place | None],
        poll_tracker: PollTracker,
        group: GroupView,
        connectivity: Callable[[], Connectivity],
        *,
        reads_committed: bool,
    ) -> None:
        self.progress: dict[TopicPartition, Progress] = {}
        self.group_progress = GroupProgress()
        self._subscription = subscription
        self._metadata = metadata
        self._place = place
        self._poll_tracker = poll_tracker
        self._group = group
        self._connectivity = connectivity
        self._reads_committed = reads_committed
        # When the application last made progress, for example within a chunk of another partition.
        self._read_at = -math.inf

    def consumer(self, now: float) -> ConsumerHealth:
        """Return the health of the consumer."""
        with self._subscription.lock:
            found = self.partitions(now)
            stalled = tuple(tp for tp in found if self.progress[tp].stalled)
        group = self._group
        return ConsumerHealth(
            self._connectivity(),
            found,
            stalled,
            group.state,
            self.group_progress.stalled,
            group.error,
            group.commit_error(),
        )

    # -- lock held

    def partitions(self, now: float) -> dict[TopicPartition, PartitionHealth]:
        """Return the health of each partition."""
        unreachable = self._is_unreachable()
        return {
            progress.state.tp: self._partition(progress, lag, place, unreachable, now)
            for progress, lag, place in self._noted(now)
        }

    def overdue(self, now: float, timeout: float) -> dict[TopicPartition, PartitionHealth]:
        """Return the partitions that have stalled since the last check; from then on they count as stalled.

        Parameters:
            now: the time.
            timeout: seconds without progress that are a stall; 0 for never.
        """
        stalled: dict[TopicPartition, PartitionHealth] = {}
        for progress, lag, place in self._noted(now):
            if progress.state.paused or lag == 0:
                progress.since = now
                progress.stalled = False
            elif timeout and not progress.stalled and progress.idle(now) >= timeout:
                progress.stalled = True
                stalled[progress.state.tp] = self._partition(progress, lag, place, self._is_unreachable(), now)
        return stalled

    def _is_unreachable(self) -> bool:
        return self._connectivity().state is ConnectivityState.UNREACHABLE

    def _noted(self, now: float) -> Iterator[tuple[Progress, int | None, Place | None]]:
        partitions, place = self._subscription.partitions, self._place()
        for gone in [tp for tp, progress in self.progress.items() if partitions.get(tp) is not progress.state]:
            del self.progress[gone]
        for state in partitions.values():
            yield *self._note(state, place, now), place

    def _note(self, state: PartitionState, place: Place | None, now: float) -> tuple[Progress, int | None]:
        """Note the position of a partition; return its progress and its lag."""
        position = None if state.position is None else state.position.offset
        if place is not None and place.state is state:
            position = place.reached.offset
        progress = self.progress.get(state.tp)
        if progress is None:
            progress = self.progress[state.tp] = Progress(state, position, now)
        elif progress.position != position:
            if position is not None and progress.position is not None:
                self._read_at = now
            progress.position = position
            progress.moved = now
            progress.stalled = False
        if progress.error is not state.error:
            # Each failure is an object of its own.
            progress.error = state.error
            progress.failed = now
        end = self._end(state)
        return progress, None if end is None else between(position, end)

    def _end(self, state: PartitionState) -> int | None:
        end = state.last_stable_offset if self._reads_committed else state.high_watermark
        return None if end < 0 else end

    def _partition(
        self, progress: Progress, lag: int | None, place: Place | None, unreachable: bool, now: float
    ) -> PartitionHealth:
        state = progress.state
        failure = _failure_of(progress, now)
        reason = self._stall_reason(progress, lag, place, failure, unreachable, now)
        return PartitionHealth(
            progress.position,
            state.committed,
            self._end(state),
            None if unreachable else lag,
            state.paused,
            max(0.0, now - progress.moved),
            reason,
            (failure or self._poll_tracker.error) if reason is StallReason.FAILING else None,
        )

    def _stall_reason(
        self,
        progress: Progress,
        lag: int | None,
        place: Place | None,
        failure: KafkaError | None,
        unreachable: bool,
        now: float,
    ) -> StallReason:
        state, poll_tracker, group = progress.state, self._poll_tracker, self._group
        coordinator = group.coordinator
        info = self._metadata.cluster.partition(state.tp.topic, state.tp.partition)
        idle = progress.idle(now)
        ready = bool(state.pieces) or (place is not None and place.state is state)
        slow = ready and idle >= _SLOW
        # The first call starts a partition. An application that polls now and then pauses for less than half of the
        # time.
        wanted = slow or (state.state is FetchState.INITIALIZING and idle >= _SLOW)
        asleep = min(poll_tracker.idle(now), now - self._read_at) >= max(_SLOW, idle / 2)
        fails = failure is not None or (wanted and poll_tracker.error is not None)
        awaits_committed = state.state is FetchState.AWAITING_COMMITTED
        reasons = {
            StallReason.PAUSED: state.paused,
            StallReason.NOT_POLLING: wanted and asleep,
            StallReason.NO_BROKER: unreachable and not ready,
            StallReason.REBALANCING: group.rebalancing(),
            StallReason.FAILING: fails,
            StallReason.COORDINATOR_UNKNOWN: awaits_committed and coordinator is not None and coordinator.node is None,
            StallReason.NO_LEADER: info is None or info.leader is None,
            StallReason.POSITION_UNKNOWN: state.state is not FetchState.FETCHING and not slow,
            StallReason.READING: slow and poll_tracker.within,
            StallReason.OTHERS_FIRST: slow,
            StallReason.BUFFER_FULL: not ready and self._subscription.buffer.starved,
            StallReason.COMMIT_FAILING: group.commit_error() is not None,
            StallReason.NO_DATA: lag == 0,
        }
        return next((reason for reason, holds in reasons.items() if holds), StallReason.FETCHING)


def _failure_of(progress: Progress, now: float) -> KafkaError | None:
    """Return the error that calls for records raise at the partition; None if the last failure is over, if that is
    known.

    Only records and seeks end the last error. It counts while another error is next, and for a while: the broker has to
    refuse again first, and calls that return other partitions raise nothing.
    """
    pieces = progress.state.pieces
    if pieces and pieces[0].error is not None:
        return progress.error
    return progress.error if now - progress.failed < max(_SLOW, progress.idle(now) / 2) else None


def between(start: int | None, end: int | None) -> int | None:
    """Return the number of offsets from one to another; None while either is unknown."""
    return None if start is None or end is None or start < 0 else max(0, end - start)
