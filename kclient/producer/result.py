"""The result of one batch, which the futures of all its records share.

A future consists of a result and an index. A batch that was too large for the broker, or had records that the broker
refused, is replaced by others; its result then refers to theirs. Elsewhere: futures (`future`, `rows_future`), and the
way to the broker (`batch`, `attempts`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kclient._misuse import check_callback
from kclient.records import BatchBuilder

Callback = Callable[[Any], None]
"""Called with the future of a record."""


class Piece(NamedTuple):
    """A run of records of a replaced batch: from index `first` on they are in `result`, from `start` on."""

    first: int
    result: BatchResult
    start: int


class Outlet(Protocol):
    """The receiver of final results, with the lock that futures share."""

    @property
    def lock(self) -> Any: ...

    def settled(self, result: BatchResult, callbacks: list[tuple[Any, Callback]]) -> None:
        """Handle a batch that was delivered, failed or replaced (network thread)."""

    def call_back(self, future: Any, callback: Callback) -> None:
        """Run a callback that was added after its batch had a result (any thread)."""

    def check_usable(self) -> None:
        """Raise if the network thread is gone, which settles batches."""


class BatchResult:
    """The result of one batch.

    Parameters:
        builder: what counts its records until it is closed.

    Attributes:
        base_offset, log_append_time: from the broker's response; -1 without them.
        settled: whether the result is final; for a replaced batch before its pieces.
        error: why the batch failed. errors: by index, errors of single records that differ from `error`.
        pieces: where the records of a replaced batch went.
        deliveries: futures and the functions to call with their results, in turn: f1, on_delivery1, f2, on_delivery2.
    """

    __slots__ = (
        "_builder",
        "_callbacks",
        "_count",
        "_seen",
        "_waiters",
        "base_offset",
        "deliveries",
        "error",
        "errors",
        "log_append_time",
        "outlet",
        "partition",
        "pieces",
        "settled",
        "topic",
    )

    def __init__(self, topic: str, partition: int, builder: BatchBuilder, outlet: Outlet) -> None:
        self.topic = topic
        self.partition = partition
        self.outlet = outlet
        self.settled = False
        self.base_offset = -1
        self.log_append_time = -1
        self.error: BaseException | None = None
        self.errors: dict[int, BaseException] = {}
        self.pieces: list[Piece] = []
        self.deliveries: list[Any] = []
        self._builder: BatchBuilder | None = builder
        self._count = 0
        self._waiters: list[Callable[[], None]] = []
        self._callbacks: list[tuple[Any, Callback]] = []
        self._seen: set[int] = set()

    @property
    def count(self) -> int:
        """How many records the batch has."""
        builder = self._builder
        return self._count if builder is None else builder.count

    # -- the end (network thread)

    def deliver(self, base_offset: int, log_append_time: int) -> None:
        """Record that the broker has stored the batch."""
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self._settle()

    def fail(self, error: BaseException, errors: dict[int, BaseException]) -> None:
        """Record why the batch failed; `errors` has those of records that failed for a reason of their own."""
        self.error = error
        self.errors = errors
        self._settle()

    def replace(self, pieces: list[Piece], errors: dict[int, BaseException]) -> None:
        """Record which results the records are in now, except those that failed by themselves."""
        self.pieces = pieces
        self.errors = errors
        self._settle()

    def _settle(self) -> None:
        with self.outlet.lock:
            self._count = self.count
            self._builder = None
            self.settled = True
            waiters, self._waiters = self._waiters, []
            callbacks, self._callbacks = self._callbacks, []
        if self.pieces:
            callbacks = [pair for pair in callbacks if not self._pass_on(*pair)]
            self._pass_on_deliveries()
        elif self.error is not None:
            self._seen.update(future.index for future in self.deliveries[::2])
        for wake in waiters:
            wake()
        self.outlet.settled(self, callbacks)

    def _pass_on(self, future: Any, callback: Callback) -> bool:
        result, index = self.locate(future.index)
        if result is self:
            return False
        with self.outlet.lock:
            if not result.settled:
                result._seen.add(index)
                result._callbacks.append((future, callback))
                return True
        self.outlet.call_back(future, callback)
        return True

    def _pass_on_deliveries(self) -> None:
        own: list[Any] = []
        for future, on_delivery in zip(self.deliveries[::2], self.deliveries[1::2], strict=True):
            result, index = self.locate(future.index)
            result._seen.add(index)
            (own if result is self else result.deliveries).extend((future, on_delivery))
        self.deliveries = own

    # -- what futures ask

    def locate(self, index: int) -> tuple[BatchResult, int]:
        """Return the result, and the index in it, where one of the records is now."""
        result = self
        while result.pieces and result.settled and index not in result.errors:
            piece = result.pieces[bisect_right(result.pieces, index, key=lambda piece: piece.first) - 1]
            result, index = piece.result, piece.start + index - piece.first
        return result, index

    def error_of(self, index: int) -> BaseException | None:
        """Return why a record of this batch failed; None if it was delivered."""
        return self.errors.get(index, self.error)

    def add_waiter(self, wake: Callable[[], None]) -> bool:
        """Call `wake` once the batch has a result; return False, without a call, if it has one."""
        with self.outlet.lock:
            if self.settled:
                return False
            self._waiters.append(wake)
            return True

    def remove_waiter(self, wake: Callable[[], None]) -> None:
        """Remove a waiter."""
        with self.outlet.lock:
            if wake in self._waiters:
                self._waiters.remove(wake)

    def add_callback(self, future: Any, callback: Callback) -> None:
        """Run a callback once the batch has a result, where the producer runs callbacks; immediately if it has one.

        Raises:
            TypeError: the callback cannot be called, or is a coroutine function.
        """
        check_callback("callback", callback)
        result, index = self.locate(future.index)
        with result.outlet.lock:
            result._seen.add(index)
            if not result.settled:
                result._callbacks.append((future, callback))
                return
        if result.pieces and index not in result.errors:
            self.add_callback(future, callback)
        else:
            self.outlet.call_back(future, callback)

    def see(self, index: int) -> None:
        """Mark the result of a record as seen: flush need not report its failure."""
        self._seen.add(index)

    def unseen_failures(self) -> list[BaseException]:
        """Return the errors of failed records whose results nobody has seen."""
        failed = range(self.count) if self.error is not None else self.errors
        errors = (self.error_of(index) for index in failed if index not in self._seen)
        return [error for error in errors if error is not None]


def last_unsettled(results: list[BatchResult]) -> BatchResult | None:
    """Drop final results from the end of the list, following replaced ones; return the last remaining one, or None."""
    while results:
        last = results[-1]
        if not last.settled:
            return last
        results.pop()
        results.extend({piece.result: None for piece in last.pieces})
    return None
