"""The future of one record, and the ways to wait for it.

A future consists of a batch's result and an index. The functions here have the logic for both twins of the class: the
one below and the compiled one in `_hot`, which is cheaper to create.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from kclient.net.runtime import Runtime, current
from kclient.net.waiting import LoopSignal
from kclient.producer.result import BatchResult
from kclient.types import RecordMetadata

_LONGEST_WAIT = 1.0
"""Seconds between two checks of waiting calls that the network thread still runs."""


class RecordFuture:
    """The result of one `send`; it resolves when the record's batch is delivered or fails.

    Await it, or call `result`. Reading the result, also in a callback, marks a failure as seen; `flush` and `close`
    raise the failures that nobody has seen.

    Attributes:
        timestamp: the timestamp of the record, in milliseconds since the epoch.
    """

    __slots__ = ("_result", "index", "key_size", "timestamp", "value_size")

    def __init__(self, result: BatchResult, index: int, timestamp: int, key_size: int, value_size: int) -> None:
        self._result = result
        self.index = index
        self.timestamp = timestamp
        self.key_size = key_size
        self.value_size = value_size

    @property
    def topic(self) -> str:
        """The topic of the record."""
        return self._result.topic

    @property
    def partition(self) -> int:
        """The partition of the record."""
        return self._result.partition

    def done(self) -> bool:
        """Return whether the record was delivered or failed."""
        return done(self)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record was written; wait for its delivery.

        Parameters:
            timeout: seconds to wait at most; None waits until the record is delivered or fails, which it
                does by delivery_timeout_ms.

        Raises:
            TimeoutError: the record is neither delivered nor failed yet; the producer continues to deliver it.
            DeliveryUnknownError: the producer gave the record up, and a broker may have written it.
            RecordNotDeliveredError: the producer gave the record up, and no broker can have written it.
            KafkaError: the error with which the broker refused the record.
        """
        return result(self, timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why the record failed, or None if it was delivered; wait like `result`."""
        return exception(self, timeout)

    def add_done_callback(self, callback: Callable[[RecordFuture], None]) -> None:
        """Call `callback(future)` once the record is delivered or failed.

        The callback runs in the producer's callback thread, or in the event loop of an async producer.

        Raises:
            TypeError: the callback cannot be called, or is a coroutine function, which nothing would await.
        """
        self._result.add_callback(self, callback)

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return await_result(self).__await__()

    def __repr__(self) -> str:
        return describe(self)


def done(future: RecordFuture) -> bool:
    """See RecordFuture.done."""
    return future._result.locate(future.index)[0].settled


def result(future: RecordFuture, timeout: float | None) -> RecordMetadata:
    """See RecordFuture.result."""
    found, index = wait(future, timeout)
    return metadata(future, found, index)


def exception(future: RecordFuture, timeout: float | None) -> BaseException | None:
    """See RecordFuture.exception."""
    found, index = wait(future, timeout)
    return found.error_of(index)


def wait(future: RecordFuture, timeout: float | None) -> tuple[BatchResult, int]:
    """Wait until the record's batch has a result; return it and the record's index in it."""
    deadline = None if timeout is None else current().monotonic() + timeout
    while True:
        found, index = future._result.locate(future.index)
        if found.settled:
            if found.error_of(index) is not None:
                found.see(index)
            return found, index
        found.see(index)
        if not settle(found, deadline):
            raise _too_late(future, timeout)


def settle(found: BatchResult, deadline: float | None) -> bool:
    """Wait until a batch has a result; return False if the deadline (runtime's clock) passed first."""
    runtime = current()
    signal = runtime.signal()
    if not found.add_waiter(signal.notify):
        return True
    try:
        while not signal.wait(_slice(deadline, runtime)):
            found.outlet.check_usable()
            if deadline is not None and runtime.monotonic() >= deadline:
                return False
    finally:
        found.remove_waiter(signal.notify)
    return True


async def await_result(future: RecordFuture) -> RecordMetadata:
    """Wait in asyncio or trio; like `result` without a timeout."""
    while True:
        found, index = future._result.locate(future.index)
        found.see(index)
        if found.settled:
            return metadata(future, found, index)
        await settle_async(found)


async def settle_async(found: BatchResult) -> None:
    """Wait in asyncio or trio until a batch has a result."""
    signal = LoopSignal()
    if found.add_waiter(signal.notify):
        try:
            while not await signal.wait(_LONGEST_WAIT):
                found.outlet.check_usable()
        finally:
            found.remove_waiter(signal.notify)


def metadata(future: RecordFuture, found: BatchResult, index: int) -> RecordMetadata:
    """Return the metadata of a record whose batch has a result; raise its error."""
    error = found.error_of(index)
    if error is not None:
        # Many records share one error: its traceback would grow with each of them.
        raise error.with_traceback(None)
    return RecordMetadata(
        found.topic,
        found.partition,
        found.base_offset + index if found.base_offset >= 0 else -1,
        found.log_append_time if found.log_append_time >= 0 else future.timestamp,
        future.key_size,
        future.value_size,
    )


def outcome_of(future: RecordFuture) -> tuple[RecordMetadata | None, BaseException | None]:
    """Return the RecordMetadata and None, or None and the error, of a record with a result."""
    found, index = future._result.locate(future.index)
    error = found.error_of(index)
    return (None, error) if error is not None else (metadata(future, found, index), None)


def describe(future: RecordFuture) -> str:
    """Return the repr of a future."""
    found, index = future._result.locate(future.index)
    error = found.error_of(index) if found.settled else None
    what = "pending" if not found.settled else "delivered" if error is None else f"failed: {error}"
    return f"<RecordFuture {found.topic}-{found.partition} {what}>"


def _slice(deadline: float | None, runtime: Runtime) -> float:
    if deadline is None:
        return _LONGEST_WAIT
    return max(0.0, min(_LONGEST_WAIT, deadline - runtime.monotonic()))


def _too_late(future: RecordFuture, timeout: float | None) -> TimeoutError:
    return TimeoutError(
        f"the record for {future.topic}-{future.partition} is not delivered after {timeout:g} s; delivery continues"
    )
