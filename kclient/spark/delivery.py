"""How rows are delivered: what a task does with its rows, and what the driver does when all tasks are through.

A `Delivery` is chosen by the option `delivery`, pickled, and taken to the executors; the writers (`writer`) only hand
over to it. Here is the one that delivers at least once: a task is done when its rows are delivered, and what an attempt
that failed had delivered stays, so that the next one delivers it again. Leaves out PySpark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kclient.errors import KafkaTimeoutError
from kclient.spark.errors import told_shortly
from kclient.spark.options import WriteOptions
from kclient.spark.producers import borrow
from kclient.spark.record_columns import RecordColumns
from kclient.spark.sending import send_batches

if TYPE_CHECKING:
    import pyarrow


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
    # Spark imports its writers in each of many processes: an admin client and the rest of that package take 50 ms.
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
