"""Fetch requests that wait: until enough bytes are there, their time is over, or a log they read is deleted.

To readers of committed records what is appended is not there before its transaction has ended, and then all of it is at
once: their missing bytes are measured anew when a last stable offset moves, not counted as they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from kclient.errors import KafkaError
from refbroker.log import PartitionLog

T = TypeVar("T")


class DelayedFetch(Generic[T]):
    """One request that waits.

    Parameters:
        loop: the event loop.
        logs: what it reads.
        missing: how many bytes it waits for.
        max_wait_ms: how long at most, in milliseconds.
        answer: makes the answer from what is there then.
        measure: of a reader of committed records: how many bytes are missing now.

    Attributes:
        future: of the answer; cancelling it ends the wait.
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
        # Sizes only grow while a log is waited for, except when a segment goes, which must not count.
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
        """Whether it waits for a log."""
        return log in self._sizes

    def wake(self) -> None:
        """Answer soon; not at once, since who appends has an answer of its own to send first."""
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
            # An error that nobody has foreseen must not leave the client waiting.
            self.future.cancel()

    def _forget(self, future: asyncio.Future[T]) -> None:
        self._timer.cancel()
        for log in self._sizes:
            log.on_append.remove(self._appended)


class DelayedFetches:
    """All fetch requests that wait.

    Parameters:
        loop: the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # In the order of their arrival: a set's would differ from run to run.
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
        """Wait; parameters as for `DelayedFetch`."""
        fetch = DelayedFetch(self._loop, logs, missing, max_wait_ms, answer, measure)
        self._waiting[fetch] = None
        fetch.future.add_done_callback(lambda _: self._waiting.pop(fetch, None))
        return fetch.future

    def wake(self, log: PartitionLog) -> None:
        """Answer the requests that wait for a log: it is gone, or has a new leader."""
        for fetch in self._waiting:
            if fetch.reads(log):
                fetch.wake()

    def close(self) -> None:
        """Give up waiting, without answers."""
        for fetch in list(self._waiting):
            fetch.future.cancel()
