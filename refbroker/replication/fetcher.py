"""The partitions that a broker fetches from one leader.

A fetch asks for all partitions that are ready, each at its log end and with the epoch of its last record. The answer
of a partition leads to one action, which the caller carries out and reports:

    records                append them (`Append`), then `appended`
    a diverging epoch      truncate (`Truncate`), then `truncated`
    OFFSET_OUT_OF_RANGE    ask the leader for its log start and end (`FindOffsets`), then `on_offsets`
    FENCED_LEADER_EPOCH    failed, until the metadata has a new leader epoch
    another error          delayed by `replica.fetch.backoff.ms`

An answer counts only if the partition still is where it was when the request was sent: same leader epoch, same offset,
still fetching.

Limitations: one fetcher for each leader (`num.replica.fetchers`), and no fetch sessions (KIP-227): each request names
all partitions.

Source: Kafka's AbstractFetcherThread, RemoteLeaderEndPoint, ReplicaFetcherThread.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from kclient.errors import FencedLeaderEpochError, OffsetOutOfRangeError
from kclient.state_machine import StateTable
from refbroker.log.leader_epochs import EpochEntry
from refbroker.replication import divergence
from refbroker.replication.partition import ReplicaLog

NO_ERROR = 0
Key = tuple[str, int]


class FetchState(enum.Enum):
    """The state of a partition at its fetcher."""

    FETCHING = "fetching"
    FINDING_OFFSETS = "finding offsets"
    DELAYED = "delayed"
    FAILED = "failed"


class FetchEvent(enum.Enum):
    """What can happen to a fetched partition."""

    FOLLOW = "new leader epoch"
    DATA = "data"
    DIVERGED = "diverged"
    OUT_OF_RANGE = "out of range"
    OFFSETS = "offsets"
    ERROR = "error"
    DUE = "delay over"
    FENCED = "fenced"
    STORAGE_ERROR = "storage error"


_FOLLOW = {FetchEvent.FOLLOW: FetchState.FETCHING, FetchEvent.STORAGE_ERROR: FetchState.FAILED}

STATES = StateTable[FetchState, FetchEvent](
    "fetched partition",
    {
        FetchState.FETCHING: {
            **_FOLLOW,
            FetchEvent.DATA: FetchState.FETCHING,
            FetchEvent.DIVERGED: FetchState.FETCHING,
            FetchEvent.OUT_OF_RANGE: FetchState.FINDING_OFFSETS,
            FetchEvent.ERROR: FetchState.DELAYED,
            FetchEvent.FENCED: FetchState.FAILED,
        },
        FetchState.FINDING_OFFSETS: {
            **_FOLLOW,
            FetchEvent.OFFSETS: FetchState.FETCHING,
            FetchEvent.ERROR: FetchState.DELAYED,
            FetchEvent.FENCED: FetchState.FAILED,
        },
        FetchState.DELAYED: {**_FOLLOW, FetchEvent.DUE: FetchState.FETCHING},
        FetchState.FAILED: _FOLLOW,
    },
)


class FollowerLog(ReplicaLog, Protocol):
    """The figures of a follower's log, such as a `PartitionLog`."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of its last record, -1 without one."""

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEntry:
        """Return the largest epoch up to `leader_epoch` and its end offset; (-1, -1) if unknown."""


class Throttle(Protocol):
    """The throttle of this broker as follower."""

    def holds_back(self, topic: str, partition: int, now_ms: int, *, in_sync: bool) -> bool:
        """Return whether a partition must wait."""


@dataclass(slots=True)
class FetchedPartition:
    """A partition at its fetcher.

    Attributes:
        leader_epoch: in which it is fetched.
        fetch_offset: the next offset.
        last_fetched_epoch: the epoch of the record before it, -1 if unknown.
        lag: how far the leader's high watermark is ahead, None before the first answer.
        due_ms: the end of a delay.
    """

    topic: str
    partition: int
    topic_id: UUID
    log: FollowerLog
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    state: FetchState = FetchState.FETCHING
    lag: int | None = None
    due_ms: int = 0

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def is_in_sync(self) -> bool:
        """Whether it has everything below the leader's high watermark, as of the last answer."""
        return self.lag is not None and self.lag <= 0

    def enter(self, event: FetchEvent) -> None:
        """Enter the state that follows an event."""
        self.state = STATES.next_state(self.state, event, f"{self.topic}-{self.partition}")


class FetchTarget(NamedTuple):
    """A partition in a Fetch request."""

    topic: str
    partition: int
    topic_id: UUID
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return self.topic, self.partition


class FetchAnswer(NamedTuple):
    """The part of a Fetch response about one partition, without the records.

    Attributes:
        error_code: 0 for none.
        diverging: the leader's epoch and its end offset, None if the logs do not diverge.
        high_watermark, log_start_offset: the leader's.
    """

    error_code: int
    diverging: EpochEntry | None = None
    high_watermark: int = -1
    log_start_offset: int = -1


class Append(NamedTuple):
    """Append the records: those of leader epochs up to `leader_epoch`."""

    key: Key
    leader_epoch: int


class Truncate(NamedTuple):
    """Truncate the log to an offset."""

    key: Key
    offset: int


class Restart(NamedTuple):
    """Empty the log, and start it at an offset."""

    key: Key
    offset: int


class FindOffsets(NamedTuple):
    """Ask the leader, in a leader epoch, for its log start and log end offset."""

    key: Key
    leader_epoch: int


Action = Append | Truncate | Restart | FindOffsets


class Appended(NamedTuple):
    """What to do after an append: the figures for the log, in this order."""

    high_watermark: int
    log_start_offset: int


class Fetcher:
    """The partitions that are fetched from one leader.

    Parameters:
        backoff_ms: `replica.fetch.backoff.ms`.
        throttle: of this broker as follower.
        on_failed: called with a partition that is no longer fetched.

    Attributes:
        partitions: the fetched partitions by topic and number, in the order of the next request.
    """

    def __init__(self, backoff_ms: int, throttle: Throttle, on_failed: Callable[[Key], None] | None = None) -> None:
        self.partitions: dict[Key, FetchedPartition] = {}
        self._backoff_ms = backoff_ms
        self._throttle = throttle
        self._on_failed = on_failed

    def __len__(self) -> int:
        return len(self.partitions)

    # Partitions

    def follow(
        self, topic: str, partition: int, topic_id: UUID, leader_epoch: int, log: FollowerLog
    ) -> Truncate | None:
        """Fetch a partition from now on, in a leader epoch; nothing changes in the same epoch.

        Parameters:
            topic, partition, topic_id: the partition.
            leader_epoch: of the leader.
            log: the local log.

        Returns:
            A truncation to carry out before the next request, which need not be reported; None without one.
        """
        known = self.partitions.get((topic, partition))
        if known is not None and known.leader_epoch == leader_epoch and known.log is log:
            return None
        start = divergence.following_start(log.log_end_offset, log.high_watermark, log.leader_epoch)
        found = FetchedPartition(
            topic, partition, topic_id, log, leader_epoch, start.fetch_offset, start.last_fetched_epoch
        )
        self.partitions[found.key] = found
        return None if start.truncate_to is None else Truncate(found.key, start.truncate_to)

    def forget(self, key: Key) -> None:
        """Stop fetching a partition, which has another leader or is gone."""
        self.partitions.pop(key, None)

    # Requests

    def targets(self, now_ms: int) -> list[FetchTarget]:
        """Return the partitions for the next Fetch request; without any, wait until `next_due_ms` or a change.

        Parameters:
            now_ms: the time, milliseconds.
        """
        targets = []
        for one in self.partitions.values():
            if one.state is FetchState.DELAYED and one.due_ms <= now_ms:
                one.enter(FetchEvent.DUE)
            if one.state is not FetchState.FETCHING:
                continue
            if self._throttle.holds_back(one.topic, one.partition, now_ms, in_sync=one.is_in_sync):
                continue
            targets.append(
                FetchTarget(
                    one.topic,
                    one.partition,
                    one.topic_id,
                    one.leader_epoch,
                    one.fetch_offset,
                    one.last_fetched_epoch,
                    one.log.log_start_offset,
                )
            )
        return targets

    def next_due_ms(self) -> int | None:
        """Return when the next delay ends, None if no partition is delayed."""
        return min((one.due_ms for one in self.partitions.values() if one.state is FetchState.DELAYED), default=None)

    # Responses

    def on_answer(self, sent: FetchTarget, answer: FetchAnswer, now_ms: int) -> Action | None:
        """Return what to do about the answer of one partition.

        Parameters:
            sent: as it was in the request.
            answer: from the response.
            now_ms: the time, milliseconds.
        """
        one = self._current(sent.key, sent.leader_epoch)
        if one is None or one.state is not FetchState.FETCHING or one.fetch_offset != sent.fetch_offset:
            return None
        if answer.error_code != NO_ERROR:
            return self._on_error(one, answer.error_code, now_ms)
        if answer.diverging is None:
            return Append(one.key, one.leader_epoch)
        own = one.log.end_offset_for_epoch(answer.diverging.epoch)
        truncation = divergence.truncation(answer.diverging, own, one.log.log_end_offset, one.log.high_watermark)
        one.enter(FetchEvent.DIVERGED)
        return Truncate(one.key, truncation.offset)

    def _current(self, key: Key, leader_epoch: int) -> FetchedPartition | None:
        one = self.partitions.get(key)
        return one if one is not None and one.leader_epoch == leader_epoch else None

    def _on_error(self, one: FetchedPartition, error_code: int, now_ms: int) -> Action | None:
        if error_code == OffsetOutOfRangeError.code and one.state is FetchState.FETCHING:
            one.enter(FetchEvent.OUT_OF_RANGE)
            return FindOffsets(one.key, one.leader_epoch)
        if error_code == FencedLeaderEpochError.code:
            one.enter(FetchEvent.FENCED)
            self._report_failed(one)
        else:
            self._delay(one, now_ms)
        return None

    def _delay(self, one: FetchedPartition, now_ms: int) -> None:
        one.enter(FetchEvent.ERROR)
        one.due_ms = now_ms + self._backoff_ms

    def _report_failed(self, one: FetchedPartition) -> None:
        if self._on_failed is not None:
            self._on_failed(one.key)

    def appended(self, sent: FetchTarget, answer: FetchAnswer, now_ms: int) -> Appended | None:
        """Take note of an append.

        Parameters:
            sent: the partition as it was in the request.
            answer: its answer.
            now_ms: the time, milliseconds.

        Returns:
            The high watermark and log start for the log; None if the partition is no longer fetched in this epoch.
        """
        one = self._current(sent.key, sent.leader_epoch)
        if one is None:
            return None
        log = one.log
        progressed = log.log_end_offset > one.fetch_offset
        one.enter(FetchEvent.DATA)
        one.fetch_offset = log.log_end_offset
        if progressed:
            one.last_fetched_epoch = log.leader_epoch
            # The next response begins with others, so that no partition waits for a large one.
            self.partitions[one.key] = self.partitions.pop(one.key)
        one.lag = max(answer.high_watermark - one.fetch_offset, 0)
        high_watermark = divergence.follower_high_watermark(answer.high_watermark, one.fetch_offset)
        start = divergence.follower_log_start(answer.log_start_offset, log.log_start_offset, high_watermark)
        return Appended(high_watermark, start)

    def truncated(self, key: Key) -> None:
        """Take note of a truncation or a restart that was carried out: the next fetch is at the new log end."""
        one = self.partitions.get(key)
        if one is not None:
            one.fetch_offset = one.log.log_end_offset
            one.last_fetched_epoch = one.log.leader_epoch

    def on_offsets(self, asked: FindOffsets, leader_start: int, leader_end: int) -> Action | None:
        """Return what to do about the log start and log end offset of the leader.

        Parameters:
            asked: the question.
            leader_start, leader_end: the answer.
        """
        one = self._current(asked.key, asked.leader_epoch)
        if one is None or one.state is not FetchState.FINDING_OFFSETS:
            return None
        one.enter(FetchEvent.OFFSETS)
        found = divergence.reset(one.log.log_end_offset, leader_start, leader_end)
        one.fetch_offset = found.fetch_offset
        one.last_fetched_epoch = one.log.leader_epoch
        if found.truncate_to is not None:
            return Truncate(one.key, found.truncate_to)
        return None if found.start_at is None else Restart(one.key, found.start_at)

    def on_offsets_error(self, asked: FindOffsets, error_code: int, now_ms: int) -> None:
        """Take note that the leader's offsets could not be found; the fetch is tried again after a delay.

        Parameters:
            asked: the question.
            error_code: of the leader, -1 without an answer.
            now_ms: the time, milliseconds.
        """
        one = self._current(asked.key, asked.leader_epoch)
        if one is not None and one.state is FetchState.FINDING_OFFSETS:
            self._on_error(one, error_code, now_ms)

    def on_failure(self, sent: list[FetchTarget], now_ms: int) -> None:
        """Delay the partitions of a request that got no response.

        Parameters:
            sent: as they were in the request.
            now_ms: the time, milliseconds.
        """
        for target in sent:
            self.on_append_error(target, now_ms)

    def on_append_error(self, sent: FetchTarget, now_ms: int) -> None:
        """Delay a partition whose records are damaged; they are fetched again.

        Parameters:
            sent: the partition as it was in the request.
            now_ms: the time, milliseconds.
        """
        one = self._current(sent.key, sent.leader_epoch)
        if one is not None and one.state is FetchState.FETCHING:
            self._delay(one, now_ms)

    def on_storage_error(self, key: Key) -> None:
        """Stop fetching a partition whose disk failed, or whose records do not fit its log."""
        one = self.partitions.get(key)
        if one is not None:
            one.enter(FetchEvent.STORAGE_ERROR)
            self._report_failed(one)
