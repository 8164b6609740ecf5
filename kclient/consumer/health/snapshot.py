"""Whether a consumer makes progress, partition by partition, and if not, what it waits for.

A partition that has records left and whose position has not moved for `stall_timeout_ms` has stalled: that is logged
once, and `on_stall` is called, until it moves again; so it is of a member that has nothing to read and has not got into
its group for as long, without a partition to name. Positions are looked at once a second, on the network thread,
so that the records themselves pay nothing for it; that is also how exact "last progress" is. Why a partition waits
is found out when somebody asks; the reasons are a small table (`Waiting`), tried in its order. Records that lie ready
and are not read have a reason too: the application does not ask for them, its calls raise errors or work on, or other
partitions have their turn. Leaves out doing anything about it.
"""

from __future__ import annotations

import enum
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kclient.config import ConsumerConfig, StallCallback
from kclient.consumer.assignment.partition_state import FetchState, PartitionState
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.health.asking import Asking
from kclient.errors import KafkaError
from kclient.net.manager import Manager, Poll
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.consumer.group.agenda import Member
    from kclient.consumer.iteration.current_chunk import Place
    from kclient.metrics import Metrics
    from kclient.net.coordinator import Coordinator
    from kclient.net.metadata import MetadataManager

_log = logging.getLogger(__name__)

_LOOK = 1.0
"""Seconds between two looks at the positions."""
_PUBLISH = 5.0
"""Seconds between two updates of the metrics, for hooks; whoever asks for metrics gets them up to date."""
_SLOW = 1.0
"""Seconds for which records may lie ready before that counts as waiting for the application."""


class Waiting(enum.Enum):
    """What a partition waits for: the first of these that holds."""

    PAUSED = "paused"
    NOT_POLLING = "application not polling"
    REBALANCING = "rebalancing"
    FAILING = "calls for records fail"
    COORDINATOR_UNKNOWN = "coordinator unknown"
    NO_LEADER = "no leader"
    POSITION_UNKNOWN = "position unknown"
    READING = "call for records under way"
    OTHERS_FIRST = "other partitions read first"
    BUFFER_FULL = "buffer full"
    COMMIT_FAILING = "commit failing"
    NO_DATA = "no data"
    FETCHING = "fetching"


class PartitionHealth(msgspec.Struct, frozen=True):
    """How one partition does.

    Attributes:
        position: the offset of the application's next record; None while it is not known.
        committed: what the group has committed, as far as this consumer knows; None if nothing, or without a group.
        end_offset: where the partition ends, as of the last answer of its leader; None before one.
        lag: how many offsets lie between position and end.
        paused: whether the application paused it.
        last_progress: seconds since the position moved last, or since the partition was assigned.
        waiting: what comes next, or what stands in its way.
        error: where calls for records fail, what they raise.
    """

    position: int | None
    committed: int | None
    end_offset: int | None
    lag: int | None
    paused: bool
    last_progress: float
    waiting: Waiting
    error: KafkaError | None = None


class ConsumerHealth(msgspec.Struct, frozen=True):
    """How a consumer does.

    Attributes:
        partitions: those that are assigned.
        stalled: those of them that have records left and make no progress for stall_timeout_ms.
        group_state: the state of the group's member, as "stable"; None without a group.
        group_stalled: whether it has had nothing to read for stall_timeout_ms, as it does not get into its group.
        group_error: why the group's coordinator is not known; None if it is, or was not looked for yet.
        commit_error: why the last automatic commit failed; None if it did not.
    """

    partitions: Mapping[TopicPartition, PartitionHealth]
    stalled: tuple[TopicPartition, ...] = ()
    group_state: str | None = None
    group_stalled: bool = False
    group_error: KafkaError | None = None
    commit_error: KafkaError | None = None


class _Progress:
    """When a partition moved last (`moved`), since when it has had something to do (`since`), when it failed last."""

    __slots__ = ("error", "failed", "moved", "position", "shown", "since", "state", "told")

    def __init__(self, state: PartitionState, position: int | None, now: float) -> None:
        self.state = state
        self.position = position
        self.moved = self.since = self.failed = now
        self.error = state.error
        self.told = False
        self.shown: frozenset[tuple[str, str | None]] = frozenset()

    def idle(self, now: float) -> float:
        """Seconds for which it could have moved, and did not."""
        return max(0.0, now - max(self.moved, self.since))


class HealthMonitor(Manager):
    """Watches the positions; a manager that sends nothing.

    Parameters:
        config: the consumer's options.
        subscription: what is assigned.
        metadata: who leads it.
        metrics: where the figures of each partition are shown.
        place: where the application is within a chunk it iterates over; None outside of one. Any thread.
        asking: when the application asked for records, and what came of it.
        member, coordinator: of the group; None without one.
        rebalancing: tells whether partitions are about to come or go.
        commit_error: tells why the last automatic commit failed.
        run_soon: runs `on_stall` in the owner's event loop; None to run it in a thread of its own.
        clock: seconds.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        metadata: MetadataManager,
        metrics: Metrics,
        place: Callable[[], Place | None],
        asking: Asking,
        *,
        member: Member | None = None,
        coordinator: Coordinator | None = None,
        rebalancing: Callable[[], bool] = lambda: False,
        commit_error: Callable[[], KafkaError | None] = lambda: None,
        run_soon: Callable[[Callable[[], None]], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout = config.stall_timeout_ms / 1000
        self._on_stall = config.on_stall
        self._reads_committed = config.reads_committed
        self._subscription = subscription
        self._metadata = metadata
        self._metrics = metrics
        self._place = place
        self._asking = asking
        self._member = member
        self._coordinator = coordinator
        self._rebalancing = rebalancing
        self._commit_error = commit_error
        self._run_soon = run_soon or _in_a_thread
        self._clock = clock
        self._progress: dict[TopicPartition, _Progress] = {}
        # When the application was seen to go on, as within a chunk of another partition.
        self._read_at = -math.inf
        # Since when this member has been on its way into its group, without anything to read.
        self._outside_since: float | None = None
        self._outside_told = False
        self._next_look = 0.0
        self._next_publication = 0.0

    # -- network thread

    def poll(self, now: float) -> Poll:
        """Look at the positions once a second."""
        if now >= self._next_look:
            self._next_look = now + (min(_LOOK, self._timeout / 4) if self._timeout else _LOOK)
            stalled = self._look(now)
            outside = self._look_at_group(now)
            if stalled or outside:
                self._tell(stalled)
            if now >= self._next_publication:
                self._next_publication = now + _PUBLISH
                self.publish()
        return Poll([], self._next_look)

    def _look(self, now: float) -> dict[TopicPartition, PartitionHealth]:
        """Note what moved, and return what has stalled since the last look."""
        stalled: dict[TopicPartition, PartitionHealth] = {}
        with self._subscription.lock:
            self._forget_gone()
            place = self._place()
            for tp, state in self._subscription.partitions.items():
                progress, lag = self._note(state, place, now)
                if state.paused or lag == 0:
                    progress.since = now
                    progress.told = False
                elif self._timeout and not progress.told and self._has_stalled(progress, now):
                    progress.told = True
                    stalled[tp] = self._partition(state, place, now)
        return stalled

    def _look_at_group(self, now: float) -> bool:
        """Whether it has shown since the last look that this member does not get into its group."""
        member, subscription = self._member, self._subscription
        if member is None or not member.joining or subscription.topics is None or subscription.partitions:
            self._outside_since, self._outside_told = None, False
            return False
        if self._outside_since is None:
            self._outside_since = now
        waited = now - self._outside_since
        if self._outside_told or not self._timeout or waited < self._timeout:
            return False
        self._outside_told = True
        error = self._group_error()
        because = "" if error is None else f"; its coordinator is not known: {error}"
        _log.warning(
            "nothing to read for %.0f s: this member has not got into its group (%s)%s",
            waited,
            member.state.value,
            because,
        )
        return True

    def _group_error(self) -> KafkaError | None:
        coordinator = self._coordinator
        return None if coordinator is None or coordinator.node is not None else coordinator.last_error

    def _has_stalled(self, progress: _Progress, now: float) -> bool:
        return progress.idle(now) >= self._timeout

    def _tell(self, stalled: dict[TopicPartition, PartitionHealth]) -> None:
        for tp, health in stalled.items():
            _log.warning(
                "%s: no progress for %.0f s, at position %s, %s records behind; what it waits for: %s%s",
                tp,
                health.last_progress,
                health.position,
                "an unknown number of" if health.lag is None else health.lag,
                health.waiting.value,
                "" if health.error is None else f": {health.error}",
            )
        callback = self._on_stall
        if callback is not None:
            self._run_soon(lambda: _call(callback, stalled))

    # -- any thread

    def health(self) -> ConsumerHealth:
        """How the consumer does now."""
        now = self._clock()
        with self._subscription.lock:
            found = self._partitions(now)
            stalled = tuple(tp for tp in found if self._progress[tp].told)
        state = None if self._member is None else str(self._member.state.value)
        return ConsumerHealth(found, stalled, state, self._outside_told, self._group_error(), self._commit_error())

    def publish(self) -> None:
        """Show the figures as metrics."""
        metrics = self._metrics
        with self._subscription.lock:
            found = self._partitions(self._clock())
            for tp, health in found.items():
                self._show(self._progress[tp], health)
            lags = [health.lag for health in found.values() if health.lag is not None]
            metrics.gauge("records_lag_max").set(max(lags, default=0))
            metrics.gauge("stalled_partitions").set(sum(progress.told for progress in self._progress.values()))

    # -- lock held

    def _show(self, progress: _Progress, health: PartitionHealth) -> None:
        """Set the gauges of a partition, and drop those of what is not known any more."""
        state = progress.state
        figures = {
            ("records_lag", None): health.lag,
            ("records_lead", None): _between(state.log_start_offset, health.position),
            ("position", None): health.position,
            ("committed_offset", None): health.committed,
            ("end_offset", None): health.end_offset,
            ("last_progress_seconds_ago", None): health.last_progress,
            ("waiting", health.waiting.value): 1,
        }
        known = {gauge: value for gauge, value in figures.items() if value is not None}
        self._hide(progress, known)
        progress.shown = frozenset(known)
        for (name, reason), value in known.items():
            self._metrics.gauge(name, **_labels(state.tp, reason)).set(value)

    def _hide(self, progress: _Progress, keep: Collection[tuple[str, str | None]] = ()) -> None:
        for name, reason in progress.shown.difference(keep):
            self._metrics.drop_gauge(name, **_labels(progress.state.tp, reason))

    def _partitions(self, now: float) -> dict[TopicPartition, PartitionHealth]:
        self._forget_gone()
        place = self._place()
        return {tp: self._partition(state, place, now) for tp, state in self._subscription.partitions.items()}

    def _forget_gone(self) -> None:
        partitions = self._subscription.partitions
        for gone in [tp for tp, progress in self._progress.items() if partitions.get(tp) is not progress.state]:
            self._hide(self._progress.pop(gone))

    def _note(self, state: PartitionState, place: Place | None, now: float) -> tuple[_Progress, int | None]:
        """Where the partition stands, and its lag."""
        position = None if state.position is None else state.position.offset
        if place is not None and place.state is state:
            position = place.reached.offset
        progress = self._progress.get(state.tp)
        if progress is None:
            progress = self._progress[state.tp] = _Progress(state, position, now)
        elif progress.position != position:
            if position is not None and progress.position is not None:
                self._read_at = now
            progress.position = position
            progress.moved = now
            progress.told = False
        if progress.error is not state.error:
            # Each failure is noted as an object of its own.
            progress.error = state.error
            progress.failed = now
        end = self._end(state)
        return progress, None if end is None else _between(position, end)

    def _end(self, state: PartitionState) -> int | None:
        end = state.last_stable_offset if self._reads_committed else state.high_watermark
        return None if end < 0 else end

    def _partition(self, state: PartitionState, place: Place | None, now: float) -> PartitionHealth:
        progress, lag = self._note(state, place, now)
        failure = _failure(progress, now)
        waiting = self._waiting(progress, lag, place, failure, now)
        return PartitionHealth(
            progress.position,
            state.committed,
            self._end(state),
            lag,
            state.paused,
            max(0.0, now - progress.moved),
            waiting,
            (failure or self._asking.error) if waiting is Waiting.FAILING else None,
        )

    def _waiting(
        self, progress: _Progress, lag: int | None, place: Place | None, failure: KafkaError | None, now: float
    ) -> Waiting:
        state, asking, coordinator = progress.state, self._asking, self._coordinator
        info = self._metadata.cluster.partition(state.tp.topic, state.tp.partition)
        idle = progress.idle(now)
        ready = bool(state.pieces) or (place is not None and place.state is state)
        slow = ready and idle >= _SLOW
        # Its first call starts a partition. One that polls now and then is asleep for less than half of the time.
        wanted = slow or (state.state is FetchState.INITIALIZING and idle >= _SLOW)
        asleep = min(asking.idle(now), now - self._read_at) >= max(_SLOW, idle / 2)
        fails = failure is not None or (wanted and asking.error is not None)
        awaits_committed = state.state is FetchState.AWAITING_COMMITTED
        reasons = {
            Waiting.PAUSED: state.paused,
            Waiting.NOT_POLLING: wanted and asleep,
            Waiting.REBALANCING: self._rebalancing(),
            Waiting.FAILING: fails,
            Waiting.COORDINATOR_UNKNOWN: awaits_committed and coordinator is not None and coordinator.node is None,
            Waiting.NO_LEADER: info is None or info.leader is None,
            Waiting.POSITION_UNKNOWN: state.state is not FetchState.FETCHING and not slow,
            Waiting.READING: slow and asking.within,
            Waiting.OTHERS_FIRST: slow,
            Waiting.BUFFER_FULL: not ready and self._subscription.buffer.starved,
            Waiting.COMMIT_FAILING: self._commit_error() is not None,
            Waiting.NO_DATA: lag == 0,
        }
        return next((reason for reason, holds in reasons.items() if holds), Waiting.FETCHING)


def _failure(progress: _Progress, now: float) -> KafkaError | None:
    """What calls for records raise at the partition; None if the last failure is past, as far as can be told.

    Only records and seeks take back the error that was raised last. It counts while another one comes next, and for
    a while: the broker has to refuse again first, and calls that have the turn of other partitions raise nothing.
    """
    pieces = progress.state.pieces
    if pieces and pieces[0].error is not None:
        return progress.error
    return progress.error if now - progress.failed < max(_SLOW, progress.idle(now) / 2) else None


def _between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None or start < 0 else max(0, end - start)


def _labels(tp: TopicPartition, reason: str | None) -> dict[str, Any]:
    labels: dict[str, Any] = {"topic": tp.topic, "partition": tp.partition}
    return labels if reason is None else {**labels, "reason": reason}


def _in_a_thread(function: Callable[[], None]) -> None:
    threading.Thread(target=function, name="kclient-stall", daemon=True).start()


def _call(callback: StallCallback, stalled: Mapping[TopicPartition, PartitionHealth]) -> None:
    try:
        callback(stalled)
    except Exception:  # noqa: BLE001 - user code
        _log.exception("on_stall failed")
