"""What `send` returns: the future of one record, and how it is waited for.

A future is a batch and an index. The functions here hold the logic for both twins of the class:
the one below and the compiled one in `_hot`, which is cheaper to make.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable, Generator
from typing import Any

from kclient.errors import KafkaTimeoutError
from kclient.net.waiting import LoopSignal
from kclient.producer.batch import ProducerBatch
from kclient.types import RecordMetadata

_LONGEST_WAIT = 1.0
"""Waiting calls look this often (seconds) whether the network thread is still there."""


class RecordFuture:
    """The result of one `send`: it resolves when the record's batch does.

    Await it, or call `result`. Looking at it (also through a callback) counts as having seen a
    failure; failures that nobody saw are raised by `flush` and `close`.

    Attributes:
        timestamp: the record's own, in milliseconds since the epoch.
    """

    __slots__ = ("batch", "index", "key_size", "timestamp", "value_size")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int, key_size: int, value_size: int) -> None:
        self.batch = batch
        self.index = index
        self.timestamp = timestamp
        self.key_size = key_size
        self.value_size = value_size

    @property
    def topic(self) -> str:
        """The topic the record goes to."""
        return self.batch.topic

    @property
    def partition(self) -> int:
        """The partition the record goes to."""
        return self.batch.partition

    def done(self) -> bool:
        """Whether the record was delivered or failed."""
        return done(self)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record ended up; waits for its delivery.

        Parameters:
            timeout: seconds to wait at most; None waits until the record is delivered or fails, which it
                does by delivery_timeout_ms.

        Raises:
            KafkaTimeoutError: it was not delivered in this time; it still may be.
            KafkaError: why it was not delivered.
        """
        return result(self, timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why the record failed, or None if it was delivered; waits like `result`."""
        return exception(self, timeout)

    def add_done_callback(self, callback: Callable[[RecordFuture], None]) -> None:
        """Call `callback(future)` once the result is there, in the producer's callback thread or event loop."""
        self.batch.add_callback(self, callback)

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return await_result(self).__await__()

    def __repr__(self) -> str:
        return describe(self)


def done(future: RecordFuture) -> bool:
    """See RecordFuture.done."""
    return future.batch.locate(future.index)[0].settled


def result(future: RecordFuture, timeout: float | None) -> RecordMetadata:
    """See RecordFuture.result."""
    batch, index = wait(future, timeout)
    return metadata(future, batch, index)


def exception(future: RecordFuture, timeout: float | None) -> BaseException | None:
    """See RecordFuture.exception."""
    batch, index = wait(future, timeout)
    return batch.error_of(index)


def wait(future: RecordFuture, timeout: float | None) -> tuple[ProducerBatch, int]:
    """Wait until the record's batch settled; returns it and the record's index in it."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        batch, index = future.batch.locate(future.index)
        if batch.settled:
            if batch.error_of(index) is not None:
                batch.see(index)
            return batch, index
        batch.see(index)
        if not settle(batch, deadline):
            raise _too_late(future, timeout)


def settle(batch: ProducerBatch, deadline: float | None) -> bool:
    """Wait until a batch is settled; False if the time (of `time.monotonic`) came first."""
    lock = _thread.allocate_lock()
    lock.acquire()
    if not batch.add_waiter(lock.release):
        return True
    try:
        while not lock.acquire(timeout=_slice(deadline)):
            batch.outlet.check_usable()
            if deadline is not None and time.monotonic() >= deadline:
                return False
    finally:
        batch.remove_waiter(lock.release)
    return True


async def await_result(future: RecordFuture) -> RecordMetadata:
    """Wait in asyncio or trio; like `result` without a timeout."""
    while True:
        batch, index = future.batch.locate(future.index)
        batch.see(index)
        if batch.settled:
            return metadata(future, batch, index)
        await settle_async(batch)


async def settle_async(batch: ProducerBatch) -> None:
    """Wait in asyncio or trio until a batch is settled."""
    signal = LoopSignal()
    if batch.add_waiter(signal.notify):
        try:
            while not await signal.wait(_LONGEST_WAIT):
                batch.outlet.check_usable()
        finally:
            batch.remove_waiter(signal.notify)


def metadata(future: RecordFuture, batch: ProducerBatch, index: int) -> RecordMetadata:
    """What a record's settled batch says of it; raises its error."""
    error = batch.error_of(index)
    if error is not None:
        # Many records share one error: without this its traceback would grow with each of them.
        raise error.with_traceback(None)
    return RecordMetadata(
        batch.topic,
        batch.partition,
        batch.base_offset + index if batch.base_offset >= 0 else -1,
        batch.log_append_time if batch.log_append_time >= 0 else future.timestamp,
        future.key_size,
        future.value_size,
    )


def outcome_of(future: RecordFuture) -> tuple[RecordMetadata | None, BaseException | None]:
    """The RecordMetadata and None, or None and the error, of a record that is settled."""
    batch, index = future.batch.locate(future.index)
    error = batch.error_of(index)
    return (None, error) if error is not None else (metadata(future, batch, index), None)


def describe(future: RecordFuture) -> str:
    """What a future looks like in a debugger."""
    batch, index = future.batch.locate(future.index)
    error = batch.error_of(index) if batch.settled else None
    what = "pending" if not batch.settled else "delivered" if error is None else f"failed: {error}"
    return f"<RecordFuture {batch.topic}-{batch.partition} {what}>"


def _slice(deadline: float | None) -> float:
    if deadline is None:
        return _LONGEST_WAIT
    return max(0.0, min(_LONGEST_WAIT, deadline - time.monotonic()))


def _too_late(future: RecordFuture, timeout: float | None) -> KafkaTimeoutError:
    return KafkaTimeoutError(
        f"the record was not delivered within {timeout:g} s; it may still be",
        topic=future.topic,
        partition=future.partition,
    )
