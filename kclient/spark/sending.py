"""Sends the rows of a task with a producer, and waits for their delivery.

Elsewhere: the choice of the producer, and the consequences of a failed delivery (`delivery`, `exactly_once`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kclient.errors import DeliveryError
from kclient.spark.errors import SourceError, as_in_spark
from kclient.spark.record_columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow

    from kclient import Producer, RowsFuture


def send_batches(producer: Producer, batches: Iterator[pyarrow.RecordBatch], columns: RecordColumns) -> int:
    """Send the rows of a task, and wait until all are delivered.

    Returns:
        The number of rows.

    Raises:
        SourceError: a row cannot be a record, or was not delivered.
        KafkaError: raised by `send_arrow`.
    """
    under_way: deque[RowsFuture] = deque()
    rows = 0
    for batch in batches:
        under_way.append(columns.send(producer, batch))
        rows += batch.num_rows
        while under_way and under_way[0].done():
            _check(under_way.popleft())
    try:
        # No rows follow, so do not wait for linger_ms.
        producer.flush()
    except DeliveryError:
        # The futures below carry the error of each row.
        pass
    for future in under_way:
        _check(future)
    return rows


def _check(future: RowsFuture) -> None:
    """Wait for the delivery of a batch's rows, and raise if any failed."""
    failures = future.failures()
    if failures:
        error = next(iter(failures.values()))
        raise SourceError(f"{len(failures)} of {len(future)} rows were not delivered: {as_in_spark(error)}")
