"""Iterators over a consumer: they survive an exception, and know the last record that they returned.

The pure twin of `_iterator`; `implementation` chooses between them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from kclient.records import ConsumerRecord


class RecordIterator:
    """The records of one chunk after the other; after an exception of `refill` the next call continues.

    Parameters:
        refill: waits for the next chunk and returns an iterator over it.
        leave: called first when iteration was interrupted within a chunk.

    Attributes:
        last: the last returned record of the current chunk, None before the first.
        interrupted: set, from any thread, to make the next call leave the chunk and enter `refill`.
    """

    def __init__(self, refill: Callable[[], Iterator[ConsumerRecord]], leave: Callable[[], None]) -> None:
        self._refill = refill
        self._leave = leave
        self.interrupted = False
        self._active: Iterator[ConsumerRecord] | None = None
        self.last: ConsumerRecord | None = None

    def __iter__(self) -> RecordIterator:
        return self

    def __next__(self) -> ConsumerRecord:
        while True:
            if self.interrupted:
                self.interrupted = False
                self._leave()
            if self._active is not None:
                record = next(self._active, None)
                if record is not None:
                    self.last = record
                    return record
                self._active = None
            records = self._refill()
            self.last = None
            self._active = records

    def drop(self) -> None:
        """Drop the rest of the current chunk."""
        self._active = None
        self.last = None


class AsyncRecordIterator:
    """The same for `async for`.

    Parameters:
        refill: a coroutine function that waits for the next chunk and returns an iterator over it.
        leave: called first when iteration was interrupted within a chunk.
    """

    def __init__(self, refill: Callable[[], Awaitable[Iterator[ConsumerRecord]]], leave: Callable[[], None]) -> None:
        self._refill = refill
        self._leave = leave
        self.interrupted = False
        self._active: Iterator[ConsumerRecord] | None = None
        self.last: ConsumerRecord | None = None

    def __aiter__(self) -> AsyncRecordIterator:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while True:
            if self.interrupted:
                self.interrupted = False
                self._leave()
            if self._active is not None:
                record = next(self._active, None)
                if record is not None:
                    self.last = record
                    return record
                self._active = None
            records = await self._refill()
            self.last = None
            self._active = records

    def drop(self) -> None:
        """Drop the rest of the current chunk."""
        self._active = None
        self.last = None
