"""The delivery of rows: what a task does with its rows, and what the driver does when all tasks are done.

The option `delivery` selects a `Delivery`, which is pickled and sent to the executors; the writers (`writer`) call it.
This module has delivery at least once: a task is done when its rows are delivered. Rows of a failed attempt stay, and
the next attempt delivers them again. Elsewhere: PySpark (`writer`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kclient.errors import KafkaTimeoutError
from kclient.spark.errors import source_errors
from kclient.spark.options import WriteOptions
from kclient.spark.producers import borrow
from kclient.spark.record_columns import RecordColumns
from kclient.spark.sending import send_batches

if TYPE_CHECKING:
    import pyarrow


class Delivery(Protocol):
    """A way to deliver rows; it can be pickled."""

    def write(self, batches: Iterator[pyarrow.RecordBatch], context: Any) -> Any:
        """Write the rows of one task in an executor; return what the driver needs, which is pickled.

        Parameters:
            context: PySpark's TaskContext.
        """

    def commit(self, written: Sequence[Any], batch_id: int) -> None:
        """Complete a micro-batch of which all tasks have written; called in the driver with their results."""

    def abort(self, written: Sequence[Any], batch_id: int) -> None:
        """Abort a micro-batch whose tasks or commit failed; called in the driver with the results of tasks, None for
        failed ones.
        """


def choose_delivery(options: WriteOptions, columns: RecordColumns, *, is_stream: bool = True) -> Delivery:
    """Return the delivery that the options select.

    Raises:
        OptionError: an option that it needs is missing.
    """
    if options.delivery == "at_least_once":
        return AtLeastOnce(options=options, columns=columns)
    # Spark imports writers in each of many processes, and importing an admin client and that package takes 50 ms.
    from kclient.spark.exactly_once.delivery import ExactlyOnce

    made = ExactlyOnce.of_stream if is_stream else ExactlyOnce.of_write
    return made(options, columns)


CREATED_WITHIN = 5.0
"""The seconds within which brokers create a topic on first use."""


def check_topic(options: WriteOptions) -> None:
    """Check that the topic exists before tasks start, which would wait for it for `max.block.ms`.

    Unreachable brokers are no error here, because they may become reachable before the tasks fail.

    Raises:
        SourceError: the topic does not exist and the brokers do not create it; or writing to it is not permitted.
    """
    if options.topic is None:
        return
    with source_errors(options.servers), borrow(options) as producer:
        try:
            producer.partitions_for(options.topic, timeout=CREATED_WITHIN)
        except KafkaTimeoutError:
            pass


class AtLeastOnce(msgspec.Struct, frozen=True, kw_only=True):
    """Delivers every row, and again if a task or micro-batch is repeated.

    Attributes:
        options: the options of the write.
        columns: the columns to write.
    """

    options: WriteOptions
    columns: RecordColumns

    def write(self, batches: Iterator[pyarrow.RecordBatch], context: Any = None) -> int:
        """Write the rows of a task, and return their number."""
        with source_errors(self.options.servers), borrow(self.options) as producer:
            return send_batches(producer, batches, self.columns)

    def commit(self, written: Sequence[Any], batch_id: int) -> None:
        """Do nothing: the rows are delivered."""

    def abort(self, written: Sequence[Any], batch_id: int) -> None:
        """Do nothing: delivered rows stay."""
