"""The logic of `send_arrow`, as an operation for both producers.

Rows are copied from Arrow's buffers into batches. A row that cannot be appended yet, because the topic is unknown or
the buffer is full, becomes a normal record and waits as in `send`; then the next rows are appended. Elsewhere: how rows
are read (`kclient.records`) and waited for (`rows_future`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kclient.errors import IllegalStateError, KafkaError
from kclient.net.operation import Operation
from kclient.producer.record_serializer import SerializedRecord
from kclient.producer.rows_future import Placement, RowsFuture
from kclient.records import ArrowRows, RowColumns, arrow_pieces, row_arguments

if TYPE_CHECKING:
    from kclient.producer.core import ProducerCore

ROWS_PER_TURN = 8192
"""The number of rows appended in one go; between them Ctrl-C is handled, and other tasks of an event loop run."""


class RowsCall:
    """One `send_arrow`; the parameters are its own.

    Attributes:
        turns: the rows of each go, in order: record batch, first row, end.
        future: its result.

    Raises:
        IllegalStateError, ClosedError: the producer is in another state, or has interceptors.
        TypeError, ValueError: the data is invalid; nothing is sent.
        RecordTooLargeError: a row is too large; nothing is sent.
    """

    def __init__(self, core: ProducerCore, topic: str | None, data: Any, columns: RowColumns) -> None:
        core.check_send()
        if core.serializer.intercepts:
            raise IllegalStateError("interceptors see records one by one; send_arrow needs a producer without them")
        if (topic is None) == (columns.topic is None):
            raise TypeError("send_arrow takes a topic, or the name of a column of topics (topic_column)")
        if topic is not None and not isinstance(topic, str):
            raise TypeError(f"a topic is a str, not {type(topic).__name__}")
        self._core = core
        self.turns: list[tuple[ArrowRows, int, int]] = []
        length = 0
        for piece in arrow_pieces(data):
            rows = ArrowRows(**row_arguments(piece, columns, topic, length))
            row, size = rows.largest()
            core.check_size(size, rows.record(row)[0], what=f"row {length + row}")
            self.turns += [
                (rows, start, min(start + ROWS_PER_TURN, len(rows))) for start in range(0, len(rows), ROWS_PER_TURN)
            ]
            length += len(rows)
        self._placement = Placement(length)
        self.future = RowsFuture(self._placement)

    def append(self, rows: ArrowRows, start: int, stop: int) -> Operation[None]:
        """Return once the rows of a turn are in batches."""
        core, row = self._core, start
        while row < stop:
            if core.has_default_partitioner:
                row = core.accumulator.append_rows(rows, self._placement, row, stop)
                if row == stop:
                    return
            topic, value, key, headers, partition, timestamp = rows.record(row)
            record = SerializedRecord(topic, value, key, headers, partition, timestamp)
            try:
                future = yield from core.append_in_time(record)
            except KafkaError as error:
                # Some errors are one object for many calls, which must not grow with each of them.
                if not getattr(error, "__notes__", None):
                    error.add_note(f"this was row {rows.first + row} of {len(self.future)}; those before it are sent")
                raise
            self._placement.add(rows.first + row, future._result, future.index)
            row += 1
