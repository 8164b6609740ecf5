"""`delivery=exactly_once`: passes the rows of tasks, and Spark's commit and abort of a batch, to this package.

The context of a task has the id of the query and the number of the batch, which survive a restart through the
checkpoint, and the id of the run, which does not: local properties that Spark sets for the jobs of a stream. Commit and
abort run without a context and use the results of the tasks. A batch write is a query of one batch, whose id is the
option `writeId`, or random.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self

import msgspec

from kclient.errors import KafkaError
from kclient.spark.client_options import ClientOptions
from kclient.spark.errors import OptionError, source_errors
from kclient.spark.exactly_once.driver import abort, commit
from kclient.spark.exactly_once.errors import ExactlyOnceError
from kclient.spark.exactly_once.settings import PREFIX, Settings, TaskAttempt, TaskResult
from kclient.spark.exactly_once.task import write_task
from kclient.spark.options import WriteOptions
from kclient.spark.producers import DEFAULTS
from kclient.spark.record_columns import RecordColumns
from kclient.spark.sending import send_batches

if TYPE_CHECKING:
    import pyarrow

    from kclient import Producer

QUERY = "sql.streaming.queryId"
BATCH = "streaming.sql.batchId"
RUN = "spark.jobGroup.id"
"""Local properties of a stream's jobs. Spark uses the id of the run as the job group, so that it can cancel the
jobs.
"""

SPECULATION = "spark.speculation"
"""The configuration of the session is part of the local properties of each job."""

RUN_DIGITS = 8
"""Digits of a run's id, so that a decision has room for several."""


_log = logging.getLogger(__name__)


class TaskContext(Protocol):
    """The part of PySpark's TaskContext that is used here."""

    def partitionId(self) -> int: ...

    def attemptNumber(self) -> int: ...

    def getLocalProperty(self, key: str) -> str | None: ...


class ExactlyOnce(msgspec.Struct, frozen=True, kw_only=True):
    """Delivers every row once, for readers of committed records.

    Attributes:
        options: the options of the write.
        columns: the columns to write.
        single: for a batch write, its id and that of this attempt; None for a stream.
    """

    options: WriteOptions
    columns: RecordColumns
    single: tuple[str, str] | None = None

    @classmethod
    def of_stream(cls, options: WriteOptions, columns: RecordColumns) -> Self:
        """Return the delivery for the micro-batches of a stream.

        Raises:
            OptionError: options are missing or do not belong to a stream.
        """
        if options.write_id is not None:
            raise OptionError("writeId is for a write that is no stream: a stream has an id, in its checkpoint")
        _check(options)
        return cls(options=options, columns=columns)

    @classmethod
    def of_write(cls, options: WriteOptions, columns: RecordColumns) -> Self:
        """Return the delivery for a batch write.

        Raises:
            OptionError: options are missing.
        """
        _check(options)
        drawn = uuid.uuid4()
        return cls(options=options, columns=columns, single=(options.write_id or str(drawn), drawn.hex[:RUN_DIGITS]))

    def write(self, batches: Iterator[pyarrow.RecordBatch], context: TaskContext) -> TaskResult:
        """Write the rows of one task, unless they are already written."""
        if (context.getLocalProperty(SPECULATION) or "").lower() == "true":
            raise OptionError(
                "delivery=exactly_once does not work with spark.speculation=true: each speculative attempt leaves an "
                "open transaction that blocks readers. Set spark.speculation to false"
            )
        query, task = self._task(context)
        rows = (batch for batch in batches if batch.num_rows)

        def send(producer: Producer, pieces: Iterator[pyarrow.RecordBatch]) -> int:
            return send_batches(producer, pieces, self.columns)

        def size(piece: pyarrow.RecordBatch) -> int:
            return int(piece.num_rows)

        with source_errors(self.options.servers):
            return write_task(self._settings(query), task, rows, send, size)

    def commit(self, written: Sequence[TaskResult | None], batch_id: int) -> None:
        """Decide and complete the batch."""
        known = [one for one in written if one is not None]
        if not known:
            return
        if len(known) < len(written):
            raise ExactlyOnceError(
                f"batch {batch_id} is not committed: {len(written) - len(known)} tasks returned no result"
            )
        with source_errors(self.options.servers):
            commit(self._settings(known[0].query), batch_id, known)

    def abort(self, written: Sequence[TaskResult | None], batch_id: int) -> None:
        """Abort the batch, or complete it if it is already decided; tasks without a result have aborted by themselves.

        The query fails anyway, and its next run does the rest. An error here would hide the cause, because Spark would
        show "Writing job failed" instead of the error of `commit`.
        """
        known = [one for one in written if one is not None]
        if not known:
            return
        try:
            abort(self._settings(known[0].query), batch_id, written)
        except KafkaError as error:
            _log.warning("batch %d was not aborted, which is left to the next run of the query: %s", batch_id, error)

    def _task(self, context: TaskContext) -> tuple[str, TaskAttempt]:
        """Return the id of the query, and the task within it."""
        partition, attempt = context.partitionId(), context.attemptNumber()
        if self.single is not None:
            query, run = self.single
            return query, TaskAttempt(0, run, partition, attempt)
        found = {name: context.getLocalProperty(name) for name in (QUERY, BATCH, RUN)}
        missing = [name for name, value in found.items() if not value]
        if missing:
            raise ExactlyOnceError(
                f"the batch of this task is unknown: Spark did not set {' and '.join(missing)}. "
                "delivery=exactly_once needs a stream in micro-batches, with Spark 4.2 or newer"
            )
        run = str(found[RUN]).replace("-", "")[:RUN_DIGITS]
        return str(found[QUERY]), TaskAttempt(int(str(found[BATCH])), run, partition, attempt)

    def _settings(self, query: str) -> Settings:
        options = self.options
        topic = options.decision_topic or options.topic
        assert topic is not None
        return Settings(
            client=ClientOptions({**DEFAULTS, **options.client}),
            query=query,
            decision_topic=topic,
            repeatable=options.repeatable_input,
            is_stream=self.single is None,
            prefix=options.transactional_id_prefix or PREFIX,
        )


def _check(options: WriteOptions) -> None:
    if options.decision_topic is None and options.topic is None:
        raise OptionError(
            "delivery=exactly_once commits an offset for each batch, and needs a topic for that: the option topic or, "
            "if the rows have a column topic, decisionTopic, which names an existing topic. Nothing is written to it"
        )
    unsafe: Mapping[str, str] = {"enable.idempotence": "false", "acks": "0", "retries": "0"}
    for name, value in unsafe.items():
        if options.client.get(name, "").strip().lower() == value:
            raise OptionError(f"kafka.{name}={value} does not work with delivery=exactly_once")
