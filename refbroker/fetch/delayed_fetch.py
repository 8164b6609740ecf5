"""Delayed fetches: Fetch requests that wait for enough bytes, for their time limit, or for a change of a log.

A reader of committed records sees the records of a transaction only when it has ended, and then all of them at once.
For such a reader the missing bytes are measured again whenever a last stable offset moves, instead of being counted at
each append.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from kclient.errors import KafkaError
from refbroker.log import PartitionLog

T = TypeVar("T")


class DelayedFetch(Generic[T]):
    """A Fetch request that waits.

    Parameters:
        loop: the event loop.
        logs: the logs that the request reads.
        missing: the number of bytes to wait for.
        max_wait_ms: the longest wait, in milliseconds.
        answer: builds the response from the logs when the wait ends.
        measure: returns how many bytes are missing now; given for readers of committed records only.

    Attributes:
        future: the future of the response; cancelling it ends the wait.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        logs: Iterable[PartitionLog],
        missing: int,
        max_wait_ms: int,
        answer: Callable[[], T],
        measure: Callable[[], int] | None = None,
    ) -> None:
        self.future: asyncio.Future[T] = loop.create_future()
        self._loop = loop
        self._answer = answer
        self._missing = missing
        self._measure = measure
        self._stable = {log: log.last_stable_offset for log in logs} if measure is not None else {}
        # A log shrinks only when a segment is deleted, which must not count as negative progress.
        self._sizes = {log: log.size_in_bytes() for log in logs}
        self._due = False
        for log in self._sizes:
            log.on_append.append(self._appended)
        self._timer = loop.call_later(max_wait_ms / 1000, self._complete)
        self.future.add_done_callback(self._forget)

    def _appended(self, log: PartitionLog) -> None:
        if self._due:
            return
        if self._measure is None:
            size = log.size_in_bytes()
            self._missing -= max(size - self._sizes[log], 0)
            self._sizes[log] = size
        elif log.last_stable_offset != self._stable[log]:
            self._stable[log] = log.last_stable_offset
            self._missing = self._measure()
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
            log.on_append.remove(self._appended)


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
        answer: Callable[[], T],
        measure: Callable[[], int] | None = None,
    ) -> asyncio.Future[T]:
        """Return the future of a new `DelayedFetch`, which has the same parameters."""
        fetch = DelayedFetch(self._loop, logs, missing, max_wait_ms, answer, measure)
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
