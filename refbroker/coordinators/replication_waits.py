"""What a shard holds until its writes are replicated: answers, and actions outside of its partition.

A write is appended and replayed at once, so the state of a shard may be ahead of the high watermark. Whatever leaves
the shard waits until the high watermark has reached the log end of that moment: the answer of a write, and an answer
that only reads, because it may depend on a write that a new leader does not have. With a single replica in sync nothing
waits. A wait ends with COORDINATOR_NOT_AVAILABLE after its time limit (`offsets.commit.timeout.ms`), and with
NOT_COORDINATOR when this broker no longer leads the partition. The state remains in both cases: the records are in the
log, and a new leader loads its own state. Source: Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from kclient.errors import CoordinatorNotAvailableError, KafkaError, NotCoordinatorError
from refbroker.coordinators.timers import ClockTimers
from refbroker.log import PartitionLog
from refbroker.runtime.clock import Clock

logger = logging.getLogger(__name__)

_TIMER = "replication"

T = TypeVar("T")
Complete = Callable[[KafkaError | None], None]


class _Wait(NamedTuple):
    offset: int
    deadline_ms: int | None
    complete: Complete


class ReplicationWaits:
    """The waits of one shard.

    Parameters:
        log: the log of its partition.
        timers: the timers of the shard.
        clock: the broker's clock.
        timeout_ms: returns the time limit of answers, in milliseconds.
    """

    def __init__(self, log: PartitionLog, timers: ClockTimers, clock: Clock, timeout_ms: Callable[[], int]) -> None:
        self._log = log
        self._timers = timers
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._waits: deque[_Wait] = deque()

    def __len__(self) -> int:
        return len(self._waits)

    @property
    def is_replicated(self) -> bool:
        """Whether everything that the shard has written is replicated."""
        return self._log.high_watermark >= self._log.log_end_offset

    def hold(self, complete: Complete, *, limited: bool = True) -> None:
        """Call a function with None when everything written so far is replicated, or with the error.

        Parameters:
            limited: whether the wait has a time limit, as that of an answer. Actions have none: they are due whenever
                the records are replicated, and are dropped when another broker leads.
        """
        if self.is_replicated:
            complete(None)
            return
        if not self._waits:
            self._log.on_high_watermark.append(self._advance)
        deadline = None
        if limited:
            timeout_ms = self._timeout_ms()
            deadline = self._clock.elapsed_ms() + timeout_ms
            if all(wait.deadline_ms is None for wait in self._waits):
                self._timers.schedule(_TIMER, timeout_ms, self._expire)
        self._waits.append(_Wait(self._log.log_end_offset, deadline, complete))

    def future(self, answer: Callable[[KafkaError | None], T]) -> asyncio.Future[T]:
        """Return a future of an answer, which is built from None or the error of `hold`."""
        held: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def complete(error: KafkaError | None) -> None:
            # The client may have disconnected.
            if not held.done():
                held.set_result(answer(error))

        self.hold(complete)
        return held

    def follow(self, log: PartitionLog) -> None:
        """Wait for another log: that of the partition was moved to another directory."""
        if self._waits:
            self._log.on_high_watermark.remove(self._advance)
            log.on_high_watermark.append(self._advance)
        self._log = log
        self._advance(log)

    def close(self) -> None:
        """End all waits: another broker coordinates the partition."""
        waits = self._take_all()
        error = NotCoordinatorError(topic=self._log.topic, partition=self._log.partition)
        for wait in waits:
            if wait.deadline_ms is not None:
                _complete(wait, error)

    def _advance(self, log: PartitionLog) -> None:
        due = []
        while self._waits and self._waits[0].offset <= log.high_watermark:
            due.append(self._waits.popleft())
        if not self._waits:
            self._take_all()
        for wait in due:
            _complete(wait, None)

    def _expire(self) -> None:
        now = self._clock.elapsed_ms()
        expired: list[_Wait] = []
        rest: list[_Wait] = []
        for wait in self._waits:
            (rest if wait.deadline_ms is None or wait.deadline_ms > now else expired).append(wait)
        if not rest:
            self._take_all()
        self._waits = deque(rest)
        deadlines = [wait.deadline_ms for wait in rest if wait.deadline_ms is not None]
        if deadlines:
            self._timers.schedule(_TIMER, min(deadlines) - now, self._expire)
        log = self._log
        for wait in expired:
            logger.warning("%s-%d was not replicated up to offset %d in time", log.topic, log.partition, wait.offset)
            _complete(wait, CoordinatorNotAvailableError("the write was not replicated in time"))

    def _take_all(self) -> list[_Wait]:
        waits = list(self._waits)
        self._waits.clear()
        self._timers.cancel(_TIMER)
        if self._advance in self._log.on_high_watermark:
            self._log.on_high_watermark.remove(self._advance)
        return waits


def _complete(wait: _Wait, error: KafkaError | None) -> None:
    try:
        wait.complete(error)
    except Exception:
        # It must not affect the one that has moved the high watermark, nor the other waits.
        logger.exception("an answer or action after replication has failed")
