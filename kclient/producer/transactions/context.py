"""`with producer.transaction():` and its async twin: commit at the end, or abort and raise what was raised.

The exception of the body is the one that is raised; a failure of the abort becomes a note on it. After a fatal error,
or if the body has ended the transaction itself, there is nothing to abort. Ctrl-C, cancellation and exits wait
`EXIT_SECONDS` for the abort at most; the broker aborts by itself after transaction_timeout_ms.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

import anyio

from kclient.errors import KafkaError
from kclient.producer.transactions.states import TransactionState

EXIT_SECONDS = 5.0
"""Seconds that an abort may take after Ctrl-C, a cancellation or an exit."""

_OPEN = (TransactionState.IN_TRANSACTION, TransactionState.PREPARING, TransactionState.ABORTABLE_ERROR)


class Calls(Protocol):
    """The blocking producer."""

    def begin_transaction(self) -> None: ...
    def commit_transaction(self, timeout: float | None = None) -> None: ...
    def abort_transaction(self, timeout: float | None = None) -> None: ...


class AsyncCalls(Protocol):
    """The async producer."""

    async def begin_transaction(self) -> None: ...
    async def commit_transaction(self, timeout: float | None = None) -> None: ...
    async def abort_transaction(self, timeout: float | None = None) -> None: ...


class Transaction:
    """One transaction of a blocking producer.

    Parameters:
        producer: the producer.
        state: returns the producer's state.
        timeout: seconds for the commit, and for the abort; None is max_block_ms.
    """

    def __init__(self, producer: Calls, state: Callable[[], TransactionState], timeout: float | None) -> None:
        self._producer = producer
        self._state = state
        self._timeout = timeout

    def __enter__(self) -> Self:
        self._producer.begin_transaction()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self._producer.commit_transaction(self._timeout)
            except BaseException as failed:
                self._abort(failed)
                raise
        else:
            self._abort(error)

    def _abort(self, error: BaseException) -> None:
        if self._state() not in _OPEN:
            return
        try:
            self._producer.abort_transaction(self._timeout if isinstance(error, Exception) else EXIT_SECONDS)
        except KafkaError as failed:
            error.add_note(f"while it was raised, the transaction could not be aborted: {failed}")


class AsyncTransaction:
    """One transaction of an async producer; parameters as for `Transaction`."""

    def __init__(self, producer: AsyncCalls, state: Callable[[], TransactionState], timeout: float | None) -> None:
        self._producer = producer
        self._state = state
        self._timeout = timeout

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            try:
                await self._producer.commit_transaction(self._timeout)
            except BaseException as failed:
                await self._abort(failed)
                raise
        else:
            await self._abort(error)

    async def _abort(self, error: BaseException) -> None:
        if self._state() not in _OPEN:
            return
        is_error = isinstance(error, Exception)
        try:
            # A cancelled task could not await anything else.
            with anyio.CancelScope(shield=not is_error):
                await self._producer.abort_transaction(self._timeout if is_error else EXIT_SECONDS)
        except KafkaError as failed:
            error.add_note(f"while it was raised, the transaction could not be aborted: {failed}")
