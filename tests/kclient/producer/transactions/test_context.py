"""`with producer.transaction()`: what it does at its end, by what was raised, where, and in which state."""

from __future__ import annotations

import pytest

from kclient.errors import KafkaError, KafkaTimeoutError, ProducerFencedError, TransactionAbortableError
from kclient.producer.transactions.context import EXIT_SECONDS, AsyncTransaction, Transaction
from kclient.producer.transactions.states import TransactionState

S = TransactionState


class Calls:
    """A producer's transactional calls, which fail as told."""

    def __init__(self, commit_error: BaseException | None = None, state: TransactionState = S.IN_TRANSACTION) -> None:
        self.made: list[tuple[str, float | None]] = []
        self.abort_error: KafkaError | None = None
        self.commit_error = commit_error
        self.state = state

    def begin_transaction(self) -> None:
        self.made.append(("begin", None))

    def commit_transaction(self, timeout: float | None = None) -> None:
        self.made.append(("commit", timeout))
        if self.commit_error is not None:
            raise self.commit_error

    def abort_transaction(self, timeout: float | None = None) -> None:
        self.made.append(("abort", timeout))
        if self.abort_error is not None:
            raise self.abort_error


class AsyncCalls:
    """The same, awaited."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    async def begin_transaction(self) -> None:
        self.calls.begin_transaction()

    async def commit_transaction(self, timeout: float | None = None) -> None:
        self.calls.commit_transaction(timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        self.calls.abort_transaction(timeout)


async def run(calls: Calls, face: str, raised: BaseException | None = None) -> BaseException | None:
    """Run a transaction whose body raises this, or nothing; returns what came out."""
    try:
        if face == "blocking":
            with Transaction(calls, lambda: calls.state, 7.0):
                if raised is not None:
                    raise raised
        else:
            async with AsyncTransaction(AsyncCalls(calls), lambda: calls.state, 7.0):
                if raised is not None:
                    raise raised
    except BaseException as error:  # noqa: BLE001 - the test looks at it
        return error
    return None


pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("face", ["blocking", "async"])]


async def test_a_body_that_ends_well_is_committed(face: str) -> None:
    calls = Calls()
    assert await run(calls, face) is None
    assert calls.made == [("begin", None), ("commit", 7.0)]


@pytest.mark.parametrize(
    ("raised", "timeout"),
    [(ZeroDivisionError(), 7.0), (KeyboardInterrupt(), EXIT_SECONDS), (SystemExit(), EXIT_SECONDS)],
)
async def test_a_body_that_raises_is_aborted_and_exits_do_not_wait_for_long(
    face: str, raised: BaseException, timeout: float
) -> None:
    calls = Calls()
    assert await run(calls, face, raised) is raised
    assert calls.made == [("begin", None), ("abort", timeout)]


@pytest.mark.parametrize(
    ("error", "state", "aborts"),
    [
        (TransactionAbortableError(), S.ABORTABLE_ERROR, True),
        (ProducerFencedError(), S.FATAL_ERROR, False),
        (KafkaTimeoutError("late"), S.COMMITTING, False),
        (KeyboardInterrupt(), S.COMMITTING, False),
        (KeyboardInterrupt(), S.IN_TRANSACTION, True),
        (KeyboardInterrupt(), S.ABORTABLE_ERROR, True),
    ],
)
async def test_a_commit_that_raises_is_aborted_where_that_is_possible(
    face: str, error: BaseException, state: TransactionState, aborts: bool
) -> None:
    calls = Calls(error, state)
    assert await run(calls, face) is error
    timeout = 7.0 if isinstance(error, Exception) else EXIT_SECONDS
    assert calls.made == [("begin", None), ("commit", 7.0), *([("abort", timeout)] if aborts else [])]


async def test_an_abort_that_fails_is_a_note_on_what_was_raised(face: str) -> None:
    calls = Calls()
    calls.abort_error = KafkaTimeoutError("no coordinator")
    raised = ZeroDivisionError()
    assert await run(calls, face, raised) is raised
    assert "no coordinator" in raised.__notes__[0]


@pytest.mark.parametrize("state", [S.READY, S.PREPARED, S.COMMITTING, S.ABORTING, S.FATAL_ERROR])
async def test_what_the_body_has_ended_itself_is_not_aborted(face: str, state: TransactionState) -> None:
    calls = Calls(state=state)
    await run(calls, face, ZeroDivisionError())
    assert calls.made == [("begin", None)]
