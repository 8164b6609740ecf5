"""The future of many rows, which costs four bytes per row.

Rows that follow each other in one batch, with nothing in between, are a run, and only the number of its run is kept for
a row; its index is counted only when needed, for a failed row.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Generator
from typing import Any

from kclient.errors import RowsDeliveryError
from kclient.net.runtime import current
from kclient.producer.future import settle, settle_async
from kclient.producer.result import BatchResult, last_unsettled

_tickets = itertools.count(1)


class Placement:
    """The batches of the rows of one `send_arrow`.

    Parameters:
        length: the number of rows.

    Attributes:
        ticket: a unique number, by which a queue recognizes that its last row came from the same call.
        runs: for each row the number of its run, -1 as long as it was not appended.
        results, firsts: for each run the result of its batch, and the index of its first row there.
    """

    __slots__ = ("_next", "firsts", "results", "runs", "ticket")

    def __init__(self, length: int) -> None:
        self.ticket = next(_tickets)
        self.runs = array("i", [-1]) * length
        self.results: list[BatchResult] = []
        self.firsts: list[int] = []
        self._next: dict[BatchResult, tuple[int, int]] = {}

    def add(self, row: int, result: BatchResult, index: int) -> None:
        """Record an appended row."""
        run, expected = self._next.get(result, (-1, -1))
        if expected != index:
            run = len(self.results)
            self.results.append(result)
            self.firsts.append(index)
        self._next[result] = run, index + 1
        self.runs[row] = run


class RowsFuture:
    """The result of one `send_arrow`: it resolves when the batches of all its rows do.

    Await it, or call `result`. Reading it marks failures as seen; `flush` and `close` raise those that nobody has seen.
    `len()` is the number of rows.
    """

    __slots__ = ("_placement", "_unsettled")

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._unsettled: list[BatchResult] | None = None

    def __len__(self) -> int:
        return len(self._placement.runs)

    def done(self) -> bool:
        """Return whether every row was delivered or failed."""
        return self._last_unsettled() is None

    def result(self, timeout: float | None = None) -> None:
        """Wait until every row is delivered.

        Parameters:
            timeout: seconds to wait at most; None waits until all are delivered or failed, which is by
                delivery_timeout_ms.

        Raises:
            RowsDeliveryError: rows were not delivered: which, and why.
            TimeoutError: not all rows are delivered or failed yet; the producer continues to deliver them.
        """
        _raise(self.failures(timeout), len(self))

    def failures(self, timeout: float | None = None) -> dict[int, BaseException]:
        """Return the errors of undelivered rows, by their position in the data; wait like `result`.

        Raises:
            TimeoutError: not all rows are delivered or failed yet; the producer continues to deliver them.
        """
        deadline = None if timeout is None else current().monotonic() + timeout
        while (pending := self._last_unsettled()) is not None:
            if not settle(pending, deadline):
                raise TimeoutError(
                    f"not all of {len(self)} rows are delivered after {timeout:g} s, as in "
                    f"{pending.topic}-{pending.partition}; delivery continues"
                )
        return self._failures()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        while (pending := self._last_unsettled()) is not None:
            await settle_async(pending)
        _raise(self._failures(), len(self))

    def _last_unsettled(self) -> BatchResult | None:
        if self._unsettled is None:
            # The results that become final last are at the end: later ones are final when they are.
            self._unsettled = list(dict.fromkeys(self._placement.results))
        return last_unsettled(self._unsettled)

    def _failures(self) -> dict[int, BaseException]:
        placement = self._placement
        failed: dict[int, int] = {
            run: placement.firsts[run]
            for run, result in enumerate(placement.results)
            if result.error is not None or result.errors or result.pieces
        }
        failures: dict[int, BaseException] = {}
        if not failed:
            return failures
        for row, run in enumerate(placement.runs):
            if run not in failed:
                continue
            result, index = placement.results[run].locate(failed[run])
            failed[run] += 1
            error = result.error_of(index)
            if error is not None:
                result.see(index)
                failures[row] = error
        return failures

    def __repr__(self) -> str:
        state = "settled" if self.done() else "pending"
        return f"<RowsFuture of {len(self)} rows, {state}>"


def _raise(failures: dict[int, BaseException], rows: int) -> None:
    if failures:
        raise RowsDeliveryError(failures, rows)
