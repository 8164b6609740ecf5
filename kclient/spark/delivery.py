"""How rows are delivered: what a task does with its rows, and what the driver does when all tasks are through.

A `Delivery` is chosen by the option `delivery`, pickled, and taken to the executors; the writers (`writer`) only hand
over to it. Here is the one that delivers at least once: a task is done when its rows are delivered, and what an attempt
that failed had delivered stays, so that the next one delivers it again. Leaves out PySpark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kclient.errors import DeliveryError, KafkaTimeoutError
from kclient.spark.errors import SourceError, as_in_spark, told_shortly
from kclient.spark.options import WriteOptions
from kclient.spark.producers import borrow
from kclient.spark.record_columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow

    from kclient import Producer, RowsFuture


class Delivery(Protocol):
    """One way to deliver; what it is made with can be pickled."""

    def write(self, batches: Iterator[pyarrow.RecordBatch], context: Any) -> Any:
        """Write the rows of one task, in an executor; returns what the driver has to know, which is pickled.

        Parameters:
            context: PySpark's TaskContext.
        """

    def commit(self, written: Sequence[Any], batch_id: int) -> None:
        """All tasks of a micro-batch have written: what each returned. In the driver."""

    def abort(self, written: Sequence[Any], batch_id: int) -> None:
        """Tasks of a micro-batch failed, or the commit did; None for those of which nothing is known. In the driver."""


def choose_delivery(options: WriteOptions, columns: RecordColumns, *, is_stream: bool = True) -> Delivery:
    """The way that the options ask for.

    Raises:
        OptionError: what it needs is missing.
    """
    if options.delivery == "at_least_once":
        return AtLeastOnce(options=options, columns=columns)
    # It is made on this module.
    from kclient.spark.exactly_once.delivery import ExactlyOnce

    made = ExactlyOnce.of_stream if is_stream else ExactlyOnce.of_write
    return made(options, columns)


CREATED_WITHIN = 5.0
"""Seconds after which a topic that the brokers create by themselves is there."""


def check_topic(options: WriteOptions) -> None:
    """Look for the topic of all rows before tasks are started, which would wait for it for `max.block.ms`.

    It is no error here that Kafka does not answer: it may do so before the tasks give up.

    Raises:
        SourceError: there is none, and the brokers do not create it; or it may not be written to.
    """
    if options.topic is None:
        return
    with told_shortly(options.servers), borrow(options) as producer:
        try:
            producer.partitions_for(options.topic, timeout=CREATED_WITHIN)
        except KafkaTimeoutError:
            pass


class AtLeastOnce(msgspec.Struct, frozen=True, kw_only=True):
    """Every row is delivered, and more than once where a task or micro-batch is repeated.

    Attributes:
        options: where to.
        columns: what is written.
    """

    options: WriteOptions
    columns: RecordColumns

    def write(self, batches: Iterator[pyarrow.RecordBatch], context: Any = None) -> int:
        """Returns how many rows were delivered."""
        with told_shortly(self.options.servers), borrow(self.options) as producer:
            return send_batches(producer, batches, self.columns)

    def commit(self, written: Sequence[Any], batch_id: int) -> None:
        """Nothing is left to do."""

    def abort(self, written: Sequence[Any], batch_id: int) -> None:
        """What is delivered stays."""


def send_batches(producer: Producer, batches: Iterator[pyarrow.RecordBatch], columns: RecordColumns) -> int:
    """Send the rows of a task, and wait until all are delivered.

    Returns:
        How many there are.

    Raises:
        SourceError: a row cannot be a record, or was not delivered.
        KafkaError: what `send_arrow` raises.
    """
    under_way: deque[RowsFuture] = deque()
    rows = 0
    for batch in batches:
        under_way.append(columns.send(producer, batch))
        rows += batch.num_rows
        while under_way and under_way[0].done():
            _check(under_way.popleft())
    try:
        # Nothing else comes, so that waiting for company is in vain.
        producer.flush()
    except DeliveryError:
        # The rows themselves tell more.
        pass
    for future in under_way:
        _check(future)
    return rows


def _check(future: RowsFuture) -> None:
    """Wait for the rows of a batch."""
    failures = future.failures()
    if failures:
        error = next(iter(failures.values()))
        raise SourceError(f"{len(failures)} of {len(future)} rows were not delivered: {as_in_spark(error)}")
