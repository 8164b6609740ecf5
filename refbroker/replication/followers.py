"""The leader's knowledge of each follower.

A follower that fetches at an offset has everything before it. Its lag is measured in time: it is caught up as of the
last time at which it had everything that the leader had. A follower that is busy under constant load never fetches at
the log end; it counts as caught up as of a fetch if the next fetch has reached the log end of that time.

Source: Kafka's Replica and ReplicaState.
"""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
"""The broker epoch of a follower that sends none; it is not checked."""


@dataclass(slots=True)
class FollowerState:
    """The state of one follower, as its fetches report it.

    Attributes:
        log_start_offset, log_end_offset: of its log, -1 before the first fetch.
        last_fetch_leader_end: the log end offset of the leader at its last fetch.
        last_fetch_ms: the time of its last fetch, 0 without one.
        last_caught_up_ms: when it last had everything that the leader had.
        broker_epoch: of its last fetch; None without one.
    """

    log_start_offset: int = UNKNOWN_OFFSET
    log_end_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end: int = 0
    last_fetch_ms: int = 0
    last_caught_up_ms: int = 0
    broker_epoch: int | None = None

    def record_fetch(self, offset: int, start_offset: int, leader_end: int, broker_epoch: int, now_ms: int) -> None:
        """Record a fetch that was read without an error or a divergence.

        Parameters:
            offset: the offset of the fetch.
            start_offset: the log start offset of the follower.
            leader_end: the log end offset of the leader before the read.
            broker_epoch: of the follower, -1 if it sent none.
            now_ms: the time, milliseconds.
        """
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = start_offset
        self.log_end_offset = offset
        self.last_fetch_leader_end = max(leader_end, self.last_fetch_leader_end)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def begin_leader_epoch(self, epoch_start: int, now_ms: int, *, in_sync: bool, is_new_leader: bool) -> None:
        """Begin a leader epoch.

        A follower in sync has the lag time to prove itself. Another one does not hold back the high watermark, and
        does not join the ISR, before it has fetched.

        Parameters:
            epoch_start: the log end offset of the leader.
            now_ms: the time, milliseconds.
            in_sync: whether it is in the ISR.
            is_new_leader: whether another broker may have led before, so that nothing is known.
        """
        self.last_caught_up_ms = now_ms if in_sync else 0
        if is_new_leader:
            self.log_start_offset = self.log_end_offset = self.last_fetch_leader_end = UNKNOWN_OFFSET
            self.last_fetch_ms = 0
            self.broker_epoch = None
        else:
            self.last_fetch_leader_end = epoch_start
            self.last_fetch_ms = now_ms if in_sync else 0

    def is_caught_up(self, leader_end: int, now_ms: int, lag_time_ms: int) -> bool:
        """Return whether it has all records, or had all that there were within the lag time.

        Parameters:
            leader_end: the log end offset of the leader.
            now_ms: the time, milliseconds.
            lag_time_ms: `replica.lag.time.max.ms`.
        """
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_time_ms
