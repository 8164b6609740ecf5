"""Delayed fetches: Fetch requests that wait for enough bytes, for their time limit, or for a change of a log.

Replicas read up to the log end, so an append wakes them. Consumers read up to the high watermark, and wake when it has
moved. The missing bytes are counted by the size of the log as long as everything in it can be read; they are measured
again while the high watermark is below the log end. A reader of committed records sees the records of a transaction
only when it has ended, and then all of them at once: the bytes are measured again whenever a last stable offset moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from kclient.errors import KafkaError
from refbroker.log import Isolation, PartitionLog

T = TypeVar("T")


class DelayedFetch(Generic[T]):
    """A Fetch request that waits.

    Parameters:
        loop: the event loop.
        logs: the logs that the request reads.
        missing: the number of bytes to wait for.
        max_wait_ms: the longest wait, in milliseconds.
        isolation: up to where the request reads.
        answer: builds the response from the logs when the wait ends.
        measure: returns how many bytes are missing now.

    Attributes:
        future: the future of the response; cancelling it ends the wait.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        logs: Iterable[PartitionLog],
        missing: int,
        max_wait_ms: int,
        isolation: Isolation,
        answer: Callable[[], T],
        measure: Callable[[], int],
    ) -> None:
        self.future: asyncio.Future[T] = loop.create_future()
        self._loop = loop
        self._isolation = isolation
        self._answer = answer
        self._missing = missing
        self._measure = measure
        committed = isolation is Isolation.READ_COMMITTED
        self._stable = {log: log.last_stable_offset for log in logs} if committed else {}
        self._sizes = {log: self._readable_size(log) for log in logs}
        self._due = False
        for log in self._sizes:
            self._listeners(log).append(self._moved)
        self._timer = loop.call_later(max_wait_ms / 1000, self._complete)
        self.future.add_done_callback(self._forget)

    def _listeners(self, log: PartitionLog) -> list[Callable[[PartitionLog], None]]:
        return log.on_append if self._isolation is Isolation.LOG_END else log.on_high_watermark

    def _readable_size(self, log: PartitionLog) -> int | None:
        """Return the size of a log in bytes if the request may read all of it, else None."""
        if self._isolation is Isolation.LOG_END or log.high_watermark == log.log_end_offset:
            return log.size_in_bytes()
        return None

    def _moved(self, log: PartitionLog) -> None:
        """Count what may be read after an append, or after the high watermark has moved."""
        if self._due:
            return
        if self._stable:
            if log.last_stable_offset != self._stable[log]:
                self._stable[log] = log.last_stable_offset
                self._missing = self._measure()
        else:
            size, before = self._readable_size(log), self._sizes[log]
            if size is None or before is None:
                self._missing = self._measure()
                self._sizes = {each: self._readable_size(each) for each in self._sizes}
            else:
                # A log shrinks only when a segment is deleted, which must not count as negative progress.
                self._missing -= max(size - before, 0)
                self._sizes[log] = size
        if self._missing <= 0:
            self.wake()

    def reads(self, log: PartitionLog) -> bool:
        """Return whether the request waits for a log."""
        return log in self._sizes

    def wake(self) -> None:
        """Respond in the next turn of the event loop, after the response to the request that appended."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._complete)

    def _complete(self) -> None:
        if self.future.done():
            return
        try:
            self.future.set_result(self._answer())
        except KafkaError as error:
            self.future.set_exception(error)
        finally:
            # An unexpected error must not leave the client waiting.
            self.future.cancel()

    def _forget(self, future: asyncio.Future[T]) -> None:
        self._timer.cancel()
        for log in self._sizes:
            self._listeners(log).remove(self._moved)


class DelayedFetches:
    """All Fetch requests that wait.

    Parameters:
        loop: the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # A dict keeps the order of arrival; the order of a set would differ from run to run.
        self._waiting: dict[DelayedFetch[Any], None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(
        self,
        logs: Iterable[PartitionLog],
        missing: int,
        max_wait_ms: int,
        isolation: Isolation,
        answer: Callable[[], T],
        measure: Callable[[], int],
    ) -> asyncio.Future[T]:
        """Return the future of a new `DelayedFetch`, which has the same parameters."""
        fetch = DelayedFetch(self._loop, logs, missing, max_wait_ms, isolation, answer, measure)
        self._waiting[fetch] = None
        fetch.future.add_done_callback(lambda _: self._waiting.pop(fetch, None))
        return fetch.future

    def wake(self, log: PartitionLog) -> None:
        """Complete the requests that wait for a log, which was deleted or has a new leader."""
        for fetch in self._waiting:
            if fetch.reads(log):
                fetch.wake()

    def close(self) -> None:
        """Cancel all waiting requests without responses."""
        for fetch in list(self._waiting):
            fetch.future.cancel()
