"""Errors of exactly-once writes: each says what happened to the rows, and what to do.

All are `SourceError`s, because Spark shows only their text, after a long traceback.
"""

from __future__ import annotations

from collections.abc import Sequence

from kclient.spark.errors import SourceError


class ExactlyOnceError(SourceError, name="EXACTLY_ONCE_FAILED"):
    """A batch could not be written exactly once."""


class TransactionExpiredError(ExactlyOnceError, name="TRANSACTION_EXPIRED"):
    """A task's transaction was gone before the batch was decided: the batch is not valid, and nothing is lost.

    Parameters:
        batch: the batch.
        tasks: the tasks, as partition and transactional id.
        reason: the reason.

    Attributes:
        batch, tasks: the same.
    """

    def __init__(self, batch: int, tasks: Sequence[tuple[int, str]], reason: str) -> None:
        super().__init__(
            f"batch {batch} is not committed: the transaction of {_named(tasks)} is no longer open, or not for long "
            f"enough ({reason}); nothing of the batch is visible. Start the query again, which writes the batch again, "
            "and if batches take longer than that timeout, make them smaller or raise the brokers' "
            "transaction.max.timeout.ms"
        )
        self.batch = batch
        self.tasks = tuple(tasks)


class TransactionLostError(ExactlyOnceError, name="TRANSACTION_LOST"):
    """A task's transaction was aborted after the batch was decided: its rows are missing.

    Parameters:
        batch: the batch.
        tasks: the tasks, as partition and transactional id.
        reason: the reason, as the coordinator reports it.

    Attributes:
        batch, tasks: the same.
    """

    def __init__(self, batch: int, tasks: Sequence[tuple[int, str]], reason: str) -> None:
        super().__init__(
            f"rows of batch {batch} are missing: it was decided, but the transaction of {_named(tasks)} was not "
            f"committed within its timeout ({reason}); the rows of the other tasks are written. If the query's input "
            "gives the same rows to the same tasks when it is read again, start the query with repeatableInput=true, "
            "which writes only the rows of these tasks again; otherwise restore their rows by hand, and continue with "
            "a new checkpoint"
        )
        self.batch = batch
        self.tasks = tuple(tasks)


class SupersededError(ExactlyOnceError, name="QUERY_SUPERSEDED"):
    """Another run of the same query has taken over; this one must not write."""


class RivalError(ExactlyOnceError, name="BATCH_DECIDED_ELSEWHERE"):
    """Another run decided the batch while this one was writing it; the rows of this one are aborted."""


class OldCheckpointError(ExactlyOnceError, name="CHECKPOINT_TOO_OLD"):
    """The checkpoint repeats a batch before the last one that was written, or the last one with other rows."""


class NotRepeatableError(ExactlyOnceError, name="INPUT_NOT_REPEATABLE"):
    """A batch that is repeated for some tasks has another number of tasks or rows."""


def _named(tasks: Sequence[tuple[int, str]]) -> str:
    shown = ", ".join(f"task {partition} ({transactional_id})" for partition, transactional_id in tasks[:5])
    return shown + (f" and {len(tasks) - 5} more" if len(tasks) > 5 else "")
