"""How an exactly-once write fails: each says what became of the rows, and what to do.

All are `SourceError`s: Spark shows their text, and nothing else, at the end of a long traceback.
"""

from __future__ import annotations

from collections.abc import Sequence

from kclient.spark.errors import SourceError


class ExactlyOnceError(SourceError, name="EXACTLY_ONCE_FAILED"):
    """A batch could not be written exactly once."""


class TransactionExpiredError(ExactlyOnceError, name="TRANSACTION_EXPIRED"):
    """A task's transaction was gone before the batch was decided: nothing of the batch counts, and nothing is lost.

    Parameters:
        batch: the batch.
        tasks: the tasks, as partition and transactional id.
        reason: what was found.

    Attributes:
        batch, tasks: the same.
    """

    def __init__(self, batch: int, tasks: Sequence[tuple[int, str]], reason: str) -> None:
        super().__init__(
            f"batch {batch} is not committed: the transaction of {_named(tasks)} is not open any more, or will not be "
            f"for long enough ({reason}). Nothing of the batch is visible. Start the query again, which writes the "
            "batch anew. If batches take longer than that timeout, make them smaller, or raise the brokers' "
            "transaction.max.timeout.ms"
        )
        self.batch = batch
        self.tasks = tuple(tasks)


class TransactionLostError(ExactlyOnceError, name="TRANSACTION_LOST"):
    """A batch was decided, and a task's transaction was aborted before it could be committed: its rows are missing.

    Parameters:
        batch: the batch.
        tasks: the tasks, as partition and transactional id.
        reason: what the coordinator says.

    Attributes:
        batch, tasks: the same.
    """

    def __init__(self, batch: int, tasks: Sequence[tuple[int, str]], reason: str) -> None:
        super().__init__(
            f"rows of batch {batch} are missing: it was decided, and then the transaction of {_named(tasks)} was not "
            f"committed within its timeout ({reason}). The other tasks' rows are written. If the query's input gives "
            "the same rows to the same tasks when it is read again, set the option repeatableInput=true and start it "
            "again: these tasks alone are written anew. Otherwise restore their rows by hand, and go on with a new "
            "checkpoint"
        )
        self.batch = batch
        self.tasks = tuple(tasks)


class SupersededError(ExactlyOnceError, name="QUERY_SUPERSEDED"):
    """Another run of the same query has taken over; this one may not write any more."""


class RivalError(ExactlyOnceError, name="BATCH_DECIDED_ELSEWHERE"):
    """Another run decided the batch while this one was writing it; this one's rows are aborted."""


class OldCheckpointError(ExactlyOnceError, name="CHECKPOINT_TOO_OLD"):
    """The checkpoint asks for a batch before the last one that was written, or for that one with other rows."""


class NotRepeatableError(ExactlyOnceError, name="INPUT_NOT_REPEATABLE"):
    """A batch that was to be repeated for some tasks came back with another number of tasks or rows."""


def _named(tasks: Sequence[tuple[int, str]]) -> str:
    shown = ", ".join(f"task {partition} ({transactional_id})" for partition, transactional_id in tasks[:5])
    return shown + (f" and {len(tasks) - 5} more" if len(tasks) > 5 else "")
